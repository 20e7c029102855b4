package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
)

// Player plays a cache on the clock of its caller, and sends nothing: the caller takes each turn that is due, and says when it has
// ended. Which turns these are, in which order, and when, is what Run makes of the same options: traces, lanes, starts, gaps, joins and
// limits are its own. A Player has no clock, starts no goroutine and reads no prompt, so a cache of mmapcache.OpenStructure is enough.
//
//	p, err := replay.NewPlayer(o)
//	for !p.Done() {
//		for turn, ok := p.Take(now); ok; turn, ok = p.Take(now) { ... }
//		at, ok := p.Next()                        // when Take has a turn if nothing returns before
//		err = p.Returned(id, now, conductor.OK)   // a turn that was taken has ended
//	}
//
// Instants count from the start, and do not go back.
type Player struct {
	conductor *conductor.Conductor
	source    treeSource
	played    func(conductor.Dispatch) (trace, tree int) // what the lane of a turn plays
	part      Part
	duration  time.Duration // of the sending; 0: no bound
	err       error         // of the start

	due     []PlayedTurn // from first on
	first   int
	started bool
}

// PlayedTurn is a turn that a Player gives out.
type PlayedTurn struct {
	conductor.Dispatch // its Lane is one of the whole load, its Tree the number of the tree in the order in which lanes get them

	Trace int // position in the cache
}

// NewPlayer returns a player of what options play. It needs Cache alone, and ignores what Run does with servers and results. The error
// names the first option that cannot be used, or that only a run with servers has.
func NewPlayer(o Options) (*Player, error) {
	if err := o.ValidatePlayer(); err != nil {
		return nil, err
	}
	o.Marker = payload.NoMarker
	o = o.withDefaults()
	traces, err := selectTraces(o, 0)
	if err != nil {
		return nil, err
	}
	whole := o
	plan, _, err := whole.planPart(traces)
	if err != nil {
		return nil, err
	}
	o = whole.ofPart()
	s := newSampler(o, o.Warn)
	s.plans = true
	phase := measuredPhase(o, s, nil)
	if plan.schedule != nil {
		phase.arrivals = plan.schedule
		err = s.prepareArrivals(plan.traces)
	} else {
		starts := newStartPolicy(o)
		var begun []startedLane
		if begun, err = s.openLanes(&whole, plan.traces, starts); err == nil {
			s.align(begun, starts)
		}
	}
	if err != nil {
		return nil, err
	}
	return newPlayer(o, phase, func(d conductor.Dispatch) (trace, tree int) { return s.lanes[d.Lane].index, s.lanes[d.Lane].ordinal }), nil
}

// newPlayer returns a player of a phase.
func newPlayer(o Options, p phase, played func(conductor.Dispatch) (trace, tree int)) *Player {
	l := &Player{source: p.source, played: played, part: o.Part, duration: p.deadlines.duration}
	l.conductor = p.conduct(o.maxOpen(), l.launch, l.onEvent)
	return l
}

// ValidatePlayer returns an error about the first option that NewPlayer cannot use.
func (o Options) ValidatePlayer() error {
	switch {
	case o.Cache == nil:
		return errNoCache
	case o.Warmup.asked():
		return errors.New("warmup: a player has none: it plays the measured phase alone")
	case o.Limits.Prefill > 0:
		return fmt.Errorf("limits: prefill %d: a player does not learn of first tokens", o.Limits.Prefill)
	case o.MaxContext == ServerContext:
		return errors.New("max context of the server: a player asks none: want a number of tokens")
	case o.StopOnDeadlock:
		return errors.New("StopOnDeadlock: a player goes on with the next tree")
	}
	return o.validatePlayed()
}

// launch keeps a turn until it is taken.
func (p *Player) launch(d conductor.Dispatch) error {
	trace, tree := p.played(d)
	d.Lane, d.Tree = p.part.whole(d.Lane), tree
	p.due = append(p.due, PlayedTurn{d, trace})
	return nil
}

func (p *Player) onEvent(e conductor.Event) {
	if e.Kind == conductor.TreeDrained || e.Kind == conductor.TreeReleased {
		p.source.ended(e.Lane)
	}
}

// Next returns when Take has a turn if none returns before. ok is false if only a return can make one due. At may be an instant at
// which there is none after all: then Next tells a later one.
func (p *Player) Next() (at time.Duration, ok bool) {
	switch {
	case p.first < len(p.due):
		return p.due[p.first].Issued, true
	case !p.started:
		return 0, true
	}
	at, ok = p.conductor.NextWake()
	if p.duration > 0 && at >= p.duration {
		return 0, false
	}
	return at, ok
}

// Take returns the next turn that is due now, in the order of sending; ok is false if there is none.
func (p *Player) Take(now time.Duration) (t PlayedTurn, ok bool) {
	p.wake(now)
	if p.first == len(p.due) {
		p.due, p.first = p.due[:0], 0
		return t, false
	}
	p.first++
	return p.due[p.first-1], true
}

// wake makes due what is due now.
func (p *Player) wake(now time.Duration) {
	p.expire(now)
	switch at, ok := p.conductor.NextWake(); {
	case !p.started:
		p.started = true
		p.err = p.conductor.Start(now)
	case ok && at <= now:
		p.conductor.Wake(now)
	}
}

// expire ends the sending when its time is up.
func (p *Player) expire(now time.Duration) {
	if p.duration > 0 && now >= p.duration && !p.conductor.Stopped() {
		p.conductor.Stop(now)
	}
}

// Returned says that a turn that was taken has ended now. The error is about a turn that has ended before or was never taken.
func (p *Player) Returned(id int, now time.Duration, outcome conductor.Outcome) error {
	p.expire(now)
	return p.conductor.Returned(id, now, now, outcome)
}

// Done reports whether every turn that was taken has returned, and none will be due.
func (p *Player) Done() bool {
	if p.duration > 0 && p.started {
		if at, ok := p.conductor.NextWake(); ok && at >= p.duration {
			return p.conductor.Counts().InFlight == 0
		}
	}
	return p.started && p.conductor.Done()
}

// Counts returns what has been played so far.
func (p *Player) Counts() conductor.Counts { return p.conductor.Counts() }

// Err returns what ended the play before its bounds.
func (p *Player) Err() error { return errors.Join(p.err, p.conductor.Err(), p.source.failed()) }
