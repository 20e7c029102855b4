package hitcurve

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/workload"
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
	var busy completions
	for now := int64(0); ; {
		progress := false
		for len(busy) > 0 && busy[0].at <= now {
			load.Completed(heap.Pop(&busy).(completion).id, now)
			progress = true
		}
		for t, ok := load.Release(now); ok; t, ok = load.Release(now) {
			list = append(list, Access{t.Prompt, t.Chain})
			heap.Push(&busy, completion{now + r.duration(t), len(list), t.ID})
			progress = true
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, ok := load.Next()
		switch {
		case ok && (at > now || progress) && (len(busy) == 0 || at < busy[0].at):
			now = max(now, at)
		case len(busy) > 0:
			now = busy[0].at
		case ok || load.Left() > 0:
			return nil, errors.New("the load waits for what no completion brings")
		default:
			return list, nil
		}
	}
}

// duration returns the nanoseconds that a request takes, at least 1.
func (r Rates) duration(t workload.Turn) int64 {
	seconds := float64(float64(t.Prompt)/r.Prefill) + float64(float64(t.Output)/r.Decode)
	return int64(min(max(1, math.RoundToEven(seconds*1e9)), 1e17))
}

type completion struct {
	at    int64
	order int
	id    int
}

// completions are a heap, the earliest first.
type completions []completion

func (c completions) Len() int { return len(c) }
func (c completions) Less(i, j int) bool {
	return c[i].at < c[j].at || c[i].at == c[j].at && c[i].order < c[j].order
}
func (c completions) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *completions) Push(x any)   { *c = append(*c, x.(completion)) }
func (c *completions) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
