package planner

import (
	"errors"
	"fmt"
)

// Bootstrap says what the models of a planner knew before the first tick: doc/spec/simulate.md 11.4.
type Bootstrap struct {
	Samples []int  `json:"samples"`          // of each pool
	Failed  string `json:"failed,omitempty"` // why there are none
}

// errBootstrap is why models begin with nothing. A planner goes on without.
var errBootstrap = errors.New("no bootstrap")

// The points of a sweep.
const firstPrefill = 100

var contexts = []int{500, 2000, 4000, 8000}

// batch is a point of a decode sweep.
type batch struct{ requests, kv int }

// prefillPoints returns the prompt tokens of the passes of a sweep, none above the budget of a pass.
func prefillPoints(mbt, granularity int) (list []int) {
	for n := firstPrefill; n <= mbt; n += max(1, (mbt-firstPrefill)/granularity) {
		list = append(list, n)
	}
	return list
}

// decodePoints returns the batches of a sweep, without those that the pool cannot hold.
func decodePoints(seqs, kv, granularity int) (list []batch) {
	for _, context := range contexts {
		for n := 1; n <= seqs; n += max(1, seqs/granularity) {
			if n*context <= kv {
				list = append(list, batch{n, n * context})
			}
		}
	}
	return list
}

// bootstrap feeds the models of the pools from the timing of their own engines. All stay empty when one cannot be fed.
func (p *Planner) bootstrap() error {
	for i, m := range p.models {
		if err := p.sweep(m, p.engines[i]); err != nil {
			for k := range p.models {
				p.models[k] = newModel(p.models[k].kind, p.config)
			}
			if errors.Is(err, errBootstrap) {
				p.boot.Failed, p.boot.Samples = fmt.Sprintf("%s: %v", p.config.pools()[i], err), nil
				return nil
			}
			return err
		}
		p.boot.Samples = append(p.boot.Samples, len(m.samples.list))
	}
	return nil
}

// sweep feeds a model from an engine: an aggregated one with prefills and decodes, as either alone leaves a feature without variance.
func (p *Planner) sweep(m *model, e Engine) error {
	var prefills []int
	var decodes []batch
	if m.kind != decodeKind {
		if prefills = prefillPoints(e.MaxBatchedTokens, p.config.BenchmarkGranularity); len(prefills) == 0 {
			return fmt.Errorf("%w: max_num_batched_tokens %d is below %d, the least point of prefill", errBootstrap, e.MaxBatchedTokens, firstPrefill)
		}
	}
	if m.kind != prefillKind {
		if decodes = decodePoints(e.MaxSeqs, e.MaxKV, p.config.BenchmarkGranularity); len(decodes) == 0 {
			return fmt.Errorf("%w: the pool of %d tokens holds no request of %d, the least point of decode", errBootstrap, e.MaxKV, contexts[0])
		}
	}
	for _, tokens := range prefills {
		wall := e.Timing.Prefill(tokens)
		if wall <= 0 {
			return fmt.Errorf("%w: the timing gives %d ns for a prefill of %d tokens", errBootstrap, wall, tokens)
		}
		m.point(tokens, 0, 0, wall)
	}
	for _, b := range decodes {
		wall := e.Timing.Decode(b.kv, b.kv, b.requests)
		if wall <= 0 {
			return fmt.Errorf("%w: the timing gives %d ns for a step of %d requests with %d tokens", errBootstrap, wall, b.requests, b.kv)
		}
		m.point(0, b.requests, b.kv, wall)
	}
	return nil
}
