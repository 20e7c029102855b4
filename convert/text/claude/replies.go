package claude

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/claude/rows"
)

// reply is the rows of one reply of the model.
type reply struct {
	first    int32 // row
	chain    int32
	turn     int32              // of the chain; None: it is a copy
	message  int32              // as prompts have it; None: it is empty
	epoch    int32              // in which its prompt was built; 0: not yet
	settled  bool               // its prompt is the same for those that stand behind it
	early    bool               // a prompt that was built before its own has rows of it, or of its results
	followed bool               // another reply is behind it
	cleared  map[text.Text]bool // calls whose results are, in its prompt
	results  []result
}

// result is a row with the result of a call of a reply.
type result struct{ row, call int32 }

// several in forest.replyOf says that a row has results of calls of several replies.
const several = -2

// draft is a reply whose rows are being joined.
type draft struct {
	parts  []text.Part
	counts [4]int32
	model  text.Text
	stop   int32
	end    int64
}

// readReplies joins the rows of the replies of a chain, and finds the results of their calls.
func (f *forest) readReplies(n int32) {
	a := &f.agents[n]
	known := map[uint64]int32{}
	first := len(f.replies)
	var drafts []draft
	for _, i := range f.RowsOf(n) {
		w := &f.Rows[i]
		if w.Kind != rows.Assistant {
			continue
		}
		s := f.Said(i)
		q, ok := known[s.Key]
		if !ok {
			q = int32(len(f.replies))
			known[s.Key] = q
			f.replies = append(f.replies, reply{first: i, chain: n, turn: f.newTurn(a, s.Key, w.At), message: text.None})
			drafts = append(drafts, draft{end: text.NoTime})
		}
		f.replyOf[i] = q
		d := &drafts[int(q)-first]
		if len(d.parts) > 0 && f.goesOn(d.parts, s.Parts) {
			d.parts = s.Parts
			f.Data.Warn("snapshot_rows")
		} else {
			d.parts = append(d.parts, s.Parts...)
		}
		for k := range d.counts {
			d.counts[k] = max(d.counts[k], s.Counts[k])
		}
		d.model, d.stop, d.end = cmp.Or(d.model, s.Model), cmp.Or(s.Stop, d.stop), max(d.end, w.At)
	}
	a.turns = slices.Clone(a.turns) // without room for more
	calls := map[text.Text]result{}
	for k := range drafts {
		f.complete(int32(first+k), &drafts[k], calls)
	}
	f.readResults(n, calls)
}

// newTurn returns a turn of an agent for a reply, None for one that has been there in the same instant: an agent that goes on from the
// rows of its session has copies of them, with uuids of their own.
func (f *forest) newTurn(a *agent, key uint64, at int64) int32 {
	if before, known := f.told[key]; known && before == at {
		f.Data.Warn("copied_row")
		return text.None
	}
	f.told[key] = at
	a.turns = append(a.turns, text.NewTurn())
	return int32(len(a.turns) - 1)
}

// begins reports whether a row is the first of a reply.
func (f *forest) begins(i int32) bool {
	return f.Rows[i].Kind == rows.Assistant && f.replies[f.replyOf[i]].first == i
}

// goesOn reports whether a row repeats the parts of a reply so far, with texts that go on.
func (f *forest) goesOn(before, now []text.Part) bool {
	if len(now) < len(before) {
		return false
	}
	for k := range before {
		switch a, b := &before[k], &now[k]; {
		case a.Kind != b.Kind || a.ID != b.ID || a.Name != b.Name:
			return false
		case a.Text == b.Text || a.Kind == text.Call && a.ID != 0:
		case a.Kind != text.Plain && a.Kind != text.Thinking || f.Data.Store.Len(a.Text) > f.Data.Store.Len(b.Text):
			return false
		default:
			x, _ := f.Data.Store.Append(nil, a.Text)
			y, _ := f.Data.Store.Append(nil, b.Text)
			if !bytes.HasPrefix(y, x) {
				return false
			}
		}
	}
	return true
}

// complete makes the turn of a reply. calls gets its calls: the reply, and the place of the call in it.
func (f *forest) complete(q int32, d *draft, calls map[text.Text]result) {
	p := &f.replies[q]
	if len(d.parts) > 0 {
		p.message = f.Data.Message(text.Message{Role: text.Assistant, Parts: d.parts})
	}
	if p.turn != text.None {
		f.fill(f.turn(q), d, p.message)
	}
	for k := range d.parts {
		call := &d.parts[k]
		if call.Kind != text.Call || call.ID == 0 {
			continue
		}
		calls[call.ID] = result{q, int32(k)}
		for _, a := range f.wanted[call.ID] {
			if f.Chains[a].Session == f.Chains[p.chain].Session && a != p.chain && p.turn != text.None {
				f.agents[a].spawn = q
			}
		}
	}
	if !f.options.DropThinking || p.message == text.None {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(d.parts), func(p text.Part) bool { return p.Kind == text.Thinking || p.Kind == text.Redacted })
	if p.message = text.None; len(kept) > 0 {
		p.message = f.Data.Message(text.Message{Role: text.Assistant, Parts: kept})
	}
}

// fill sets what a turn has of its reply.
func (f *forest) fill(turn *text.Turn, d *draft, message int32) {
	turn.Model, turn.Stop, turn.End, turn.Counted, turn.Out = d.model, f.Name(d.stop), d.end, text.Texts, d.counts[3]-1
	if in := max(d.counts[0]-1, 0) + max(d.counts[1]-1, 0) + max(d.counts[2]-1, 0); in > 0 {
		turn.In, turn.Cached = in, d.counts[2]-1
	} else {
		f.Data.Warn("no_usage")
	}
	if message != text.None {
		turn.Output = []int32{message}
	}
}

// readResults finds the rows of a chain with results of its calls.
func (f *forest) readResults(n int32, calls map[text.Text]result) {
	for _, i := range f.RowsOf(n) {
		if f.Rows[i].Flags&rows.HasResult == 0 {
			continue
		}
		parts := f.Parts(i)
		for k := range parts {
			call, ok := calls[parts[k].ID]
			if parts[k].Kind != text.Result || !ok {
				continue
			}
			if q := call.row; f.replyOf[i] == text.None || f.replyOf[i] == q {
				f.replyOf[i] = q
			} else {
				f.replyOf[i] = several
			}
			p := &f.replies[call.row]
			p.results = append(p.results, result{i, call.call})
			for _, a := range f.wanted[parts[k].ID] {
				if f.agents[a].spawn == call.row && !f.Chains[a].Async {
					f.waiting[i] = append(f.waiting[i], a)
				}
			}
		}
	}
	for _, i := range f.RowsOf(n) {
		if q := f.replyOf[i]; f.begins(i) {
			slices.SortStableFunc(f.replies[q].results, func(a, b result) int { return cmp.Compare(a.call, b.call) })
		}
	}
}
