package replay

import (
	"fmt"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// nextArrival opens the tree that arrives next on a lane. Where every trace is played once, one that cannot be played is an arrival
// without a tree; else the next one takes its place.
func (s *sampler) nextArrival(lane int) (conductor.Assignment, bool) {
	trace, ok := s.dealer.deal()
	if !ok {
		return conductor.Assignment{}, false
	}
	t := s.load(trace)
	if t == nil && !s.dealer.once {
		if t = s.nextPlayable(); t == nil {
			return conductor.Assignment{}, false
		}
	}
	s.prefetch()
	if t == nil {
		return conductor.Assignment{}, true
	}
	s.open(lane, t)
	return conductor.Assignment{Tree: t.Tree}, true
}

// How far traces are loaded before they arrive: bursts must not wait for the disk.
const (
	arrivalDepth = 256 // traces
	arrivalScan  = 32  // so many more are looked at together, so that a tree that opens seldom pays for it
)

// prefetchArrivals loads the traces that arrive next.
func (s *sampler) prefetchArrivals() {
	if s.scanned > 0 && s.dealer.dealt < s.scanned+arrivalScan {
		return
	}
	s.scanned = s.dealer.dealt
	s.loadAhead(s.dealer.upcoming(min(arrivalDepth+arrivalScan, len(s.dealer.traces))))
}

// readyArrivals is how many traces are loaded before the first arrives.
const readyArrivals = 64

// prepareArrivals loads the traces that arrive first. The error says that none of all traces can be played.
func (s *sampler) prepareArrivals(traces []int) error {
	s.dealer.traces = traces
	playable := false
	for k := 0; k < len(traces) && !playable; k++ {
		playable = s.loader(s.dealer.at(k))().err == nil
	}
	if !playable {
		for _, trace := range traces {
			s.load(trace) // which warns
		}
		if s.err != nil {
			return s.err
		}
		return fmt.Errorf("replay: none of %d traces can be played: see the warnings", len(traces))
	}
	s.prefetchArrivals()
	for _, trace := range s.dealer.upcoming(readyArrivals) {
		if a, ok := s.ahead[trace]; ok {
			if r := a.load(); r.err == nil {
				_, _ = r.render() // an error comes up again when the trace is sent
			}
		}
	}
	return nil
}

// firstArrivals returns trees that play the traces that arrive first, at most n. They are no trees of the run.
func (s *sampler) firstArrivals(n int) (list []*activeTree) {
	for _, trace := range s.dealer.upcoming(n) {
		r := s.loader(trace)()
		if r.err != nil {
			continue
		}
		t := &activeTree{loadedTrace: r.loadedTrace, ordinal: len(list), correlationIDs: make([]string, len(r.plan.Sessions)), cookies: new(wire.Jar)}
		if !s.unmarked {
			t.marker = payload.NewMarker(s.ledger.benchmark, 0, len(list), payload.BaseTrace(r.plan.Trace.ID))
		}
		list = append(list, t)
	}
	return list
}
