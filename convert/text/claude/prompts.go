package claude

import (
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/claude/rows"
)

// prompt is the one that is being built.
type prompt struct {
	of      int32   // reply
	path    []int32 // rows, the last first
	passed  []int32 // boundaries behind which the path goes through what was kept
	open    []int32 // rows of the user that are of one message
	node    int32   // the last message that is complete
	last    int32   // reply; None
	grew    bool    // the prompt of that one begins this one unchanged
	late    bool    // another prompt may have more of the same: results may stand behind the reply, or its path is a circle
	at, got int64   // latest instants of what is new: of all, of results

	epoch   int32 // of the boundaries of a chain
	seen    []int32
	mark    int32 // in seen: the row is on the path; 1 more: it is taken
	cleared map[text.Text]bool
	notice  text.Text // stands for what the client cleared
}

// maxNear is how many rows may stand between two replies before the path is walked to its end.
const maxNear = 1 << 16

// prompts builds the prompts of a chain.
func (f *forest) prompts(n int32) {
	f.epoch++
	for _, i := range f.RowsOf(n) {
		switch w := &f.Rows[i]; {
		case w.Kind == rows.Compact || w.Kind == rows.Clear:
			f.epoch++
		case f.begins(i) && f.replies[f.replyOf[i]].turn != text.None:
			f.build(f.replyOf[i])
		}
	}
}

// turn returns the turn of a reply.
func (f *forest) turn(q int32) *text.Turn {
	return &f.agents[f.replies[q].chain].turns[f.replies[q].turn]
}

// build builds the prompt of a reply.
func (f *forest) build(q int32) {
	p := &f.replies[q]
	f.of, f.node, f.last, f.grew, f.late, f.at, f.got = q, text.None, text.None, false, false, text.NoTime, text.NoTime
	f.mark += 2
	if before := f.near(p); before != text.None {
		f.node, f.cleared = f.turn(before).Last, f.replies[before].cleared
		f.answer(before)
	} else {
		f.walk(p)
	}
	for k := len(f.path) - 1; k >= 0; k-- {
		switch i := f.path[k]; f.Rows[i].Kind {
		case rows.User:
			f.take(i)
		case rows.Assistant:
			f.answer(f.replyOf[i])
		}
	}
	f.flush()
	p.epoch, p.settled, p.cleared = f.epoch, !f.late, f.cleared
	turn := f.turn(q)
	turn.Last, turn.At, turn.LastResult = f.node, f.at, f.got
	if turn.At == text.NoTime {
		turn.At = f.Rows[p.first].At
	}
	if turn.Last == text.None {
		f.Data.Warn("empty_prompt")
	}
	if f.last == text.None || f.replies[f.last].chain != p.chain || f.replies[f.last].turn == text.None {
		return
	}
	before := f.turn(f.last)
	turn.Before = f.replies[f.last].turn
	if f.replies[f.last].followed {
		f.Data.Warn("rewind")
	}
	f.replies[f.last].followed = true
	if f.grew && turn.In != text.None && before.In-turn.In > 1000 {
		f.Data.Warn("shrunk")
	}
}

// near finds the path between a reply and the one before it, whose prompt begins this one: it is of the same chain, and nothing has
// changed since. It returns None where the path has to be walked to its end.
func (f *forest) near(p *reply) int32 {
	f.path = f.path[:0]
	before := int32(text.None)
	if p.early {
		return before
	}
	for below, i := p.first, f.Up[p.first]; i != text.None && len(f.path) < f.reach; below, i = i, f.Up[i] {
		w := &f.Rows[i]
		if w.Chain != p.chain || w.Kind == rows.Compact || f.turnsOff(below) {
			break
		}
		if q := f.replyOf[i]; q != text.None {
			if before == text.None {
				before = q
			}
			if q != before || q == several {
				break
			}
			if b := &f.replies[before]; b.first == i {
				if b.epoch != f.epoch || !b.settled || b.early {
					break
				}
				for _, i := range f.path {
					f.seen[i] = f.mark
				}
				return before
			}
		}
		f.path = append(f.path, i)
	}
	return text.None
}

// walk finds the path from a reply to the beginning of its prompt.
func (f *forest) walk(p *reply) {
	f.path, f.passed = f.path[:0], f.passed[:0]
	for i := f.up(p.first); i != text.None; i = f.up(i) {
		if f.seen[i] == f.mark {
			f.late = true
			f.Data.Warn("cycle")
			break
		}
		f.seen[i] = f.mark
		if f.Rows[i].Kind == rows.Compact {
			if s, ok := f.Summaries[i]; ok && f.seen[s] != f.mark {
				f.seen[s] = f.mark
				f.path = append(f.path, s)
			}
			break
		}
		f.path = append(f.path, i)
	}
	f.cleared = nil
	for _, c := range f.Clearings {
		if f.Rows[c.Row].Kind == rows.Copied || !f.applies(c.Row) {
			continue
		}
		if f.cleared == nil {
			f.cleared = map[text.Text]bool{}
		}
		for _, id := range c.Calls {
			f.cleared[id] = true
		}
	}
}

// turnsOff reports whether a path may go on elsewhere than at the row before.
func (f *forest) turnsOff(i int32) bool {
	_, moved := f.Moved[i]
	_, behind := f.Behind[f.Up[i]]
	return moved || behind
}

// up returns the row before a row on the path.
func (f *forest) up(i int32) int32 {
	if d, ok := f.Moved[i]; ok && f.applies(d.Boundary) {
		return d.To
	}
	up := f.Up[i]
	if d, ok := f.Behind[up]; ok && (!f.Before(up, d.Boundary) || f.applies(d.Boundary)) {
		f.passed = append(f.passed, d.Boundary)
		return d.To
	}
	return up
}

// applies reports whether the prompt was made behind a boundary: the reply stands behind it, or a row of its path does.
func (f *forest) applies(boundary int32) bool {
	chain, first := f.Rows[boundary].Chain, f.replies[f.of].first
	if f.Rows[first].Chain == chain {
		return f.Before(boundary, first)
	}
	if slices.Contains(f.passed, boundary) {
		return true
	}
	for _, i := range f.path {
		if f.Rows[i].Chain == chain && f.Before(boundary, i) {
			return true
		}
	}
	return false
}

// take adds a row of the user.
func (f *forest) take(i int32) {
	w := &f.Rows[i]
	if f.seen[i] == f.mark+1 || f.options.DropMeta && w.Flags&rows.IsMeta != 0 {
		return
	}
	f.seen[i] = f.mark + 1
	f.open = append(f.open, i)
	f.at = max(f.at, w.At)
	if q := f.replyOf[i]; q >= 0 {
		f.replies[q].early = f.replies[q].early || f.replies[q].epoch == 0
	} else if q == several {
		f.late = true
	}
	if w.Flags&rows.HasResult != 0 {
		f.got = max(f.got, w.At)
	}
	for _, a := range f.waiting[i] {
		f.agents[a].joins = append(f.agents[a].joins, f.of)
	}
}

// answer adds a reply and the results of its calls. A result on the path goes before others of the same call.
func (f *forest) answer(q int32) {
	p := &f.replies[q]
	if f.late = f.late || q == f.of; q == f.of || f.seen[p.first] == f.mark+1 {
		return
	}
	f.seen[p.first] = f.mark + 1
	p.early = p.early || p.epoch == 0
	f.flush()
	chain := f.replies[f.of].chain
	f.grew = p.epoch > 0 && p.chain == chain && f.turn(q).Last == f.node
	if p.message != text.None {
		f.node = f.agents[chain].trace.Child(f.node, p.message)
	}
	f.last, f.at, f.got = q, text.NoTime, text.NoTime
	for from, to := 0, 0; from < len(p.results); from = to {
		onPath := false
		for ; to < len(p.results) && p.results[to].call == p.results[from].call; to++ {
			onPath = onPath || f.seen[p.results[to].row] >= f.mark
		}
		for _, r := range p.results[from:to] {
			first := f.replies[f.of].first
			before := f.seen[r.row] >= f.mark || f.Before(r.row, first)
			f.late = f.late || !before
			if f.seen[r.row] >= f.mark || !onPath && (before || f.Rows[r.row].At <= f.Rows[first].At) {
				f.take(r.row)
			}
		}
	}
}

// flush ends the message of the user.
func (f *forest) flush() {
	var parts []text.Part
	for _, i := range f.open {
		more := f.Parts(i)
		for k := range more {
			if p := &more[k]; p.Kind == text.Result && f.cleared[p.ID] {
				p.Parts = []text.Part{{Kind: text.Plain, Text: f.notice}}
			}
		}
		parts = append(parts, more...)
	}
	if f.open = f.open[:0]; len(parts) > 0 {
		f.node = f.agents[f.replies[f.of].chain].trace.Child(f.node, f.Data.Message(text.Message{Role: text.User, Parts: parts}))
	}
}
