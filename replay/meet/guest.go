package meet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/agentx/agentx/replay/preset"
)

// dialEvery is how long a part that does not reach part 0 waits before it tries again.
const dialEvery = 500 * time.Millisecond

// beatEvery is how often a part sends what it has gained, and compares the clocks.
const beatEvery = time.Second

// visit is Join of a part that is not part 0.
func (m *Meeting) visit() error {
	if err := m.reach(); err != nil {
		return err
	}
	m.work.Go(m.beat)
	if err := m.wait(m.ctx, func() bool { return m.met }, nil); err != nil {
		return err
	}
	m.compare(m.ctx)
	return nil
}

// reach connects to part 0. The error says why it is not there, or does not want this part.
func (m *Meeting) reach() error {
	ctx, cancel := context.WithTimeoutCause(m.ctx, m.o.Timeout, errLate)
	defer cancel()
	for told := false; ; told = true {
		w, conn, err := m.greetOnce()
		switch {
		case m.isStop(err):
			m.end(err.(*Stop), m.o.Part)
			return err
		case err == nil:
			m.mu.Lock()
			m.id = w.ID
			m.connectLocked(0, w.Member.Host, conn, m.listenTo)
			m.mu.Unlock()
			return nil
		}
		var strange strangerError
		if errors.As(err, &strange) {
			return fmt.Errorf("meeting: %s is not part 0 of an agentx run: %w: %s names another program", m.o.Address, err, preset.Setting("meet"))
		}
		if !told {
			m.notice("part %d/%d waits for part 0 at %s, for %v at most: %v", m.o.Part, m.o.Of, m.o.Address, m.o.Timeout, err)
		}
		if m.pause(ctx, dialEvery) != nil {
			if m.ctx.Err() != nil {
				return context.Cause(m.ctx)
			}
			return fmt.Errorf("meeting: part 0 did not come to %s within %v: %w: %s", m.o.Address, m.o.Timeout, err, preset.Text("start it, with the same {meet}, or choose a longer {meet-timeout}"))
		}
	}
}

// greetOnce connects to part 0 once and says who this part is. The reply is a welcome, with its connection, or itself.
func (m *Meeting) greetOnce() (*message, net.Conn, error) {
	ctx, cancel := context.WithTimeout(m.ctx, greetingTimeout)
	defer cancel()
	conn, err := m.o.Dial(ctx, m.o.Address)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(greetingTimeout))
	stop := context.AfterFunc(m.ctx, func() { _ = conn.Close() })
	reply, err := m.introduce(conn)
	if err == nil && (reply.Kind != welcome || reply.Member == nil) && reply.Kind != itself {
		err = strangerError(fmt.Sprintf("it sent a message %q: want %s", reply.Kind, welcome))
	}
	if !stop() && err == nil {
		err = context.Cause(m.ctx)
	}
	if err != nil || reply.Kind == itself {
		_ = conn.Close()
		return reply, nil, describe(err)
	}
	return reply, conn, conn.SetDeadline(time.Time{})
}

// beat sends what the part has gained, and asks for the time, until the meeting is over.
func (m *Meeting) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case <-tick.C:
			m.sendGain()
			m.send(&message{Kind: clock})
		}
	}
}

// sendGain sends what the part has gained.
func (m *Meeting) sendGain() {
	var g json.RawMessage
	if m.o.Gain != nil {
		g = m.o.Gain()
	}
	if g != nil {
		m.send(&message{Kind: gain, Gain: g})
	}
}

// send sends a message to part 0, if it is there.
func (m *Meeting) send(r *message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.parts[0].link; l != nil {
		l.send(r)
	}
}

// compare compares the clocks by some exchanges, and returns the slowest round trip.
func (m *Meeting) compare(ctx context.Context) time.Duration {
	count := m.clock.begin()
	for range exchanges {
		count++
		m.send(&message{Kind: clock, Compare: true})
		if m.wait(ctx, func() bool { return m.clock.reached(count) || m.parts[0].link == nil }, nil) != nil {
			break
		}
	}
	return m.clock.end()
}

// listenTo takes a message of part 0.
func (m *Meeting) listenTo(_ int, _ *link, r *message, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.Kind == clock:
		m.clock.add(r, at.UnixNano())
	case r.Kind == stop && r.Stop != nil:
		m.endLocked(r.Stop, 0)
	case r.Kind == met:
		m.met = true
	case r.Kind == begin && r.Phase != "":
		m.begins[r.Phase] = r.At
	case r.Kind == lost && r.Lost != nil && r.Lost.Number > 0 && r.Lost.Number < m.o.Of:
		m.loseLocked(*r.Lost)
	default:
		return strangerError(fmt.Sprintf("it sent a message %q", r.Kind))
	}
	m.changeLocked()
	return nil
}

// pause waits. The error says that a context, or the meeting, has ended.
func (m *Meeting) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.life.Done():
		return errOver
	}
}

var errOver = errors.New("the meeting is over")
