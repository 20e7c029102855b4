package loads

import (
	"fmt"
	"iter"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// AppliedName is the name of the format.
const AppliedName = "applied_compute_agentic"

// appliedBlock is the tokens of a block of the traces that are made: the recording has none.
const appliedBlock = 64

// Applied reads the workloads of Applied Compute: a row is a session, as the lengths of what is new in each of its turns.
type Applied struct {
	ask    trace.Reserve
	prefix string
	traces []*trace.Trace
	calls  int
}

// IsApplied reports whether a row is such a session.
func IsApplied(first []byte) bool { return hasKeys(first, "num_turns", "tool_call_latency") }

// NewApplied begins a file. Its number, from 0, goes into the names of its traces from the second file on. reserve may be nil.
func NewApplied(file int, reserve trace.Reserve) *Applied {
	return &Applied{ask: reserve, prefix: prefixOf(file)}
}

// Add reads the next row. The error is always a *trace.Error.
func (a *Applied) Add(row []byte) error {
	a.calls++
	turns, in, final := int64(none), int64(none), int64(none)
	var outs, tools []int64
	var seconds []float64
	whole := func(list *[]int64) func(l *jsonlex.Lexer) error {
		return func(l *jsonlex.Lexer) error {
			if l == nil {
				*list = nil
				return nil
			}
			v, err := wholeOf(l)
			*list = append(*list, v)
			return err
		}
	}
	err := (&members{
		counts: map[string]*int64{"num_turns": &turns, "input_prompt_length": &in, "final_assistant_response_length": &final},
		lists: map[string]func(*jsonlex.Lexer) error{"assistant_response_length": whole(&outs), "tool_call_output_length": whole(&tools),
			"tool_call_latency": func(l *jsonlex.Lexer) error {
				if l == nil {
					seconds = nil
					return nil
				}
				v, err := floatOf(l)
				seconds = append(seconds, v)
				return err
			}},
	}).read(row)
	switch n := int(turns); {
	case err != nil:
		return err
	case turns < 0 || in < 0 || final < 0:
		return &trace.Error{Kind: trace.MissingField, Problem: "want num_turns, input_prompt_length and final_assistant_response_length of 0 or more"}
	case len(outs) != n || len(tools) != n || len(seconds) != n:
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("num_turns = %d: assistant_response_length has %d values, tool_call_output_length %d, tool_call_latency %d", n, len(outs), len(tools), len(seconds))}
	}
	if err := reserve(a.ask, int64((len(outs)+1)*(trace.RequestBytes+trace.RunBytes))); err != nil {
		return err
	}
	return a.session(in, append(outs, final), tools, seconds)
}

// session adds a session: each prompt is the one before with its answer and what the tools gave.
func (a *Applied) session(in int64, outs, tools []int64, seconds []float64) error {
	t := &trace.Trace{ID: fmt.Sprintf("%srow-%06d", a.prefix, a.calls), BlockSize: appliedBlock, Scope: trace.ScopeLocal, Models: []string{"unknown"}, TailIDs: true, Linked: true,
		Format: AppliedName, Rows: slices.Repeat([]int{a.calls}, len(outs))}
	at := 0.0
	for k, out := range outs {
		q := trace.Request{In: in, Out: out}
		if k > 0 {
			if err := checkNumbers("tool_call_latency", "tool_call_output_length", "", seconds[k-1], tools[k-1], 0); err != nil {
				return err
			}
			q.In += outs[k-1] + tools[k-1]
			wait := millis(seconds[k-1])
			at += float64(wait)
			q.T, q.Input = at/1000, trace.InputTool
			q.ThinkTime = trace.Seconds{V: float64(wait) / 1000, OK: true}
			q.Recorded = &trace.Recorded{First: none, Cached: none, Tool: wait}
		}
		in = q.In
		if err := checkNumbers("", "the prompt", "assistant_response_length", q.T, in, out); err != nil {
			return err
		}
		if n := int((in + appliedBlock - 1) / appliedBlock); n > 0 {
			q.IDs = trace.IDs{Runs: []trace.Run{{First: 0, N: n}}, Len: n}
		}
		if k < len(tools) {
			q.Stop = trace.StopTool
		}
		t.Entries = append(t.Entries, trace.Entry{Request: q})
	}
	a.traces = append(a.traces, t)
	return nil
}

// Traces returns the sessions in the order of the file. The error is nil.
func (a *Applied) Traces() (iter.Seq[*trace.Trace], error) { return slices.Values(a.traces), nil }

// Invalid returns nil: rows are checked one by one.
func (a *Applied) Invalid() []*trace.Error { return nil }
