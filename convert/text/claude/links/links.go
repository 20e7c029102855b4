// Package links puts the rows of logs of Claude Code in order, drops copies, and finds the row before each: doc/spec/text.md 4.1.
//
//	forest := links.New(log)
//	for i, row := range forest.InOrder {
//		before := forest.Up[i] // None: a prompt begins there
//	}
package links

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/claude/rows"
)

// Forest is the rows of all files, linked.
type Forest struct {
	*rows.Log
	Up        []int32          // the row before each; None
	Branches  []Branch         // by chain
	Sessions  []Session        // by their first rows
	Summaries map[int32]int32  // rows, by the compaction that they stand behind
	Moved     map[int32]Detour // where the path of a row goes on that a compaction keeps
	Behind    map[int32]Detour // and that of a row behind an anchor

	files  []int32 // in their order
	ranks  []int32 // of each file in it
	index  map[xxh3.Uint128]int32
	listed []int32 // rows of each branch, in order
}

// Branch is the rows of a chain.
type Branch struct {
	Rows   int32 // how many
	from   int32 // in Forest.listed
	last   int32 // row, while rows are linked
	linked bool  // a row names a parent that exists
}

// Session is the chains of a session, its own first if it has rows.
type Session struct {
	Name   int32
	Chains []int32
}

// Detour is where the path of a prompt goes on that was made behind a compaction.
type Detour struct{ Boundary, To int32 }

// New links the rows of a log.
func New(log *rows.Log) *Forest {
	f := &Forest{Log: log, Up: make([]int32, len(log.Rows)), Branches: make([]Branch, len(log.Chains)), Summaries: map[int32]int32{},
		Moved: map[int32]Detour{}, Behind: map[int32]Detour{}, index: make(map[xxh3.Uint128]int32, len(log.Rows))}
	log.End()
	f.orderFiles()
	f.dropCopies()
	f.findParents()
	f.fillGaps()
	f.detours()
	f.index, f.IDs = nil, nil
	f.list()
	return f
}

// orderFiles puts files in order: one that was there first has the rows that others copy.
func (f *Forest) orderFiles() {
	f.ranks = make([]int32, len(f.Files))
	for k := range f.Files {
		f.files = append(f.files, int32(k))
	}
	slices.SortStableFunc(f.files, func(a, b int32) int {
		x, y := &f.Files[a], &f.Files[b]
		return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(min(x.Agent, 1), min(y.Agent, 1)), cmp.Compare(x.Last, y.Last), cmp.Compare(x.Path, y.Path))
	})
	for rank, k := range f.files {
		f.ranks[k] = int32(rank)
	}
}

// InOrder yields the rows that are no copies, in the order of files.
func (f *Forest) InOrder(yield func(int32, *rows.Row) bool) {
	for _, k := range f.files {
		for i := f.Files[k].From; i < f.Files[k].To; i++ {
			if w := &f.Rows[i]; w.Kind != rows.Copied && !yield(i, w) {
				return
			}
		}
	}
}

// Before reports whether a row stands before another.
func (f *Forest) Before(a, b int32) bool {
	if x, y := f.Rows[a].File, f.Rows[b].File; x != y {
		return f.ranks[x] < f.ranks[y]
	}
	return a < b
}

// dropCopies drops rows that have been there, and those in progress rows of agents that have rows of their own.
func (f *Forest) dropCopies() {
	for i, w := range f.InOrder {
		if w.Flags&rows.IsProgress != 0 && (f.Chains[w.Chain].Own || f.Rows[i-1].Kind == rows.Copied) {
			w.Kind = rows.Copied
			continue
		}
		if _, known := f.index[f.IDs[i].Row]; known {
			w.Kind = rows.Copied
			f.Data.Warn("copied_row")
			continue
		}
		if id := f.IDs[i].Row; id != (xxh3.Uint128{}) {
			f.index[id] = i
		}
		f.Count(i)
	}
}

// findParents finds the rows that rows name as those before them, and the agents of sidechains that name none.
func (f *Forest) findParents() {
	for i, w := range f.InOrder {
		up, ok := f.index[f.IDs[i].Parent]
		if f.Up[i] = text.None; ok && w.Flags&rows.IsProgress == 0 {
			f.Up[i] = up
		}
	}
	for i, w := range f.InOrder {
		if w.Flags&rows.IsInline != 0 {
			f.settle(i, w)
		}
		b := &f.Branches[w.Chain]
		b.Rows++
		b.linked = b.linked || f.Up[i] != text.None
	}
}

// settle gives a row of a sidechain without a name to the agent that the first row of the sidechain stands for.
func (f *Forest) settle(i int32, w *rows.Row) {
	root := i
	for range f.Rows { // a circle ends there, and is settled then
		up := f.Up[root]
		if f.Rows[root].Flags&rows.IsSettled != 0 || up == text.None || f.Rows[up].Flags&rows.IsInline == 0 {
			break
		}
		root = up
	}
	w.Chain = f.Rows[root].Chain
	w.Flags |= rows.IsSettled
}

// fillGaps puts rows whose parent is nowhere, rows of chains without links, and rows of progress rows behind the row before of their chain.
func (f *Forest) fillGaps() {
	for k := range f.Branches {
		f.Branches[k].last = text.None
	}
	for i, w := range f.InOrder {
		b := &f.Branches[w.Chain]
		switch {
		case f.Up[i] != text.None:
		case w.Flags&rows.IsProgress != 0:
			f.Up[i] = b.last
		case !b.linked && b.Rows > 1:
			if f.Up[i] = b.last; b.last == text.None {
				f.Data.Warn("flat_session")
			}
		case f.IDs[i].Parent != (xxh3.Uint128{}):
			f.Up[i] = b.last
			f.Data.Warn("missing_parent")
		}
		b.last = i
	}
}

// detours finds the rows that compactions move, and the summaries behind them.
func (f *Forest) detours() {
	for i, w := range f.InOrder {
		if up := f.Up[i]; w.Flags&rows.IsSummary != 0 && up != text.None && f.Rows[up].Kind == rows.Compact {
			f.Summaries[up] = i
		}
	}
	for _, s := range f.Splices {
		anchor, ok := f.index[s.Anchor]
		if !ok || f.Rows[s.Boundary].Kind == rows.Copied {
			continue
		}
		to := anchor
		for k, id := range s.Kept {
			i, ok := f.index[id]
			if !ok {
				continue
			}
			if k == 0 || !s.Segment {
				f.Moved[i] = Detour{s.Boundary, to}
			}
			to = i
		}
		f.Behind[anchor] = Detour{s.Boundary, to}
	}
}

// list lists the rows of each chain, and the sessions.
func (f *Forest) list() {
	numbers := map[int32]int{}
	total := int32(0)
	for _, w := range f.InOrder {
		b, c := &f.Branches[w.Chain], &f.Chains[w.Chain]
		if b.last == text.None {
			continue
		}
		n, known := numbers[c.Session]
		if !known {
			n = len(f.Sessions)
			numbers[c.Session] = n
			f.Sessions = append(f.Sessions, Session{Name: c.Session})
		}
		if s := &f.Sessions[n]; c.Agent == 0 {
			s.Chains = slices.Insert(s.Chains, 0, w.Chain)
		} else {
			s.Chains = append(s.Chains, w.Chain)
		}
		b.from, b.last = total, text.None
		total += b.Rows
	}
	f.listed = make([]int32, total)
	for i, w := range f.InOrder {
		b := &f.Branches[w.Chain]
		b.last++
		f.listed[b.from+b.last] = i
	}
}

// RowsOf returns the rows of a chain, in order.
func (f *Forest) RowsOf(chain int32) []int32 {
	b := &f.Branches[chain]
	return f.listed[b.from : b.from+b.Rows]
}
