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
)

// maxTraces bounds the numbers of traces.
const maxTraces = 1_000_000_000

// Options say which traces to make. All but Workers decide the bytes.
type Options struct {
	Traces  int              // how many
	First   int              // number of the first
	Seed    uint64           // of all draws
	From    *mmapcache.Cache // draw traces of it and change them; nil: draw from the distributions of tables.go
	Workers int              // traces made at a time; 0: one per core
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	var wrong []error
	if o.Traces < 1 || o.Traces > maxTraces {
		wrong = append(wrong, fmt.Errorf("traces %d: want 1 to %d", o.Traces, maxTraces))
	}
	if o.First < 0 || o.First > maxTraces {
		wrong = append(wrong, fmt.Errorf("first %d: want 0 to %d", o.First, maxTraces))
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		wrong = append(wrong, fmt.Errorf("workers %d: want 0 to %d", o.Workers, maxWorkers))
	}
	if o.From != nil && o.From.Traces() == 0 {
		wrong = append(wrong, errors.New("from: the cache has no trace"))
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
	queue := make(chan chan made, min(o.Workers, o.Traces)-1)
	var buffers sync.Pool // of *[]byte
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		defer close(queue)
		for k := range o.Traces {
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

// line makes a trace, and writes its line over a text.
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
