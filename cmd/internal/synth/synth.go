// Package synth makes traces up, for tests of size: as many as asked for, each a valid trace of the format that
// capture writes, none of them kept in memory.
//
//	total, err := synth.Write(ctx, w, synth.Options{Traces: 1000, Seed: 42})
//
// A trace depends on the seed and on its number alone, so parts of a corpus can be made apart and in any order.
//
// Where Options.From is nil, numbers are drawn from the distributions of the public v8 corpus of kv-cache-tester
// (distributions.go). What is drawn for a trace is its first prompt, how many requests it has, and how long prompts may
// grow; for a request, how its prompt follows from the one before, how much is new, its completion, and the time until
// the next. Some traces have subagents, whose first prompts share a prefix (madeup.go).
//
// With Options.Lengths a trace is a request, or some turns, of lengths that the caller says or draws (lengths.go).
//
// With Options.From a trace is one of that cache, drawn at random, and changed (resample.go): each stretch of blocks that
// prompts share, each completion and each interval of time gets a factor of its own. So it keeps which prompts share what,
// and the order of all events. What a cache does not keep, such as the time to the first token, is drawn as above.
package synth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// maxTraces bounds the numbers of traces.
const maxTraces = 1_000_000_000

// Options say which traces to make. All but Workers decide the bytes.
type Options struct {
	Traces  int              // how many
	First   int              // number of the first
	Seed    uint64           // of all draws
	From    *mmapcache.Cache // draw traces of it and change them; nil: draw from the distributions of the public corpus
	Lengths Lengths          // of requests alone, in place of agents' traces; not with From
	Workers int              // traces made at a time; 0: one per core
}

// Count returns how many traces are made.
func (o *Options) Count() int {
	if n := o.Lengths.turns(); o.Lengths.Requests > 0 {
		return (o.Lengths.Requests + n - 1) / n
	}
	return o.Traces
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	wrong := o.Lengths.validate()
	if o.Lengths.Requests > 0 && o.Traces > 0 {
		wrong = append(wrong, errors.New("traces and requests: each says how many there are: leave one out"))
	}
	if o.From != nil && o.Lengths.ISL.kind != "" {
		wrong = append(wrong, errors.New("from: the lengths of its traces are recorded: leave out isl, or from"))
	}
	if n := o.Count(); n < 1 || n > maxTraces {
		wrong = append(wrong, fmt.Errorf("traces %d: want 1 to %d", n, maxTraces))
	}
	if o.First < 0 || o.First > maxTraces {
		wrong = append(wrong, fmt.Errorf("first %d: want 0 to %d", o.First, maxTraces))
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		wrong = append(wrong, fmt.Errorf("workers %d: want 0 to %d", o.Workers, maxWorkers))
	}
	if o.From != nil && o.From.Traces() == 0 {
		wrong = append(wrong, errors.New("the cache that traces are drawn from has no trace"))
	}
	return errors.Join(wrong...)
}

const maxWorkers = 1024

// Total is what has been made.
type Total struct {
	Traces       int   `json:"traces"`
	Requests     int   `json:"requests"` // those of subagents included
	Subagents    int   `json:"subagents"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Bytes        int64 `json:"bytes"`
}

// make makes one trace. The error is about a cache that cannot be read.
func (o *Options) make(number int) (r *weka.Recording, err error) {
	d := newDraws(o.Seed, uint64(number))
	if o.Lengths.ISL.kind != "" {
		return o.Lengths.lengthsOnly(d, number)
	}
	if o.From == nil {
		r = madeUp(d)
	} else if r, err = resampled(d, o.From); err != nil {
		return nil, err
	}
	r.ID = fmt.Sprintf("synth-%d-%08d", o.Seed, number)
	return r, nil
}

// Write writes traces as JSON lines, in the order of their numbers.
func Write(ctx context.Context, w io.Writer, o Options) (total Total, err error) {
	if err := o.Validate(); err != nil {
		return total, err
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	queue := make(chan chan made, min(o.Workers, o.Count())-1)
	var buffers sync.Pool // of *[]byte
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		defer close(queue)
		for k := range o.Count() {
			next := make(chan made, 1)
			select {
			case queue <- next:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				text, _ := buffers.Get().(*[]byte)
				if text == nil {
					text = new([]byte)
				}
				next <- o.line(o.First+k, text)
			})
		}
	})
	for next := range queue {
		t := <-next
		if t.err != nil {
			return total, t.err
		}
		if _, err := w.Write(*t.text); err != nil {
			return total, err
		}
		total.add(&t)
		buffers.Put(t.text)
	}
	return total, ctx.Err()
}

// made is a trace as its line.
type made struct {
	text     *[]byte
	totals   weka.Totals
	requests int
	err      error // it cannot be made
}

// line makes the trace of a number, and writes its JSON line into the buffer text.
func (o *Options) line(number int, text *[]byte) (m made) {
	var r *weka.Recording
	if r, m.err = o.make(number); m.err != nil {
		return m
	}
	*text = r.AppendJSON((*text)[:0])
	m.text, m.totals = text, r.Totals()
	for _, e := range r.Entries {
		if m.requests++; e.Subagent != nil {
			m.requests += len(e.Subagent.Requests) - 1
		}
	}
	return m
}

// add counts a trace that has been written.
func (t *Total) add(m *made) {
	t.Traces++
	t.Requests += m.requests
	t.Subagents += m.totals.Count
	t.InputTokens += m.totals.Combined.Input
	t.OutputTokens += m.totals.Combined.Output
	t.Bytes += int64(len(*m.text))
}

// number gives the blocks of a trace their ids, 0, 1, 2 ... in the order in which the file has them first, and requests their
// think times. blocks is how many numbers its lists may name.
func number(r *weka.Recording, blocks int) {
	n := numbering{ids: make([]int32, blocks), parents: []int32{-1}}
	lanes := [][]*weka.RecordedRequest{nil}
	for k := range r.Entries {
		e := &r.Entries[k]
		if e.Subagent == nil {
			n.request(&e.RecordedRequest)
			lanes[0] = append(lanes[0], &e.RecordedRequest)
			continue
		}
		var own []*weka.RecordedRequest
		for k := range e.Subagent.Requests {
			n.request(&e.Subagent.Requests[k])
			own = append(own, &e.Subagent.Requests[k])
		}
		lanes = append(lanes, own)
	}
	found := weka.NewPredecessors(n.parents, 0)
	for _, list := range lanes {
		n.think(found, list)
	}
}

// numbering numbers the blocks of a trace. Block id is node id + 1 of their tree; node 0 is its root.
type numbering struct {
	ids     []int32 // 1 + the id of a block, 0 as long as it has none
	parents []int32 // of each node
}

// request replaces the blocks of a request by their ids.
func (n *numbering) request(r *weka.RecordedRequest) {
	var list trace.IDs
	parent := int32(0)
	for _, run := range r.IDs.Runs {
		for at := int(run.First); at < int(run.First)+run.N; at++ {
			if n.ids[at] == 0 {
				n.ids[at] = int32(len(n.parents))
				n.parents = append(n.parents, parent)
			}
			parent = n.ids[at]
			list.Append(int64(parent) - 1)
		}
	}
	r.IDs = list
}

// think sets the think times of an agent: from the end of the request that each goes on from.
func (n *numbering) think(found *weka.Predecessors, list []*weka.RecordedRequest) {
	stays := make([]weka.Stay, len(list))
	for k, r := range list {
		stays[k] = weka.Stay{Begin: int64(r.T), End: int64(r.T + r.APITime)}
		if runs := r.IDs.Runs; len(runs) > 0 {
			last := runs[len(runs)-1]
			stays[k].Last = int32(last.First) + int32(last.N)
		}
	}
	for k, think := range found.ThinkTimes(stays) {
		list[k].ThinkTime = think
	}
}
