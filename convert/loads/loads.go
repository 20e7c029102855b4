// Package loads reads recordings of requests that have no text: tables of lengths and times, and Bailian's traces. doc/spec/text.md 9
// has their rules.
//
//	r := loads.NewTable(0, false, nil)
//	r.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens"))
//	r.Add([]byte("2023-11-16 18:17:03.9799600,4808,10"))
//	traces, err := r.Traces()
//
// A row is a request. What rows make together is known when all are read.
package loads

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/trace"
)

// none is a number that a recording does not have.
const none = -1

// request is a row, as small as it can be: tables have millions.
type request struct {
	at      int64 // start, milliseconds on the clock of the recording
	took    int64 // milliseconds; none
	in, out int32
	model   int32 // in names
	row     int32 // among the calls of Add, from 1
}

// traceRequest returns the request on a clock that begins at an instant.
func (q *request) traceRequest(first int64) trace.Request {
	r := trace.Request{T: float64(q.at-first) / 1000, Model: int(q.model), In: int64(q.in), Out: int64(q.out)}
	if q.took != none {
		r.APITime = trace.Seconds{V: float64(q.took) / 1000, OK: true}
	}
	return r
}

// names numbers words in the order of their first use.
type names struct {
	list    []string
	numbers map[string]int32
}

func (n *names) number(word []byte) int32 {
	k, known := n.numbers[string(word)]
	if !known {
		if n.numbers == nil {
			n.numbers = map[string]int32{}
		}
		k = int32(len(n.list))
		n.list = append(n.list, string(word))
		n.numbers[string(word)] = k
	}
	return k
}

// reserve asks for memory, as trace.Reserve does; nil grants it.
func reserve(ask trace.Reserve, bytes int64) error {
	if ask == nil {
		return nil
	}
	if err := ask(bytes); err != nil {
		return &trace.Error{Kind: trace.TooLarge, Problem: err.Error(), Hint: "a smaller file, or more --memory"}
	}
	return nil
}

// prefixOf returns what stands before the names of the traces of a file: its number, from the second on.
func prefixOf(file int) string {
	if file == 0 {
		return ""
	}
	return fmt.Sprintf("%d/", file+1)
}

// millis returns seconds as milliseconds, rounded down. A decimal number with three places keeps them.
func millis(seconds float64) int64 { return int64(math.Floor(math.Round(seconds*1e6) / 1e3)) }

// checkNumbers refuses lengths and times that no request has.
func checkNumbers(timeName, inName, outName string, seconds float64, in, out int64) *trace.Error {
	if err := trace.CheckLengths(inName, outName, in, out); err != nil {
		return err
	}
	if err := trace.CheckTime(seconds, nil, "seconds"); err != nil {
		return err
	}
	if out < 0 {
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("%s = %d: want 0 or more", outName, out)}
	}
	if seconds < 0 {
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("%s = %g s: want 0 or more", timeName, seconds)}
	}
	return nil
}

// byStart sorts rows by their starts. Those of one instant stay in the order of the input.
func byStart(rows []int32, all []request) {
	slices.SortStableFunc(rows, func(a, b int32) int { return int(min(1, max(-1, all[a].at-all[b].at))) })
}
