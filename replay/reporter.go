package replay

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// Progress is how far a run has come.
type Progress = measure.Progress

// reporter calls the callbacks of Options in a goroutine of its own, so that a slow one does not delay the loop. It
// keeps the latest progress alone, and queues messages while there is room.
type reporter struct {
	callbacks Options
	progress  chan Progress
	messages  chan func()   // each calls one of the other callbacks
	closing   chan struct{} // closed when nothing more is to come
	done      chan struct{} // closed when everything has been said
	dropped   atomic.Int64  // messages without room
}

const (
	reporterRoom  = 1024            // messages that may wait
	reporterDrain = 2 * time.Second // longest wait for the callbacks at the end of a run
)

// newReporter returns a reporter of callbacks that are not nil.
func newReporter(o Options) *reporter {
	r := &reporter{
		callbacks: o, progress: make(chan Progress, 1), messages: make(chan func(), reporterRoom), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run()
	return r
}

func (r *reporter) run() {
	defer close(r.done)
	for {
		select {
		case p := <-r.progress:
			r.callbacks.Progress(p)
		case say := <-r.messages:
			say()
		case <-r.closing:
			for len(r.messages) > 0 {
				(<-r.messages)()
			}
			if n := r.dropped.Load(); n > 0 {
				r.callbacks.Warn(fmt.Sprintf("and %d more warnings, for which there was no room", n))
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

func (r *reporter) opened(dir string) { r.enqueue(func() { r.callbacks.Opened(dir) }) }

func (r *reporter) warn(text string) { r.enqueue(func() { r.callbacks.Warn(text) }) }

func (r *reporter) notice(text string) { r.enqueue(func() { r.callbacks.Notice(text) }) }

func (r *reporter) period(p Progress) { r.enqueue(func() { r.callbacks.Period(p) }) }

func (r *reporter) phase(n PhaseNews) { r.enqueue(func() { r.callbacks.Phase(n) }) }

func (r *reporter) enqueue(say func()) {
	select {
	case r.messages <- say:
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
