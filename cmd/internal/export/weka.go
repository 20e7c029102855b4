package export

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// placed is an entry of a trace with where it stands: behind a request, or in the place that the recording had for it.
type placed struct {
	outer, behind uint32
	entry         weka.RecordedEntry
}

// weka writes the trace as a capture would, with the requests of each list in the recorded order.
func (x *exporter) weka() error {
	global := x.plan.Trace.Scope == "global"
	next := &x.next
	if global {
		next = &x.shared.next
	}
	r := &weka.Recording{ID: x.plan.Trace.ID, BlockSize: int(x.block), Global: global}
	var list []placed
	agents := map[uint32]int{} // place in list of the subagent of an entry
	for n := range x.plan.Sessions {
		s := &x.plan.Sessions[n]
		turns := x.turns(s)
		for k := range turns {
			q, system := x.wekaRequest(turns, k, next)
			if n == 0 && k == 0 {
				r.SystemTokens = system
			}
			if turns[k].Inner == mmapcache.None {
				list = append(list, placed{turns[k].Outer, 0, weka.RecordedEntry{RecordedRequest: q}})
				continue
			}
			at, known := agents[s.Outer]
			if !known {
				at = len(list)
				agents[s.Outer] = at
				outer, behind := x.place(s)
				list = append(list, placed{outer, behind, weka.RecordedEntry{Subagent: &weka.RecordedSubagent{AgentID: s.Agent, Type: "custom", Status: "completed",
					TotalTokens: weka.Unknown, ToolUses: weka.Unknown, Duration: x.millis(s.End), SystemTokens: system}}})
			}
			sub := list[at].entry.Subagent
			sub.Requests = append(sub.Requests, q)
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Or(cmp.Compare(a.outer, b.outer), cmp.Compare(a.behind, b.behind)) })
	for _, p := range list {
		if sub := p.entry.Subagent; sub != nil {
			slices.SortStableFunc(sub.Requests, func(a, b weka.RecordedRequest) int { return cmp.Compare(a.T, b.T) })
			sub.T = sub.Requests[0].T
			sub.Duration = max(0, sub.Duration-sub.T)
		}
		r.Entries = append(r.Entries, p.entry)
	}
	x.text = r.AppendJSON(x.text[:0])
	_, err := x.out.Write(x.text)
	return err
}

// place returns where a subagent stands: where the recording has it, if that is between the turn that spawns it and the next one; else behind
// that turn, in the order of the recording.
func (x *exporter) place(s *mmapcache.Session) (outer, behind uint32) {
	main := x.turns(&x.plan.Sessions[0])
	spawn := main[s.SpawnTurn].Outer
	if s.Outer > spawn && (int(s.SpawnTurn)+1 == len(main) || s.Outer < main[s.SpawnTurn+1].Outer) {
		return s.Outer, 0
	}
	return spawn, s.Outer + 1
}

// millis returns an instant of the trace, as it is on its clock where that begins with the trace.
func (x *exporter) millis(seconds float64) weka.Millis {
	if x.start == 0 {
		return weka.Millis(math.Round(seconds * 1000))
	}
	return weka.Millis(math.Round(x.ms(seconds)))
}

// wekaRequest returns a request, and how many tokens the message of the system has.
func (x *exporter) wekaRequest(turns []mmapcache.Turn, k int, next *int64) (weka.RecordedRequest, int) {
	t := &turns[k]
	blocks, part, system := x.prompt(t.Last)
	if part { // the format has whole blocks alone
		blocks = blocks[:len(blocks)-1]
	}
	q := weka.RecordedRequest{T: x.millis(t.T), Streamed: true, Model: t.Model, In: int(t.In), Out: int(t.Out), TTFT: weka.Unknown, APITime: weka.Unknown, ThinkTime: weka.Unknown,
		InputTypes: map[mmapcache.InputKind][]string{mmapcache.UserInput: {"text"}, mmapcache.ToolResult: {"tool_result"}}[t.Input],
		Stop:       map[string]string{"tool": "tool_use", "text": "end_turn"}[answer(turns, k)]}
	if !math.IsNaN(t.APITime) {
		q.APITime = weka.Millis(math.Round(t.APITime * 1000))
	}
	if !math.IsNaN(t.ThinkTime) {
		q.ThinkTime = weka.Millis(math.Round(t.ThinkTime * 1000))
	}
	var ids trace.IDs
	for _, b := range blocks {
		ids.Append(x.number(b, next))
	}
	q.IDs = ids
	return q, system
}
