package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/agentx/agentx/replay/preset"
)

// maxGreetings is how many connections may be about to say who they are at a time.
const maxGreetings = 256

// listen listens for part 0: on all addresses of its machine, because the name of a machine may mean another address on it than
// elsewhere; where the address of the meeting is one of the loopback interface, on that alone.
func (o *Options) listen(ctx context.Context) (net.Listener, error) {
	host, port, _ := net.SplitHostPort(o.Address) // newMeeting has split it
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		host = ""
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// gather is Join of part 0: it waits for all others.
func (m *Meeting) gather() error {
	if m.met {
		return nil
	}
	l, err := m.o.Listen(m.ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		return m.meetOther(err)
	}
	if err != nil {
		return fmt.Errorf("meeting: part 0 cannot listen: %w: choose another port", err)
	}
	missing := m.missing() // all: nobody is let in yet
	m.notice("part 0 waits for %s at %s, for %v at most", listParts(missing), m.o.Address, m.o.Timeout)
	m.work.Go(func() { m.accept(l) })
	context.AfterFunc(m.life, func() { _ = l.Close() })
	m.work.Go(m.findItself)
	ctx, cancel := context.WithTimeoutCause(m.ctx, m.o.Timeout, errLate)
	defer cancel()
	told := len(missing)
	err = m.wait(ctx, func() bool { return m.met }, func() {
		if left := m.missing(); len(left) != told {
			told = len(left)
			m.notice("%d of %d parts are here; missing: %s", m.o.Of-len(left), m.o.Of, listParts(left))
		}
	})
	if errors.Is(err, errLate) {
		err = m.tooLate()
	}
	if err == nil {
		m.notice("all %d parts have met", m.o.Of)
	}
	return err
}

var errLate = errors.New("the parts have not met in time")

// missing returns the parts that have not come.
func (m *Meeting) missing() (list []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.parts {
		if !p.here {
			list = append(list, k)
		}
	}
	return list
}

// tooLate ends a load whose parts have not all come.
func (m *Meeting) tooLate() error {
	why := fmt.Sprintf("%s of %d did not come to %s within %v", listParts(m.missing()), m.o.Of, m.o.Address, m.o.Timeout)
	m.mu.Lock()
	for k := range m.parts {
		m.parts[k].told = true // nothing stays to tell them
	}
	if m.strange > 0 {
		why += fmt.Sprintf("; of the connections that were no parts (%d) the last came from %s", m.strange, m.strayed)
	}
	m.mu.Unlock()
	m.Stop(Failed, why)
	return fmt.Errorf("meeting: %s: %s", why, preset.Text("start them, with the same {meet}, or choose a longer {meet-timeout}"))
}

// findItself looks whether the address of the meeting is that of this part 0. Another part 0 there ends both.
func (m *Meeting) findItself() {
	for m.ctx.Err() == nil {
		switch reply, _, err := m.greetOnce(); {
		case err == nil && reply.Kind == itself:
			return
		case m.isStop(err):
			m.end(err.(*Stop), m.o.Part)
			return
		}
		if m.pause(m.ctx, time.Second) != nil {
			return
		}
	}
}

// meetOther tells another part 0 that listens on the address that there are two.
func (m *Meeting) meetOther(busy error) error {
	if _, _, err := m.greetOnce(); m.isStop(err) {
		return err
	}
	return fmt.Errorf("meeting: part 0 cannot listen: %w: another program listens there: choose another port", busy)
}

// isStop reports whether an error is the end of the load.
func (m *Meeting) isStop(err error) bool {
	var s *Stop
	return errors.As(err, &s)
}

// accept takes connections until the listener is closed.
func (m *Meeting) accept(l net.Listener) {
	slots := make(chan struct{}, maxGreetings)
	for {
		slots <- struct{}{} // greetings have a timeout
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			<-slots
			if m.pause(context.Background(), 100*time.Millisecond) != nil {
				return
			}
			continue
		}
		m.work.Go(func() {
			defer func() { <-slots }()
			m.greet(conn)
		})
	}
}

// greet finds out who a connection is, and admits or refuses it.
func (m *Meeting) greet(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(greetingTimeout))
	stop := context.AfterFunc(m.life, func() { _ = conn.Close() })
	h, err := m.receive(conn)
	if !stop() {
		return
	}
	if err != nil {
		m.strayedFrom(conn.RemoteAddr(), describe(err)) // first: the other side ends with the answer, and may end this one
		if errors.Is(err, errToken) {
			m.dismiss(conn, &message{Kind: refused, Stop: &Stop{
				Of: m.o.Of, Host: m.o.Host, How: Unequal, Reason: fmt.Sprintf("part 0 at %s refuses this part: %v: give all parts the same", m.o.Address, err),
			}})
		} else {
			_ = conn.Close()
		}
		return
	}
	if reply := m.admit(h, conn); reply != nil {
		m.dismiss(conn, reply)
	}
}

// maxStrays is how many connections that are no parts are named.
const maxStrays = 5

// strayedFrom notes a connection that is no part.
func (m *Meeting) strayedFrom(from net.Addr, why error) {
	m.mu.Lock()
	m.strange++
	n, text := m.strange, fmt.Sprintf("%v: %v", from, why)
	m.strayed = text
	m.mu.Unlock()
	if n <= maxStrays {
		m.warn("meeting: rejected a connection that is not a part of agentx, from %s", text)
	}
}

// dismiss sends a connection its last message, and closes it when the other side has read it.
func (m *Meeting) dismiss(conn net.Conn, last *message) {
	_ = conn.SetDeadline(time.Now().Add(closeTimeout))
	if writeMessage(conn, last) == nil {
		endConn(conn)
		_, _ = conn.Read(make([]byte, 1)) // its end
	}
	_ = conn.Close()
}

// admit makes a connection that of a part. The reply, if there is one, says why not.
func (m *Meeting) admit(h *message, conn net.Conn) (reply *message) {
	other := h.Member
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case other.Part == 0 && h.ID == m.id:
		return &message{Kind: itself}
	case m.life.Err() != nil:
		return &message{Kind: refused, Stop: &Stop{Of: m.o.Of, Host: m.o.Host, How: Refused, Reason: errOver.Error()}}
	}
	known := other.Part > 0 && other.Part < m.o.Of
	if m.stop == nil && !m.begunLocked() {
		if reason := m.refuseLocked(other); reason != "" {
			m.endLocked(&Stop{Part: other.Part, Of: other.Of, Host: other.Host, How: Unequal, Reason: reason}, m.o.Part)
		}
	}
	switch {
	case m.stop != nil:
		if known {
			m.parts[other.Part].told = true
			m.changeLocked()
		}
		return &message{Kind: stop, Stop: m.stop}
	case m.begunLocked():
		m.warn("meeting: %s came after the load had begun, and was sent away", other.name())
		return &message{Kind: refused, Stop: &Stop{
			Of: m.o.Of, Host: m.o.Host, How: Refused, Reason: fmt.Sprintf("the load of %s began without %s, which came too late, or was lost: start all parts again", m.o.name(), other.name()),
		}}
	}
	_ = conn.SetDeadline(time.Time{})
	m.connectLocked(other.Part, other.Host, conn, m.hear)
	m.parts[other.Part].link.send(&message{Kind: welcome, ID: m.id, Member: &Member{Of: m.o.Of, Host: m.o.Host}})
	m.met = true
	for _, p := range m.parts {
		m.met = m.met && p.here
	}
	if m.met {
		for _, p := range m.parts[1:] {
			p.link.send(&message{Kind: met})
		}
	}
	m.changeLocked()
	return nil
}

// refuseLocked returns why a part is none of this load, before the load begins; "": it is.
func (m *Meeting) refuseLocked(other *Member) string {
	what, theirs, mine := other.differs(&m.o.Member)
	switch {
	case what != "":
		return fmt.Sprintf("%s and %s differ in %s: %s and %s: give all parts the same", other.name(), m.o.name(), what, theirs, mine)
	case other.Part == 0:
		return fmt.Sprintf("there are two parts 0, on %s and on %s: give each part a number of its own", other.Host, m.o.Host)
	case other.Part < 0 || other.Part >= m.o.Of:
		return fmt.Sprintf("%s: number %d: want 0 to %d", other.name(), other.Part, m.o.Of-1)
	case m.parts[other.Part].here:
		return fmt.Sprintf("there are two parts %d, on %s and on %s: give each part a number of its own", other.Part, other.Host, m.parts[other.Part].host)
	}
	return ""
}

// hear takes a message of another part, at part 0.
func (m *Meeting) hear(k int, l *link, r *message, at time.Time) error {
	switch r.Kind {
	case clock:
		l.send(&message{Kind: clock, Compare: r.Compare, T1: r.T1, T2: at.UnixNano()})
		return nil
	case gain:
		if m.o.Gained != nil {
			return m.o.Gained(k, r.Gain)
		}
		return nil
	case stop:
		if r.Stop == nil {
			return strangerError("it sent a stop without a reason")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.endLocked(&Stop{Part: k, Of: m.o.Of, Host: m.parts[k].host, How: r.Stop.How, Reason: r.Stop.Reason}, k)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[k]
	switch r.Kind {
	case ready:
		p.ready, p.rtt = r.Phase, time.Duration(r.RTT)
	case done:
		p.done = true
	default:
		return strangerError(fmt.Sprintf("it sent a message %q", r.Kind))
	}
	m.changeLocked()
	return nil
}
