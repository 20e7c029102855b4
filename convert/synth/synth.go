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

// MaxTraces bounds the numbers of traces.
const MaxTraces = 1_000_000_000

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
	if o.Traces < 1 || o.Traces > MaxTraces {
		wrong = append(wrong, fmt.Errorf("traces %d: want 1 to %d", o.Traces, MaxTraces))
	}
	if o.First < 0 || o.First > MaxTraces {
		wrong = append(wrong, fmt.Errorf("first %d: want 0 to %d", o.First, MaxTraces))
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

// Make makes one trace. The error is about a cache that cannot be read.
func (o *Options) Make(number int) (r *weka.Recording, err error) {
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
	lanes := make([]*maker, min(o.Workers, o.Traces))
	var running sync.WaitGroup
	for k := range lanes {
		m := &maker{made: make(chan made, 1), free: make(chan []byte, 2)}
		lanes[k] = m
		running.Go(func() { m.run(ctx, &o, k, len(lanes)) })
	}
	defer running.Wait()
	defer stop()
	for k := range o.Traces {
		m := lanes[k%len(lanes)]
		select {
		case t := <-m.made:
			if t.err != nil {
				return total, t.err
			}
			if _, err := w.Write(t.text); err != nil {
				return total, err
			}
			total.add(&t)
			m.free <- t.text
		case <-ctx.Done():
			return total, ctx.Err()
		}
	}
	return total, nil
}

// maker makes every so-manieth trace. It has two buffers: one is being written while the other is filled.
type maker struct {
	made chan made
	free chan []byte
}

// made is a trace as its line.
type made struct {
	text     []byte
	totals   weka.Totals
	requests int
	err      error // it cannot be made
}

// run makes traces k, k+step, ... of those asked for.
func (m *maker) run(ctx context.Context, o *Options, k, step int) {
	m.free <- nil
	m.free <- nil
	for ; k < o.Traces; k += step {
		var t made
		select {
		case t.text = <-m.free:
		case <-ctx.Done():
			return
		}
		t.make(o, o.First+k)
		select {
		case m.made <- t:
		case <-ctx.Done():
			return
		}
	}
}

// make makes a trace.
func (m *made) make(o *Options, number int) {
	var r *weka.Recording
	if r, m.err = o.Make(number); m.err != nil {
		return
	}
	m.text, m.totals = r.AppendJSON(m.text[:0]), r.Totals()
	for _, e := range r.Entries {
		if m.requests++; e.Subagent != nil {
			m.requests += len(e.Subagent.Requests) - 1
		}
	}
}

// add counts a trace that has been written.
func (t *Total) add(m *made) {
	t.Traces++
	t.Requests += m.requests
	t.Subagents += m.totals.Count
	t.InputTokens += m.totals.Combined.Input
	t.OutputTokens += m.totals.Combined.Output
	t.Bytes += int64(len(m.text))
}
