// Package export writes the traces of a cache in the formats of other programs, without text: doc/spec/text.md 14.
//
//	total, err := export.Write(ctx, cache, "mooncake", file)
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/agentx/agentx/mmapcache"
)

// formats write a trace each, by name.
var formats = map[string]func(*exporter) error{"dynamo": (*exporter).dynamo, "mooncake": (*exporter).mooncake, "weka": (*exporter).weka}

// Formats lists the formats that Write knows.
func Formats() []string { return []string{"weka", "mooncake", "dynamo"} }

// ErrLiveAnswers is the error of a cache of session_rows=live.
var ErrLiveAnswers = errors.New("its prompts contain answers that only a replay gets (session_rows=live)")

// Total is what was written. Tokens are those of prompts and answers.
type Total struct {
	BlockSize    int64 `json:"block_size"` // tokens, of the last trace
	Traces       int   `json:"traces"`
	Sessions     int   `json:"sessions"`
	Requests     int   `json:"requests"`
	PromptTokens int64 `json:"prompt_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Unlinked     int   `json:"unlinked"` // sessions whose place behind others the format cannot say
}

// Write writes all traces of a cache, whose prompts have blocks, as JSON lines in a format. Blocks are numbered in the order in which they are
// written. The error is ErrLiveAnswers where no format has the prompts, or is about block sizes where the format has one for all traces.
func Write(ctx context.Context, c *mmapcache.Cache, format string, w io.Writer) (Total, error) {
	out := bufio.NewWriterSize(w, 1<<20)
	x := &exporter{out: out, shared: numbers{of: map[block]int64{}, chains: map[[2]int64]int64{}}}
	if c.Facts.Rules.LiveAnswers {
		return x.total, ErrLiveAnswers
	}
	for i := range c.Traces() {
		if ctx.Err() != nil {
			return x.total, context.Cause(ctx)
		}
		plan, err := c.Plan(i)
		if err != nil {
			return x.total, err
		}
		start, recorded, err := c.RecordedStart(i)
		if err != nil {
			return x.total, err
		}
		if !recorded {
			start = 0
		}
		if format != "weka" && x.block != 0 && x.block != int64(plan.Trace.BlockSize) {
			return x.total, fmt.Errorf("trace %q has blocks of %d tokens, and traces before it of %d: only weka has both in one file", plan.Trace.ID, plan.Trace.BlockSize, x.block)
		}
		x.begin(plan, start)
		if err := formats[format](x); err != nil {
			return x.total, err
		}
	}
	return x.total, out.Flush()
}

// exporter writes the traces of a cache.
type exporter struct {
	out    *bufio.Writer
	text   []byte
	total  Total
	shared numbers // of traces of global scope
	last   int64   // number of blocks that were written, of the formats whose files have one scope

	plan  *mmapcache.Plan
	block int64   // tokens
	start float64 // recorded, milliseconds; 0 where it is not
	first float64 // start of the first request on the clock of the trace, seconds
	numbers
	given []int64 // by block of the trace its number; -1: none yet
}

// block is a block of a recording.
type block struct {
	scope string
	id    int64
}

// numbers are what blocks are called, and the chains of blocks that prompts begin with.
type numbers struct {
	of     map[block]int64
	chains map[[2]int64]int64 // by the chain before and a block
	next   int64
}

// begin takes the next trace.
func (x *exporter) begin(plan *mmapcache.Plan, start float64) {
	x.plan, x.block, x.start, x.first = plan, int64(plan.Trace.BlockSize), start, math.Inf(1)
	for _, t := range plan.Turns {
		x.first = min(x.first, t.T)
		x.total.PromptTokens += int64(t.In)
		x.total.OutputTokens += int64(max(0, t.Out))
	}
	if x.given = slices.Repeat([]int64{-1}, int(plan.Trace.Blocks)); plan.Trace.Scope == "global" {
		x.numbers = x.shared
	} else {
		x.numbers = numbers{of: map[block]int64{}, chains: map[[2]int64]int64{}}
	}
	x.total.BlockSize = x.block
	x.total.Traces++
	x.total.Sessions += len(plan.Sessions)
	x.total.Requests += len(plan.Turns)
}

// number returns the number of a block of the trace. next gives numbers.
func (x *exporter) number(at uint32, next *int64) int64 {
	if x.given[at] >= 0 {
		return x.given[at]
	}
	runs := x.plan.Runs
	k, _ := slices.BinarySearchFunc(runs, at, func(r mmapcache.BlockRun, at uint32) int { return int(int64(r.First) + int64(r.Count) - 1 - int64(at)) })
	key := block{runs[k].Scope, runs[k].ID + int64(at-runs[k].First)}
	n, known := x.of[key]
	if !known {
		n = *next
		*next++
		x.of[key] = n
	}
	x.given[at] = n
	return n
}

// prompt returns the blocks of a prompt, and whether the last of them is one of a part of a block. system is how many tokens the message of the
// system has with which it begins.
func (x *exporter) prompt(last int32) (blocks []uint32, part bool, system int) {
	var path []int32
	for at := last; at != mmapcache.None; at = x.plan.Segments[at].Parent {
		path = append(path, at)
	}
	begins := true
	for _, at := range slices.Backward(path) {
		s := &x.plan.Segments[at]
		begins = begins && s.Role == mmapcache.System
		tokens := int(s.Count)
		switch {
		case s.Flags&mmapcache.Filler != 0:
		case s.Flags&mmapcache.Head != 0:
			blocks, part = append(blocks, s.First), true
		default:
			for k := range s.Count {
				blocks = append(blocks, s.First+k)
			}
			tokens *= int(x.block)
		}
		if begins {
			system += tokens
		}
	}
	return blocks, part, system
}

// turns returns the turns of a session.
func (x *exporter) turns(s *mmapcache.Session) []mmapcache.Turn {
	return x.plan.Turns[s.FirstTurn:][:s.Turns]
}

// answer returns what a turn's answer was, as far as the turn behind it says: "tool" calls, "text", or "".
func answer(turns []mmapcache.Turn, k int) string {
	if k+1 < len(turns) {
		switch turns[k+1].Input {
		case mmapcache.ToolResult:
			return "tool"
		case mmapcache.UserInput:
			return "text"
		}
	}
	return ""
}

// ms returns an instant of the trace in milliseconds since its first request.
func (x *exporter) ms(seconds float64) float64 { return (seconds - x.first) * 1000 }

// duration returns a recorded duration in seconds, 0 where there is none.
func duration(t *mmapcache.Turn) float64 {
	if t.APITime > 0 && !math.IsInf(t.APITime, 0) {
		return t.APITime
	}
	return 0
}
