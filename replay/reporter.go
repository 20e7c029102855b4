package replay

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// Progress is how far a run has come.
type Progress struct {
	Phase        string // measure.WarmupPhase or measure.ProfilingPhase, from whose start the other fields count
	Elapsed      time.Duration
	Requests     int // sent
	InFlight     int
	Completed    int
	Errors       int
	Overflows    int // of the context
	Cancelled    int
	TreesOpened  int
	TreesDrained int // played to their end
	TreesOpen    int // that are played

	Arrivals     bool // trees arrive on their own
	TreesWaiting int  // that have arrived and wait to be opened
}

// reporter calls the callbacks of Options in a goroutine of its own, so that a slow one does not delay the loop. It
// keeps the latest progress alone, and queues messages while there is room.
type reporter struct {
	progress chan Progress
	messages chan message
	closing  chan struct{} // closed when nothing more is to come
	done     chan struct{} // closed when everything has been said
	dropped  atomic.Int64  // messages without room
}

// message is a warning, a notice, or what a period was like.
type message struct {
	text   string
	notice bool
	period *measure.Period // nil: it is one of the others
}

const (
	reporterRoom  = 1024            // messages that may wait
	reporterDrain = 2 * time.Second // longest wait for the callbacks at the end of a run
)

// newReporter returns a reporter of callbacks that are not nil.
func newReporter(o Options) *reporter {
	r := &reporter{
		progress: make(chan Progress, 1), messages: make(chan message, reporterRoom), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run(o.Progress, func(m message) {
		switch {
		case m.period != nil:
			o.Period(*m.period)
		case m.notice:
			o.Notice(m.text)
		default:
			o.Warn(m.text)
		}
	})
	return r
}

func (r *reporter) run(progress func(Progress), say func(message)) {
	defer close(r.done)
	for {
		select {
		case p := <-r.progress:
			progress(p)
		case m := <-r.messages:
			say(m)
		case <-r.closing:
			for len(r.messages) > 0 {
				say(<-r.messages)
			}
			if n := r.dropped.Load(); n > 0 {
				say(message{text: fmt.Sprintf("and %d more warnings, for which there was no room", n)})
			}
			return
		}
	}
}

// report hands progress over. It replaces progress that has not been delivered yet.
func (r *reporter) report(p Progress) {
	select {
	case <-r.progress:
	default:
	}
	r.progress <- p // there is room: only the calling goroutine fills it
}

func (r *reporter) warn(text string) { r.enqueue(message{text: text}) }

func (r *reporter) notice(text string) { r.enqueue(message{text: text, notice: true}) }

func (r *reporter) period(p measure.Period) { r.enqueue(message{period: &p}) }

func (r *reporter) enqueue(m message) {
	select {
	case r.messages <- m:
	default:
		r.dropped.Add(1)
	}
}

// close waits until everything has been said, for reporterDrain at most.
func (r *reporter) close() {
	close(r.closing)
	select {
	case <-r.done:
	case <-time.After(reporterDrain):
	}
}
