package weka

import (
	"fmt"
	"math/bits"

	"github.com/agentx/agentx/mmapcache"
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

// oddities are the oddities of one trace, by kind.
type oddities []mmapcache.Oddity

// add counts an oddity. The text says where the first of its kind is, and its value.
func (o *oddities) add(kind, format string, args ...any) {
	for k := range *o {
		if (*o)[k].Kind == kind {
			(*o)[k].Count++
			return
		}
	}
	*o = append(*o, mmapcache.Oddity{Kind: kind, Count: 1, First: fmt.Sprintf(format, args...)})
}

// oddities returns the oddities of the trace, besides those that only its plan shows.
func (t *Trace) oddities() oddities {
	o := append(oddities(nil), t.rowOddities...)
	if t.BlockSize > largestBlock || bits.OnesCount64(uint64(t.BlockSize)) != 1 {
		o.add(oddBlockSize, "block_size %d", t.BlockSize)
	}
	if len(t.Entries) == 0 {
		o.add(oddNoRequests, "requests: []")
	}
	last := none
	for k := range t.Entries {
		where, e := requestPlace{k, none}, &t.Entries[k]
		if e.Subagent != nil {
			e.Subagent.oddities(&o, where, t.BlockSize)
			continue
		}
		e.oddities(&o, where, t.BlockSize)
		if last != none {
			o.order(&t.Entries[last].Request, &e.Request, where)
		}
		last = k
	}
	return o
}

// requestPlace is the place of a request: its index in the trace's list, and in the list of a subagent, none where it is in no subagent.
type requestPlace struct{ outer, inner int }

func (s requestPlace) String() string {
	if s.inner == none {
		return fmt.Sprintf("requests[%d]", s.outer)
	}
	return fmt.Sprintf("requests[%d].requests[%d]", s.outer, s.inner)
}

// order compares a request with the one above it in its list.
func (o *oddities) order(above, r *Request, where requestPlace) {
	if r.T < above.T {
		o.add(oddBackward, "%s: t = %g, below t = %g", where, r.T, above.T)
	}
}

func (m *Subagent) oddities(o *oddities, where requestPlace, blockSize int64) {
	o.times(where, m.T)
	if m.HasDuration && m.DurationMS < 0 {
		o.add("negative_duration", "%s: duration_ms = %d", where, m.DurationMS)
	}
	if len(m.Requests) == 0 {
		o.add(oddEmptyAgent, "%s: agent_id %q", where, m.AgentID)
	}
	for k := range m.Requests {
		inner := requestPlace{where.outer, k}
		m.Requests[k].oddities(o, inner, blockSize)
		if k > 0 {
			o.order(&m.Requests[k-1], &m.Requests[k], inner)
		}
	}
}

func (r *Request) oddities(o *oddities, where requestPlace, blockSize int64) {
	o.times(where, r.T)
	if r.Out < 0 {
		o.add("negative_out", "%s: out = %d", where, r.Out)
	}
	if r.APITime.OK && r.APITime.V < 0 {
		o.add("negative_api_time", "%s: api_time = %g", where, r.APITime.V)
	}
	if r.ThinkTime.OK && r.ThinkTime.V < 0 {
		o.add("negative_think_time", "%s: think_time = %g", where, r.ThinkTime.V)
	}
	switch full, n := r.In/blockSize, int64(r.IDs.Len); {
	case n < full:
		o.add(oddShortIDs, "%s: %d hash_ids for in = %d, which has %d blocks of %d", where, n, r.In, full, blockSize)
	case n > (r.In+blockSize-1)/blockSize:
		o.add(oddLongIDs, "%s: %d hash_ids for in = %d and blocks of %d", where, n, r.In, blockSize)
	}
}

// times checks the start of a request or a subagent.
func (o *oddities) times(where requestPlace, t float64) {
	switch {
	case t < 0:
		o.add("negative_t", "%s: t = %g", where, t)
	case sinceEpoch(t) == "milliseconds":
		o.add(oddEpoch, "%s: t = %.0f", where, t)
	}
}
