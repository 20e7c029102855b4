package meet

import (
	"context"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// minLead is how far ahead an instant at which all parts begin is at least. It is also ten of the slowest round trips.
const minLead = 100 * time.Millisecond

// Begin says that this part can begin a phase, and returns when all begin it. Part 0 first calls first, if it is not nil, when all
// can; its error is returned, and the others wait for Stop. When ctx ends it returns nil: the phase begins, and sees that.
func (m *Meeting) Begin(ctx context.Context, phase string, first func(context.Context) error) error {
	if m.o.Part == 0 {
		return m.lead(ctx, phase, first)
	}
	m.follow(ctx, phase)
	return nil
}

// lead is Begin of part 0.
func (m *Meeting) lead(ctx context.Context, phase string, first func(context.Context) error) error {
	told := 0
	err := m.wait(ctx, func() bool { return m.stop != nil || len(m.unreadyLocked(phase)) == 0 }, func() {
		m.mu.Lock()
		left := m.unreadyLocked(phase)
		m.mu.Unlock()
		if len(left) != told && len(left) > 0 {
			told = len(left)
			m.notice("waiting until %s can begin the %s", listParts(left), phase)
		}
	})
	if err == nil && first != nil {
		if err := first(ctx); err != nil {
			return err
		}
		err = ctx.Err()
	}
	if err != nil {
		return nil
	}
	m.mu.Lock()
	lead := minLead
	for _, p := range m.parts {
		lead = max(lead, 10*p.rtt)
	}
	at := m.o.Now().Add(lead)
	if m.stop == nil {
		m.begins[phase] = at.UnixNano()
		for _, p := range m.parts {
			if p.link != nil {
				p.link.send(&message{Kind: begin, Phase: phase, At: at.UnixNano()})
			}
		}
	}
	m.mu.Unlock()
	m.until(ctx, at)
	return nil
}

// unreadyLocked returns the other parts that cannot begin a phase yet. Those that are over or lost are not waited for.
func (m *Meeting) unreadyLocked(phase string) (list []int) {
	for k, p := range m.parts {
		if k != m.o.Part && p.ready != phase && !p.done && !p.lost {
			list = append(list, k)
		}
	}
	return list
}

// follow is Begin of the other parts. Without part 0 a part begins alone.
func (m *Meeting) follow(ctx context.Context, phase string) {
	rtt := m.compare(ctx)
	m.send(&message{Kind: ready, Phase: phase, RTT: int64(rtt)})
	var at int64
	alone := false
	err := m.wait(ctx, func() bool {
		at, alone = m.begins[phase], m.parts[0].lost
		return at != 0 || alone || m.stop != nil
	}, nil)
	if err != nil || at == 0 {
		return
	}
	begins := m.clock.own(at)
	if late := m.o.Now().Sub(begins); late > 0 {
		m.warn("this part begins the %s %v after the others: the network, or this machine, is slow", phase, late)
	}
	m.until(ctx, begins)
}

// until waits until an instant of the clock.
func (m *Meeting) until(ctx context.Context, at time.Time) {
	for left := at.Sub(m.o.Now()); left > 0; left = at.Sub(m.o.Now()) {
		if m.pause(ctx, left) != nil {
			return
		}
	}
}

// KeepClock calls write for each comparison of the clocks, those before first, and returns a function that ends that after a last one.
// Part 0 has one, with itself.
func (m *Meeting) KeepClock(write func(measure.ClockReading)) (end func()) {
	if m.o.Part == 0 {
		write(measure.ClockReading{Unix: m.o.Now().UnixNano()})
		return func() {}
	}
	m.clock.tell(write)
	return func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(m.ctx), time.Second, errLate)
		defer cancel()
		m.mu.Lock()
		alone := m.parts[0].link == nil
		m.mu.Unlock()
		if !alone {
			m.compare(ctx)
		}
		m.clock.end()
		m.clock.tell(nil)
	}
}

// Finish says that this part is over, and returns the parts that are lost. Part 0 waits until all others are over, or lost, the load
// has ended, or ctx.
func (m *Meeting) Finish(ctx context.Context) []measure.LostPart {
	m.mu.Lock()
	m.parts[m.o.Part].done = true
	m.mu.Unlock()
	if m.o.Part > 0 {
		m.send(&message{Kind: done})
		return m.Lost()
	}
	told := 0
	_ = m.wait(ctx, func() bool { return m.stop != nil || len(m.playingLocked()) == 0 }, func() {
		m.mu.Lock()
		left := m.playingLocked()
		m.mu.Unlock()
		if len(left) != told && len(left) > 0 {
			told = len(left)
			m.notice("this part is over; waiting until %s are", listParts(left))
		}
	})
	return m.Lost()
}

// playingLocked returns the other parts that are not over.
func (m *Meeting) playingLocked() (list []int) {
	for k, p := range m.parts {
		if k != m.o.Part && p.here && !p.done && !p.lost && p.link != nil {
			list = append(list, k)
		}
	}
	return list
}

// lingering is how long part 0 of a load that has failed before it began waits for parts that come later, to tell them.
const lingering = 10 * time.Second

// Close leaves the meeting. A part that has neither called Finish nor Stop is lost for the others. Part 0 of a load that has failed
// before it began stays for a while, so that parts that come late do not wait for it.
func (m *Meeting) Close() {
	if m.o.Part == 0 {
		m.linger()
	} else {
		m.sendGain()
	}
	if !m.unwatch() || m.outer.Err() != nil {
		m.interrupt() // which may not have run yet
	}
	m.leave()
	m.cancel(errOver)
	m.mu.Lock()
	for _, p := range m.parts {
		if p.link != nil {
			p.link.close()
		}
	}
	m.mu.Unlock()
	m.work.Wait()
}

// linger waits until all parts know that the load has failed.
func (m *Meeting) linger() {
	m.mu.Lock()
	failed := m.stop != nil && !m.begunLocked()
	var left []int
	for k, p := range m.parts {
		if !p.told {
			left = append(left, k)
		}
	}
	m.mu.Unlock()
	if !failed || len(left) == 0 || m.outer.Err() != nil {
		return
	}
	m.notice("%v; part 0 stays %v at most, to tell %s, which would wait for it", m.stop, lingering, listParts(left))
	ctx, cancel := context.WithTimeout(m.outer, lingering)
	defer cancel()
	_ = m.wait(ctx, func() bool { return !slices.ContainsFunc(m.parts, func(p part) bool { return !p.told }) }, nil)
}
