package finish

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/convert/weka"
)

// subagent returns a subagent with its requests. One that went on beside the main agent has no sums.
func (d *document) subagent(where string, agent int) *weka.RecordedSubagent {
	list := d.agents[agent]
	s := &weka.RecordedSubagent{
		T: weka.Millis(d.times[list[0]].begin), AgentID: d.names[agent], Type: string(cmp.Or(d.Agents[agent].Type, journal.Custom)),
		Status: "completed",
	}
	s.ToolTokens, s.SystemTokens = d.prefix(list)
	end := int64(s.T)
	for i, k := range list {
		r := d.request(fmt.Sprintf("%s.requests[%d]", where, i), k)
		s.Requests = append(s.Requests, r)
		s.TotalTokens += int64(r.In) + int64(r.Out)
		s.ToolUses += int64(d.Requests[k].End.Calls)
		end = max(end, d.times[k].end)
	}
	s.Duration = weka.Millis(end) - s.T
	if d.inBackground(agent) {
		s.Status, s.Duration, s.TotalTokens, s.ToolUses = "async_launched", weka.Unknown, weka.Unknown, weka.Unknown
	}
	return s
}

// inBackground reports whether the main agent sent a request before the subagent's first answer ended, and no result was seen by then.
func (d *document) inBackground(agent int) bool {
	first := &d.Requests[d.agents[agent][0]]
	if result := d.Agents[agent].Result; result != 0 {
		seen := slices.IndexFunc(d.Requests, func(r journal.Request) bool { return r.Q == result })
		if d.Requests[seen].T <= first.End.T {
			return false
		}
	}
	return slices.ContainsFunc(d.Requests, func(r journal.Request) bool {
		return r.Agent == d.main && r.Q > first.Q && r.T < first.End.T
	})
}
