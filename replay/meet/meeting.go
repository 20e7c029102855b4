// Package meet lets the parts of a load begin together, end together, and know each other's clocks (doc/spec/cluster.md 3.2).
//
// Part 0 listens, every other part connects to it, and each connection stays for the whole run. Messages are JSON behind four bytes of
// length. A Meeting knows nothing of what is played: it carries the options of the parts as texts, and what they gain as JSON.
package meet

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// DefaultTimeout is how long parts wait for each other where Options do not say it.
const DefaultTimeout = 10 * time.Minute

// Options say who meets where. Member and Address are required.
type Options struct {
	Member
	Address string        // HOST:PORT of part 0, as all parts reach it
	Token   string        // that all parts know; "": none
	Timeout time.Duration // longest wait for all parts; 0: DefaultTimeout

	// Now is the clock of the machine, which counts as that of a run does; nil: that of this package.
	Now func() time.Time

	// Gain returns what the part has gained since the last call, for part 0; nil: nothing is sent. Gained gets that of another
	// part at part 0, where an error ends the connection; Left says that another part is over or lost. Each is called by one goroutine
	// at a time for a part.
	Gain   func() json.RawMessage
	Gained func(part int, gain json.RawMessage) error
	Left   func(part int)

	Notice func(string) // gets what the parts wait for; nil: nothing
	Warn   func(string) // gets what is odd; nil: nothing

	Listen func(ctx context.Context) (net.Listener, error)             // of part 0; nil: on the port of Address
	Dial   func(ctx context.Context, address string) (net.Conn, error) // nil: TCP
}

// newClock returns a clock that counts from the wall clock now, and then by the monotonic clock, as the phases of a run do.
func newClock() func() time.Time {
	base := time.Now()
	return func() time.Time { return base.Add(time.Since(base)) }
}

// Meeting is the parts of a load that have met. Its methods may be called by many goroutines at once.
type Meeting struct {
	o       Options
	id      string
	outer   context.Context // of Join
	unwatch func() bool     // ends the watch of outer
	ctx     context.Context // ends when another part has ended the load; its cause is a *Stop
	cancel  context.CancelCauseFunc
	life    context.Context // ends when the meeting is over
	leave   context.CancelFunc
	clock   *comparer // of a part that is not part 0
	work    sync.WaitGroup
	says    chan func() // calls of Notice, Warn and Left, which may be slow

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when something below has changed
	parts   []part        // by number
	met     bool          // all parts have come
	begins  map[string]int64
	stop    *Stop // why the load has ended; nil: it has not
	lost    []measure.LostPart
	strange int    // connections that were no parts
	strayed string // why the last of them was none
}

// part is what is known of a part. Of all but part 0, part 0 knows the most.
type part struct {
	host  string
	here  bool // it has come
	told  bool // it knows of Meeting.stop
	done  bool // it is over
	lost  bool
	ready string // phase that it can begin
	rtt   time.Duration
	link  *link // nil: there is none
}

// Join lets a part meet the others, and returns when all are there and the clocks are compared. Until then, and while the load is
// played, another part can end it: then Context ends. The error is a *Stop where the parts are not those of one load, or another part has
// ended it. The caller must call Close.
func Join(ctx context.Context, o Options) (*Meeting, error) {
	m, err := newMeeting(ctx, o)
	if err != nil {
		return nil, err
	}
	m.unwatch = context.AfterFunc(ctx, m.interrupt)
	if o.Part == 0 {
		err = m.gather()
	} else {
		err = m.visit()
	}
	if err == nil && m.ctx.Err() != nil {
		err = context.Cause(m.ctx)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// newMeeting checks options and returns a meeting without connections.
func newMeeting(ctx context.Context, o Options) (*Meeting, error) {
	switch _, port, err := net.SplitHostPort(o.Address); {
	case o.Part < 0 || o.Part >= o.Of:
		return nil, fmt.Errorf("meeting: part %d of %d: want 0 to %d", o.Part, o.Of, o.Of-1)
	case err != nil || port == "" || port == "0":
		return nil, fmt.Errorf("meeting: %q: want HOST:PORT, those of part 0", o.Address)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Now == nil {
		o.Now = newClock()
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Left == nil {
		o.Left = func(int) {}
	}
	if o.Listen == nil {
		o.Listen = o.listen
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	m := &Meeting{
		o: o, outer: ctx, says: make(chan func(), 64), changed: make(chan struct{}), parts: make([]part, o.Of), begins: map[string]int64{}, clock: new(comparer),
	}
	m.parts[o.Part] = part{host: o.Host, here: true, told: true}
	if o.Part == 0 {
		m.id = hex.EncodeToString(newNonce()[:8])
		m.met = o.Of == 1
	}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	m.life, m.leave = context.WithCancel(context.WithoutCancel(ctx))
	m.work.Go(m.tell)
	return m, nil
}

// tell calls the callbacks that may be slow, until the meeting is over.
func (m *Meeting) tell() {
	for {
		select {
		case say := <-m.says:
			say()
		case <-m.life.Done():
			for len(m.says) > 0 {
				(<-m.says)()
			}
			return
		}
	}
}

// say has a callback called. Where too many wait it is left out.
func (m *Meeting) say(callback func()) {
	select {
	case m.says <- callback:
	default:
	}
}

func (m *Meeting) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.say(func() { m.o.Notice(text) })
}

func (m *Meeting) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.say(func() { m.o.Warn(text) })
}

// ID returns the id of the meeting, which is the same in all parts: 16 hex digits.
func (m *Meeting) ID() string { return m.id }

// Now returns the time of the clock that is compared with that of part 0.
func (m *Meeting) Now() time.Time { return m.o.Now() }

// Context returns a context of that of Join. It ends also when another part has ended the load: then its cause is a *Stop.
func (m *Meeting) Context() context.Context { return m.ctx }

// Stopped returns why another part has ended the load, nil if none has.
func (m *Meeting) Stopped() *Stop {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil || m.stop.Part == m.o.Part && m.stop.Host == m.o.Host {
		return nil
	}
	return m.stop
}

// Lost returns the parts that are lost, by number.
func (m *Meeting) Lost() []measure.LostPart {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lost)
}

// Stop ends the load for all parts, for a reason. It does not wait. The first stop of a load counts. A part that is over ends nothing,
// but that part 0, which waits for the others, is interrupted.
func (m *Meeting) Stop(how How, reason string) {
	m.mu.Lock()
	over := m.parts[m.o.Part].done
	m.mu.Unlock()
	if !over || m.o.Part == 0 && how == Interrupted {
		m.end(&Stop{Part: m.o.Part, Of: m.o.Of, Host: m.o.Host, How: how, Reason: reason}, m.o.Part)
	}
}

// interrupt ends the load because the caller of this part ends it.
func (m *Meeting) interrupt() { m.Stop(Interrupted, "interrupted") }

// end ends the load, as a part has said it.
func (m *Meeting) end(s *Stop, from int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(s, from)
}

func (m *Meeting) endLocked(s *Stop, from int) {
	if m.stop != nil {
		return
	}
	m.stop = s
	m.parts[from].told = true
	for k := range m.parts {
		if p := &m.parts[k]; p.link != nil && k != from {
			p.link.send(&message{Kind: stop, Stop: s})
			p.told = true
		}
	}
	if from != m.o.Part {
		m.notice("stopping, because %v", s)
	}
	if own := from == m.o.Part; own && m.outer.Err() != nil {
		m.cancel(context.Cause(m.outer)) // whichever of the two comes first
	} else if !own || s.How == Unequal || !m.begunLocked() {
		m.cancel(s)
	}
	m.changeLocked()
}

// begunLocked reports whether the load has begun.
func (m *Meeting) begunLocked() bool { return len(m.begins) > 0 }

// changeLocked wakes all that wait for a change.
func (m *Meeting) changeLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// lose notes that the connection to a part has ended, for a reason. Before the load has begun that ends it.
func (m *Meeting) lose(k int, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[k]
	p.link, p.told = nil, true
	m.changeLocked()
	m.say(func() { m.o.Left(k) })
	if p.done || p.lost || m.stop != nil || m.parts[m.o.Part].done && m.o.Part > 0 {
		return
	}
	p.lost = true
	if !m.begunLocked() {
		m.endLocked(&Stop{Part: k, Of: m.o.Of, Host: p.host, How: Failed, Reason: "it was lost before the load began: " + cause.Error() + "; its own messages may say why"}, m.o.Part)
		return
	}
	m.loseLocked(measure.LostPart{Number: k, Host: p.host, Cause: cause.Error()})
}

// loseLocked notes a part that is lost while the load is played, and tells the others.
func (m *Meeting) loseLocked(l measure.LostPart) {
	m.parts[l.Number].lost = true
	k, _ := slices.BinarySearchFunc(m.lost, l.Number, func(o measure.LostPart, number int) int { return o.Number - number })
	m.lost = slices.Insert(m.lost, k, l)
	for _, p := range m.parts[1:] { // at part 0 alone others are linked
		if p.link != nil {
			p.link.send(&message{Kind: lost, Lost: &l})
		}
	}
	m.warn("%s is lost: %s: the others go on, and the result is not valid", nameOf(l.Number, m.o.Of, l.Host), l.Cause)
}

// connectLocked makes a connection that of a part, in two goroutines.
func (m *Meeting) connectLocked(k int, host string, conn net.Conn, handle func(k int, l *link, r *message, at time.Time) error) {
	l := &link{conn: conn, clock: m.o.Now, out: make(chan *message, outbox)}
	p := &m.parts[k]
	p.link, p.host, p.here = l, host, true
	m.work.Go(l.write)
	m.work.Go(func() {
		err := l.read(func(r *message, at time.Time) error { return handle(k, l, r, at) })
		l.close()
		m.lose(k, err)
	})
}

// wait waits until a condition is true, under the lock. The error says that the load has ended, or the context. While it waits it
// calls tell, if that is not nil, every five seconds.
func (m *Meeting) wait(ctx context.Context, isTrue func() bool, tell func()) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		m.mu.Lock()
		is, changed := isTrue(), m.changed
		m.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if tell != nil {
				tell()
			}
		}
	}
}

// tellEvery is how often a wait says what it waits for, where that has changed.
const tellEvery = 5 * time.Second

// How says what kind of end a part has brought about.
type How string

// The kinds of ends.
const (
	Interrupted How = "interrupted" // the user, or the engine, has interrupted a part
	Failed      How = "failed"      // a part cannot go on, or is lost before the load has begun
	Wedged      How = "wedged"      // a tree of a part is deadlocked
	Unequal     How = "unequal"     // parts are not those of one load
	Refused     How = "refused"     // the load goes on without this part
)

// Stop says which part has ended the load for all, and why. It is an error of the others.
type Stop struct {
	Part   int    `json:"part"`
	Of     int    `json:"of"`
	Host   string `json:"host"` // of the part
	How    How    `json:"how"`
	Reason string `json:"reason"`
}

func (s *Stop) Error() string {
	if s.How == Unequal || s.How == Refused { // the reason names both
		return "meeting: " + s.Reason
	}
	return fmt.Sprintf("%s ended the load: %s", nameOf(s.Part, s.Of, s.Host), s.Reason)
}

// Member is what a part says of itself. All parts of a load must say the same, but for Part and Host.
type Member struct {
	Part    int      `json:"part"` // 0 to Of-1
	Of      int      `json:"of"`
	Host    string   `json:"host"`
	Version string   `json:"version"` // of agentx
	Dataset string   `json:"dataset"` // its key
	Options []Option `json:"options"`
}

// Option is the value of an option.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// name returns the part and its machine.
func (m *Member) name() string { return nameOf(m.Part, m.Of, m.Host) }

// nameOf names a part with its machine.
func nameOf(part, of int, host string) string { return fmt.Sprintf("part %d/%d (%s)", part, of, host) }

// differs returns the first difference between two parts of one load, "" if there is none: what, and the values of both.
func (m *Member) differs(other *Member) (what, mine, others string) {
	for _, p := range [][3]string{
		{"the number of parts", fmt.Sprint(m.Of), fmt.Sprint(other.Of)},
		{"the version of agentx", m.Version, other.Version},
		{"the dataset", m.Dataset, other.Dataset},
	} {
		if p[1] != p[2] {
			return p[0], p[1], p[2]
		}
	}
	for k := range max(len(m.Options), len(other.Options)) {
		switch {
		case k >= len(m.Options):
			return other.Options[k].Name, "absent", other.Options[k].Value
		case k >= len(other.Options):
			return m.Options[k].Name, m.Options[k].Value, "absent"
		case m.Options[k].Name != other.Options[k].Name:
			return "the options", m.Options[k].Name, other.Options[k].Name
		case m.Options[k].Value != other.Options[k].Value:
			return m.Options[k].Name, m.Options[k].Value, other.Options[k].Value
		}
	}
	return "", "", ""
}

// listParts lists numbers of parts, such as "part 3" or "parts 1, 4-7".
func listParts(numbers []int) string {
	slices.Sort(numbers)
	var ranges []string
	for k := 0; k < len(numbers); {
		first := numbers[k]
		for k++; k < len(numbers) && numbers[k] == numbers[k-1]+1; k++ {
		}
		if last := numbers[k-1]; last > first {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
		} else {
			ranges = append(ranges, fmt.Sprint(first))
		}
	}
	if len(numbers) == 1 {
		return "part " + ranges[0]
	}
	return "parts " + strings.Join(ranges, ", ")
}
