package hitcurve

import (
	"context"
	"errors"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/heap"
)

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
