package hitcurve

import (
	"context"
	"fmt"
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// Access is a prompt that meets the cache.
type Access struct {
	Prompt int // tokens
	Chain  []engine.Run
}

// Rates are those of a server that computes every request on its own, however many there are: tokens a second.
type Rates struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
}

// Validate returns an error about a rate that cannot be used.
func (r Rates) Validate() error {
	for _, one := range []struct {
		name string
		rate float64
	}{{"prefill", r.Prefill}, {"decode", r.Decode}} {
		if !(one.rate > 0) || math.IsInf(one.rate, 0) {
			return fmt.Errorf("%s rate %v: want a finite number of tokens a second above 0", one.name, one.rate)
		}
	}
	return nil
}

// Order returns the prompts of a load in the order in which they leave, against a server of such rates.
func Order(ctx context.Context, load workload.Load, r Rates) (list []Access, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	p := &player{load: load}
	p.arrive = func(now int64, t workload.Turn) {
		list = append(list, Access{t.Prompt, t.Chain})
		p.begin(event{at: now + r.duration(t), turn: t.ID})
	}
	return list, p.play(ctx)
}

// prefill returns the nanoseconds until the first token of a request, and duration those until its end: at least 1.
func (r Rates) prefill(t workload.Turn) int64 { return nanoseconds(float64(t.Prompt) / r.Prefill) }
func (r Rates) duration(t workload.Turn) int64 {
	return nanoseconds(float64(float64(t.Prompt)/r.Prefill) + float64(float64(t.Output)/r.Decode))
}

func nanoseconds(seconds float64) int64 {
	return int64(min(max(1, math.RoundToEven(seconds*1e9)), 1e17))
}
