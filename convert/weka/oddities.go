package weka

import (
	"math/bits"
	"slices"

	"github.com/agentx/agentx/trace"
)

// An oddity is valid input that is rarely intended. MakePlan uses it as it is; convert warns of it, and --strict refuses it.

// Kinds of oddities. The other kinds in oddityTexts begin with "negative_".
const (
	oddShortIDs     = "short_hash_ids"
	oddLongIDs      = "long_hash_ids"
	oddBlockSize    = "block_size"
	oddBackward     = "backward_t"
	oddEpoch        = "t_since_1970"
	oddGuessedBlock = "guessed_block_size"
	oddFraction     = "fractional_timestamp"
	oddNoRequests   = "no_requests"
	oddEmptyAgent   = "empty_subagent"
	oddDropped      = "dropped_subagent"

	OddityAnswers      = "answers_as_filler" // asked for, so --strict does not refuse it
	OddityMixedFormats = "mixed_forms"       // Weka traces and Mooncake rows in one input; convert notices it
)

// oddityTexts says what each kind means, and what happens to it.
var oddityTexts = map[string]string{
	oddShortIDs:           "hash_ids cover fewer blocks than the prompt has: filler takes their place",
	oddLongIDs:            "hash_ids name more blocks than the prompt has: the others are not sent",
	oddBlockSize:          "block_size is not a power of two up to 4096",
	oddBackward:           "a request starts before the one above it",
	oddEpoch:              "t looks like milliseconds since 1970, and is taken for seconds",
	oddGuessedBlock:       "no row says the block size: it follows from input_length and the number of hash_ids of all rows",
	oddFraction:           "a timestamp has a fraction, as seconds have, and is taken for milliseconds",
	oddNoRequests:         "the trace has no requests",
	oddEmptyAgent:         "a subagent has no requests",
	oddDropped:            "a subagent stands above every request of its trace: it is left out",
	OddityAnswers:         "rows have what is new, as session_rows=new says: before it stand the rows before, and filler for each answer",
	OddityMixedFormats:    "Weka traces and Mooncake rows become one dataset",
	"negative_t":          "t is negative",
	"negative_out":        "out is negative: 1 token is asked for",
	"negative_api_time":   "api_time is negative",
	"negative_think_time": "think_time is negative",
	"negative_duration":   "duration_ms is negative",
}

// OddityText says what a kind of oddity means. It returns an unknown kind, of a later program, unchanged.
func OddityText(kind string) string {
	if text := oddityTexts[kind]; text != "" {
		return text
	}
	return kind
}

// largestBlock is the largest block size, in tokens, that is not odd: eight times that of Mooncake.
const largestBlock = 4096

// odditiesOf returns the oddities of the trace, besides those that only its plan shows.
func odditiesOf(t *trace.Trace) trace.Oddities {
	o := slices.Clone(t.Oddities)
	if t.BlockSize > largestBlock || bits.OnesCount64(uint64(t.BlockSize)) != 1 {
		o.Add(oddBlockSize, "block_size %d", t.BlockSize)
	}
	if len(t.Entries) == 0 {
		o.Add(oddNoRequests, "requests: []")
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
		o.Add(oddEmptyAgent, "%s: agent_id %q", where, m.AgentID)
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
		o.Add(oddShortIDs, "%s: %d hash_ids for in = %d, which has %d blocks of %d", where, n, r.In, full, blockSize)
	case n > (r.In+blockSize-1)/blockSize:
		o.Add(oddLongIDs, "%s: %d hash_ids for in = %d and blocks of %d", where, n, r.In, blockSize)
	}
	if above != nil && r.T < above.T {
		o.Add(oddBackward, "%s: t = %g, below t = %g", where, r.T, above.T)
	}
}

// addTime adds what is odd about the start of a request or a subagent.
func addTime(o *trace.Oddities, where trace.Place, t float64) {
	switch {
	case t < 0:
		o.Add("negative_t", "%s: t = %g", where, t)
	case trace.SinceEpoch(t) == "milliseconds":
		o.Add(oddEpoch, "%s: t = %.0f", where, t)
	}
}
