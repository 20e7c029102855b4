package replay

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// readyTime bounds how long the measured phase is made ready. It is below the time for which connections are kept, and --start-at waits so
// much less for the start itself.
const readyTime = 2 * time.Second

// firstRequestsPhase is what the parts of a load begin together when the measured phase is ready in all of them.
const firstRequestsPhase = "first requests"

// ready does what the requests that leave when the measured phase begins would all do at that instant: it locates the prompts of their
// traces, and makes their connections. What it does not come to is left to the requests.
func (n network) ready(ctx context.Context) *measure.Ahead {
	until := time.Now().Add(readyTime)
	if at := n.StartAt; !at.IsZero() && len(n.periods) == 0 && at.Before(until) {
		until = at
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	requests := n.firstRequests()
	var opened atomic.Int64
	var all sync.WaitGroup
	for k, list := range n.ahead(requests) {
		all.Go(func() { opened.Add(int64(n.servers.clients[k].Open(ctx, list))) })
	}
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for k := next.Add(1); int(k) <= len(requests) && ctx.Err() == nil; k = next.Add(1) {
				_, _ = n.sampler.lanes[requests[k-1].Lane].render() // an error comes up again when it is sent
			}
		})
	}
	all.Wait()
	return &measure.Ahead{Requests: len(requests), Connections: int(opened.Load())}
}

// firstRequests lists the requests that leave when the measured phase begins: what a conductor of its own launches at that instant.
func (r *run) firstRequests() (list []conductor.Dispatch) {
	source := onceSource(slices.Clone(r.sampler.first)) // without trees where these arrive
	p := measuredPhase(r.Options, source, nil)
	launch := func(d conductor.Dispatch) error {
		list = append(list, d)
		return nil
	}
	_ = p.conduct(len(source), launch, func(conductor.Event) {}).Start(0) // launch refuses nothing
	return list
}

// ahead returns for each client what its connections are for.
func (r *run) ahead(requests []conductor.Dispatch) [][]wire.Ahead {
	list := make([][]wire.Ahead, len(r.servers.clients))
	for _, d := range requests {
		t := r.sampler.lanes[d.Lane]
		a := wire.Ahead{Route: r.routeOf(t)}
		if r.Reuse == wire.StickySessions {
			a.Session = t.correlationID(d.Session, r.NewID)
		}
		k := r.Part.whole(t.ordinal) % len(list)
		list[k] = append(list[k], a)
	}
	return list
}
