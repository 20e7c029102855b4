package reconstruct

import (
	"math/bits"
	"slices"

	"github.com/agentx/agentx/trace"
)

// largestBlock is the largest block size, in tokens, that is not odd: eight times that of Mooncake.
const largestBlock = 4096

// odditiesOf returns the oddities of the trace, besides those that only its plan shows.
func odditiesOf(t *trace.Trace) trace.Oddities {
	o := slices.Clone(t.Oddities)
	if t.BlockSize > largestBlock || bits.OnesCount64(uint64(t.BlockSize)) != 1 {
		o.Add(trace.OddityBlockSize, "block_size %d", t.BlockSize)
	}
	if len(t.Entries) == 0 {
		o.Add(trace.OddityNoRequests, "requests: []")
	}
	var above *trace.Request // in the trace's list
	for k := range t.Entries {
		e, where := &t.Entries[k], trace.Place{Outer: k, Inner: none}
		if m := e.Subagent; m != nil {
			addSubagent(&o, m, where, t.BlockSize)
			continue
		}
		addRequest(&o, &e.Request, above, where, t.BlockSize)
		above = &e.Request
	}
	return o
}

func addSubagent(o *trace.Oddities, m *trace.Subagent, where trace.Place, blockSize int64) {
	addTime(o, where, m.T)
	if m.HasDuration && m.DurationMS < 0 {
		o.Add("negative_duration", "%s: duration_ms = %d", where, m.DurationMS)
	}
	if len(m.Requests) == 0 {
		o.Add(trace.OddityEmptyAgent, "%s: agent_id %q", where, m.AgentID)
	}
	var above *trace.Request
	for k := range m.Requests {
		addRequest(o, &m.Requests[k], above, trace.Place{Outer: where.Outer, Inner: k}, blockSize)
		above = &m.Requests[k]
	}
}

// addRequest adds the oddities of a request. above is the one above it in its list, nil for the first.
func addRequest(o *trace.Oddities, r, above *trace.Request, where trace.Place, blockSize int64) {
	addTime(o, where, r.T)
	if r.Out < 0 {
		o.Add("negative_out", "%s: out = %d", where, r.Out)
	}
	if r.APITime.OK && r.APITime.V < 0 {
		o.Add("negative_api_time", "%s: api_time = %g", where, r.APITime.V)
	}
	if r.ThinkTime.OK && r.ThinkTime.V < 0 {
		o.Add("negative_think_time", "%s: think_time = %g", where, r.ThinkTime.V)
	}
	switch full, n := r.In/blockSize, int64(r.IDs.Len); {
	case n < full:
		o.Add(trace.OddityShortIDs, "%s: %d hash_ids for in = %d, which has %d blocks of %d", where, n, r.In, full, blockSize)
	case n > (r.In+blockSize-1)/blockSize:
		o.Add(trace.OddityLongIDs, "%s: %d hash_ids for in = %d and blocks of %d", where, n, r.In, blockSize)
	}
	if above != nil && r.T < above.T {
		o.Add(trace.OddityBackward, "%s: t = %g, below t = %g", where, r.T, above.T)
	}
}

// addTime adds what is odd about the start of a request or a subagent.
func addTime(o *trace.Oddities, where trace.Place, t float64) {
	switch {
	case t < 0:
		o.Add("negative_t", "%s: t = %g", where, t)
	case trace.SinceEpoch(t) == "milliseconds":
		o.Add(trace.OddityEpoch, "%s: t = %.0f", where, t)
	}
}
