package hitcurve

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/heap"
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

// player plays a load on a virtual clock. Who uses it says what becomes of a turn that leaves.
type player struct {
	load   workload.Load
	busy   []event // a heap
	begun  int
	arrive func(now int64, t workload.Turn)
	happen func(e event)   // before the load hears of an end; nil: there is no listener
	settle func(now int64) // after all that happens at an instant; nil: nothing is to do
}

// event is the first token of a request, or its end.
type event struct {
	at      int64
	order   int // of the beginning: the earlier one first at one instant
	turn    int
	first   bool // the first token, not the end
	request *fleet.Request
}

// begin takes an event that will be.
func (p *player) begin(e event) {
	p.begun++
	e.order = p.begun
	heap.Push(&p.busy, e, event.before)
}

// play plays the load to its end.
func (p *player) play(ctx context.Context) error {
	for now := int64(0); ; {
		progress := false
		for len(p.busy) > 0 && p.busy[0].at <= now {
			p.end(heap.Pop(&p.busy, event.before), now)
			progress = true
		}
		for t, ok := p.load.Release(now); ok; t, ok = p.load.Release(now) {
			p.arrive(now, t)
			progress = true
		}
		if p.settle != nil {
			p.settle(now)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		at, ok := p.load.Next()
		switch {
		case ok && (at > now || progress) && (len(p.busy) == 0 || at < p.busy[0].at):
			now = max(now, at)
		case len(p.busy) > 0:
			now = p.busy[0].at
		case ok || p.load.Left() > 0:
			return errors.New("the load has turns left that wait for no request: this is a bug in agentx")
		default:
			return nil
		}
	}
}

func (p *player) end(e event, now int64) {
	if p.happen != nil {
		p.happen(e)
	}
	if !e.first {
		p.load.Completed(e.turn, now)
	}
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}
