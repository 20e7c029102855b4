package weka

import (
	"fmt"
	"math"
	"math/bits"
	"sort"

	"github.com/agentx/agentx/internal/timeline"
	"github.com/agentx/agentx/mmapcache"
)

// Notes are what planning a trace found worth telling; nothing of them is an error.
type Notes struct {
	Unknown   map[string]int // keys and types that were tolerated, by name
	Dropped   []string       // agents whose marker stands before any request of the trace
	Ambiguous int            // markers whose clock was guessed
}

// MakePlan turns a trace into sessions, turns, segments and blocks. The error is always an *Error.
func MakePlan(tr *Trace, r Rules) (*mmapcache.Plan, Notes, error) {
	p := planner{tr: tr, rules: r, blockSize: int(tr.BlockSize), plan: &mmapcache.Plan{}}
	if r.BlockSize > 0 {
		p.blockSize = r.BlockSize
	}
	p.notes.Unknown = tr.Unknown
	if err := p.run(); err != nil {
		err.Trace = tr.ID
		return nil, p.notes, err
	}
	return p.plan, p.notes, nil
}

type planner struct {
	tr        *Trace
	rules     Rules
	blockSize int
	plan      *mmapcache.Plan
	notes     Notes
	numbers   map[string]*numbering // by scope
	blocks    uint32                // numbered so far
	queries   []query               // every turn, for the prefix cache
}

// turn is a request placed in a conversation.
type turn struct {
	*Request
	t            float64 // on the root clock, seconds
	outer, inner int
}

// query is what the theoretical prefix cache is asked: section 8.
type query struct {
	t     float64
	order [3]int // outer index, chain, turn: decides among equal times
	turn  int    // in the plan
	scope *numbering
	list  []span
}

func (p *planner) run() *Error {
	var main []turn
	for k := range p.tr.Entries {
		if e := &p.tr.Entries[k]; e.Marker == nil {
			main = append(main, turn{&e.Request, e.T, k, mmapcache.None})
		}
	}
	tr := p.tr
	p.plan.Trace = mmapcache.Trace{ID: tr.ID, Scope: tr.Scope.String(), BlockSize: uint32(p.blockSize)}
	root := mmapcache.Session{ID: tr.ID, Kind: mmapcache.Main, Parent: mmapcache.None, SpawnTurn: mmapcache.None,
		JoinTurn: mmapcache.None, Start: math.NaN(), End: math.NaN()}
	if err := p.session(root, tr.Scope.Name(tr.ID, "", p.blockSize), main, tr.ToolTokens, tr.SystemTokens); err != nil {
		return err
	}
	agents := map[string]bool{}
	for k := range tr.Entries {
		if m := tr.Entries[k].Marker; m != nil {
			if err := p.subagent(m, k, main, agents); err != nil {
				return err
			}
		}
	}
	p.prefixCache()
	p.plan.Trace.Blocks = p.blocks
	return nil
}

// subagent plans the session of one marker: sections 5.5 to 5.7 and 6.7.
func (p *planner) subagent(m *Marker, outer int, main []turn, agents map[string]bool) *Error {
	if len(main) == 0 || main[0].outer > outer {
		p.notes.Dropped = append(p.notes.Dropped, m.AgentID)
		return nil
	}
	if agents[m.AgentID] {
		return &Error{Fault: DuplicateID, Where: fmt.Sprintf("requests[%d]", outer), Why: fmt.Sprintf("a second subagent with agent_id %q", m.AgentID)}
	}
	agents[m.AgentID] = true
	clock := m.Clock(p.rules)
	if clock.Ambiguous {
		p.notes.Ambiguous++
	}
	turns := make([]turn, len(m.Requests))
	for k := range m.Requests {
		turns[k] = turn{&m.Requests[k], clock.Times[k], outer, k}
	}
	sort.SliceStable(turns, func(i, j int) bool { return turns[i].t < turns[j].t })

	spawn, join := branch(main, outer, clock.End)
	s := mmapcache.Session{
		ID: p.tr.ID + "::sa:" + m.AgentID, Agent: m.AgentID, Kind: mmapcache.Subagent, Parent: 0,
		SpawnTurn: int32(spawn), JoinTurn: int32(join), Start: clock.Start, End: clock.End,
		Clock: clock.Basis + "/" + clock.Reading,
	}
	if len(turns) > 0 {
		at := main[spawn]
		s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(at.t, seconds(at.APITime), turns[0].t)
	}
	scope := p.tr.Scope.Name(p.tr.ID, m.AgentID, p.blockSize)
	return p.session(s, scope, turns, m.ToolTokens, m.SystemTokens)
}

// branch returns the main turn that spawns what stands at the outer index, and the one that waits for its end,
// mmapcache.None where nobody does. Some main turn stands before outer.
func branch(main []turn, outer int, end float64) (spawn, join int) {
	for k, t := range main {
		if t.outer < outer {
			spawn = k
		}
	}
	for k, t := range main {
		if t.outer > outer && t.t+eps >= end && k > spawn {
			return spawn, k
		}
	}
	return spawn, mmapcache.None
}

func seconds(s Seconds) float64 {
	if !s.OK {
		return timeline.Missing
	}
	return s.V
}

// session plans one conversation: its turns, and the segments of their prompts.
func (p *planner) session(s mmapcache.Session, scope string, turns []turn, tool, system int64) *Error {
	s.FirstTurn, s.Turns = uint32(len(p.plan.Turns)), uint32(len(turns))
	p.plan.Sessions = append(p.plan.Sessions, s)
	chain := len(p.plan.Sessions) - 1

	common := make([]int, len(turns))
	shapes := make([]Geometry, len(turns))
	for k, t := range turns {
		shapes[k] = geometry(p.blockSize, t.IDs.Len, int(t.In))
		if k > 0 {
			common[k] = commonPrefix(turns[k-1].IDs, t.IDs)
		}
	}
	repaired := p.rules.LengthRule == "repaired"
	caps := assistantCaps(common, shapes, repaired)
	buf := buffer{blockSize: p.blockSize, repaired: repaired, plan: p.plan}
	numbers := p.numbering(scope)
	var list []span // blocks of the turn's hash_ids
	for k, t := range turns {
		row := len(p.plan.Turns)
		list = p.number(numbers, cut(nil, list, 0, common[k]), t.IDs, common[k])
		covered := cut(nil, list, 0, shapes[k].Covered)
		if k == 0 {
			if err := buf.init(shapes[k], t.IDs.Len, covered, tool, system, uint32(row)); err != nil {
				e := err.(*Error)
				e.Where = fmt.Sprintf("session %q", s.ID)
				return e
			}
		} else {
			buf.advance(shapes[k], covered, advanceStep{
				common: common[k], prevOut: turns[k-1].Out, cap: caps[k],
				fillerOf: uint32(row),
			})
		}
		p.plan.Turns = append(p.plan.Turns, mmapcache.Turn{
			T: t.t, APITime: seconds(t.APITime), ThinkTime: seconds(t.ThinkTime),
			In: uint32(t.In), Out: int32(t.Out), IDs: uint32(t.IDs.Len), Last: buf.last(),
			Outer: uint32(t.outer), Inner: int32(t.inner), Model: p.tr.Models[t.Model], Input: inputKind(turns, k),
		})
		p.queries = append(p.queries, query{t.t, [3]int{t.outer, chain, k}, row, numbers, list})
	}
	return nil
}

// inputKind says what the new input of turn k is: section 4.7.
func inputKind(turns []turn, k int) mmapcache.InputKind {
	switch t := turns[k]; {
	case t.Input == InputTool:
		return mmapcache.ToolResult
	case t.Input == InputUser:
		return mmapcache.UserInput
	case k == 0 || turns[k-1].Stop == StopUnknown:
		return mmapcache.InputUnknown
	case turns[k-1].Stop == StopTool:
		return mmapcache.ToolResult
	}
	return mmapcache.UserInput
}

// numbering gives the blocks of one scope dense numbers in order of first appearance. Ids come in ascending runs, so
// it looks them up a page at a time.
type numbering struct {
	scope string
	pages map[int64]*[pageIDs]uint32 // block number plus 1, 0 where the id has none
	seen  []uint64                   // blocks an unlimited cache holds, one bit each; all scopes share the numbers
}

const pageIDs = 16

func (p *planner) numbering(scope string) *numbering {
	if n := p.numbers[scope]; n != nil {
		return n
	}
	if p.numbers == nil {
		p.numbers = map[string]*numbering{}
	}
	n := &numbering{scope: scope, pages: map[int64]*[pageIDs]uint32{}}
	p.numbers[scope] = n
	return n
}

// number appends the blocks of a list, from its id number skip on, to dst.
func (p *planner) number(n *numbering, dst []span, ids IDs, skip int) []span {
	for _, r := range ids.Runs {
		if skip >= r.N {
			skip -= r.N
			continue
		}
		for k := skip; k < r.N; k++ {
			b := p.block(n, r.First+int64(k))
			if e := len(dst) - 1; e >= 0 && dst[e].first+dst[e].n == b {
				dst[e].n++
			} else {
				dst = append(dst, span{b, 1})
			}
		}
		skip = 0
	}
	return dst
}

// block returns the number of a hash id, a new one where it is seen for the first time.
func (p *planner) block(n *numbering, id int64) uint32 {
	page := n.pages[id>>4]
	if page == nil {
		page = new([pageIDs]uint32)
		n.pages[id>>4] = page
	}
	slot := &page[id&(pageIDs-1)]
	if *slot == 0 {
		b := p.blocks
		p.blocks++
		*slot = b + 1
		if e := len(p.plan.Runs) - 1; e >= 0 {
			if run := &p.plan.Runs[e]; run.Scope == n.scope && run.ID+int64(run.Count) == id {
				run.Count++
				return b
			}
		}
		p.plan.Runs = append(p.plan.Runs, mmapcache.BlockRun{Scope: n.scope, ID: id, First: b, Count: 1})
	}
	return *slot - 1
}

// prefixCache counts for every turn how many of its ids an unlimited cache shared by the scope would hold: the legacy
// rule of section 8, which takes requests in order of their start and ids as stored at once.
//
// Requests of a global scope are counted within their trace.
func (p *planner) prefixCache() {
	sort.SliceStable(p.queries, func(i, j int) bool {
		a, b := p.queries[i], p.queries[j]
		if a.t != b.t {
			return a.t < b.t
		}
		for k := range a.order {
			if a.order[k] != b.order[k] {
				return a.order[k] < b.order[k]
			}
		}
		return false
	})
	for _, n := range p.numbers {
		n.seen = make([]uint64, (p.blocks+63)/64)
	}
	for _, q := range p.queries {
		hit, leading := 0, true
		for _, s := range q.list {
			if leading {
				k := leadingOnes(q.scope.seen, s)
				hit += k
				leading = k == int(s.n)
			}
			if !leading {
				setOnes(q.scope.seen, s)
			}
		}
		p.plan.Turns[q.turn].Hits = uint32(hit)
	}
}

// leadingOnes returns how many bits from s.first on are set, at most s.n.
func leadingOnes(set []uint64, s span) int {
	for at, end := s.first, s.first+s.n; at < end; {
		word := set[at/64] >> (at % 64)
		ones := uint32(bits.TrailingZeros64(^word))
		if ones < 64-at%64 || at+ones >= end {
			return int(min(at+ones, end) - s.first)
		}
		at += ones
	}
	return int(s.n)
}

func setOnes(set []uint64, s span) {
	for at, end := s.first, s.first+s.n; at < end; {
		n := min(64-at%64, end-at)
		set[at/64] |= (^uint64(0) >> (64 - n)) << (at % 64)
		at += n
	}
}
