package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/journal"
)

// log is a recorder that keeps what it is told.
type log struct {
	mu  sync.Mutex
	why []journal.Why
}

func (l *log) Finish(why journal.Why) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = append(l.why, why)
}

func newRegistry(change func(*Options[*log])) *Registry[*log] {
	o := Options[*log]{
		Limit: 100, Idle: time.Hour, Drain: 30 * time.Second, Random: rand.NewChaCha8([32]byte{7}),
		Open: func(*Session[*log]) *log { return &log{} }, Clients: NewClients([32]byte{}),
	}
	if change != nil {
		change(&o)
	}
	return NewRegistry(o)
}

func named(name string) Identity { return Identity{By: journal.ByURL, Session: name} }

// join is Join without an error.
func join(t *testing.T, r *Registry[*log], id Identity, at int64) Ticket[*log] {
	t.Helper()
	ticket, err := r.Join(id, Head{}, at)
	require.NoError(t, err)
	return ticket
}

// A trace gets an id that none had before: of a session, forgotten or not, or of a file.
//
// Covers C-21.
func TestTracesHaveNewIDs(t *testing.T) {
	drawn := []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3}
	r := newRegistry(func(o *Options[*log]) {
		o.Random, o.Used = bytes.NewReader(drawn), []string{"cap-00000001", "cap-00000001", "none"}
	})
	require.Equal(t, "cap-00000002", join(t, r, named("a"), 0).Session.Trace)
	r.Shutdown(true, 0)
	r.Sweep(int64(2 * time.Hour))
	require.Equal(t, "cap-00000003", join(t, r, named("a"), 0).Session.Trace)
	_, err := r.Join(named("b"), Head{}, 0)
	require.ErrorContains(t, err, "an id for a trace")
}

// A session is open, closes, is finished and is forgotten; what comes for it meanwhile begins another.
//
// Covers C-21.
func TestLife(t *testing.T) {
	r := newRegistry(nil)
	first := join(t, r, named("a"), 1000)
	second := join(t, r, named("a"), 3000)
	require.Same(t, first.Session, second.Session)
	require.Equal(t, [4]int64{0, 0, 1, 2000}, [4]int64{int64(first.Q), first.T, int64(second.Q), second.T})
	late := join(t, r, named("late"), 100)
	require.EqualValues(t, 500, join(t, r, named("late"), 600).T)
	require.EqualValues(t, 500, join(t, r, named("late"), 400).T, "times never fall")
	r.Close(late.Session, journal.WhyFinal, 600)
	s := first.Session
	require.Regexp(t, "^cap-[0-9a-f]{8}$", s.Trace)
	require.NoError(t, r.Delete(s.ID, 4000))
	require.ErrorIs(t, r.Delete(s.ID, 4000), ErrClosing)
	require.Equal(t, Info{s.Trace, "closing", 2, 2}, r.Info(s))
	successor := join(t, r, named("a"), 5000)
	require.NotEqual(t, s.Trace, successor.Session.Trace)
	require.Zero(t, successor.Q)
	require.Zero(t, successor.T)
	r.Leave(s, 6000)
	require.Empty(t, s.Recorder.why)
	r.Leave(s, 7000)
	require.Equal(t, []journal.Why{journal.WhyDelete}, s.Recorder.why)
	require.Equal(t, "finished", r.Info(s).State)
	require.ErrorIs(t, r.Delete(s.ID, 8000), ErrClosing)
	r.Sweep(7000 + int64(time.Hour) - 1)
	_, _, err := r.Get(s.ID)
	require.NoError(t, err)
	r.Sweep(7000 + int64(time.Hour))
	require.ErrorIs(t, r.Delete(s.ID, 0), ErrNotFound)
	require.Len(t, r.List(), 2)
	require.Same(t, successor.Session, join(t, r, named("a"), 9000).Session, "what was forgotten is not the successor")

	for k := range 20 { // quick cycles
		c := join(t, r, named("b"), int64(k))
		r.Close(c.Session, journal.WhyFinal, int64(k))
		r.Close(c.Session, journal.WhyIdle, int64(k))
		r.Leave(c.Session, int64(k))
		require.Equal(t, []journal.Why{journal.WhyFinal}, c.Session.Recorder.why)
		require.Zero(t, c.Q)
	}
}

// Covers C-21.
func TestSweep(t *testing.T) {
	r := newRegistry(nil)
	idle, busy, closing := join(t, r, named("idle"), 0), join(t, r, named("busy"), 0), join(t, r, named("closing"), 0)
	r.Leave(idle.Session, 10)
	r.Close(closing.Session, journal.WhyFinal, 10)
	r.Sweep(10 + int64(30*time.Second) - 1)
	require.Equal(t, [3]int{2, 1, 0}, r.Counts())
	r.Sweep(10 + int64(30*time.Second))
	require.Equal(t, []journal.Why{journal.WhyFinal}, closing.Session.Recorder.why, "drained")
	r.Leave(closing.Session, 20) // the request that was given up ends later
	require.Len(t, closing.Session.Recorder.why, 1)
	r.Sweep(10 + int64(time.Hour))
	require.Equal(t, []journal.Why{journal.WhyIdle}, idle.Session.Recorder.why)
	require.Empty(t, busy.Session.Recorder.why)
	r.Shutdown(false, 20)
	require.Empty(t, busy.Session.Recorder.why)
	r.Shutdown(true, 20)
	require.Equal(t, []journal.Why{journal.WhyShutdown}, busy.Session.Recorder.why)
	require.Zero(t, r.Counts()[Open]+r.Counts()[Closing])
}

// One session more than the limit finishes the one that is idle longest. Those with requests in flight stay.
func TestTooManySessions(t *testing.T) {
	r := newRegistry(func(o *Options[*log]) { o.Limit = 3 })
	a, b, c := join(t, r, named("a"), 1), join(t, r, named("b"), 2), join(t, r, named("c"), 3)
	_, err := r.Create(4)
	require.ErrorIs(t, err, ErrTooMany)
	r.Leave(c.Session, 5)
	r.Leave(b.Session, 6)
	made, err := r.Create(7)
	require.NoError(t, err)
	require.Equal(t, []journal.Why{journal.WhyLimit}, c.Session.Recorder.why)
	require.Len(t, made.ID, 32)
	require.Same(t, made, join(t, r, Identity{By: journal.ByURL, Session: "url " + made.ID}, 8).Session)
	join(t, r, named("d"), 9)
	require.Equal(t, []journal.Why{journal.WhyLimit}, b.Session.Recorder.why)
	require.Empty(t, a.Session.Recorder.why)
	join(t, r, named("e"), 10) // all are busy: it is recorded all the same
	require.Equal(t, 4, r.Counts()[Open])
	tombstones := newRegistry(nil)
	for k := range maxTombstones + 10 {
		tombstones.Close(join(t, tombstones, named(fmt.Sprint(k)), int64(k)).Session, journal.WhyFinal, int64(k))
		tombstones.Shutdown(true, int64(k))
	}
	require.Len(t, tombstones.List(), maxTombstones)
	require.Len(t, tombstones.current, maxTombstones)
}

// Agents that name their parents are of the session of the agent that names none. A parent that was not seen is the main agent.
//
// Covers C-18.
func TestChains(t *testing.T) {
	r := newRegistry(nil)
	link := func(agent, parent string) Identity { return chain(journal.ByHeader, "x ", agent, parent) }
	child := join(t, r, link("child", "root"), 0) // before its parent
	root := join(t, r, link("root", ""), 1)
	grand := join(t, r, link("grand", "child"), 2)
	require.Same(t, child.Session, root.Session)
	require.Same(t, child.Session, grand.Session)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, child.Place)
	require.Equal(t, journal.Place{}, root.Place)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, grand.Place)
	require.Equal(t, journal.Place{Agent: 3, Via: journal.TierHeader}, join(t, r, link("other", "root"), 3).Place)
	require.NotSame(t, child.Session, join(t, r, chain(journal.ByHeader, "y ", "child", "root"), 4).Session, "ids of two sources")

	client := r.options.Clients.Identity(Head{}).Session
	join(t, r, link("a", "b"), 5)
	circle := join(t, r, link("b", "a"), 6)
	require.Equal(t, client, circle.Session.key)
	require.Equal(t, "x self", join(t, r, link("self", "self"), 6).Session.key)
	for k := range 30 {
		at := join(t, r, link(fmt.Sprint("n", k+1), fmt.Sprint("n", k)), 7)
		require.Equal(t, k+1 > maxChain, at.Session.key == client, "link %d", k+1)
	}
	agents := join(t, r, Identity{By: journal.ByHeader, Session: "cc", Agent: "kid", Parent: "unseen", Via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, agents.Place)
	kid := join(t, r, Identity{By: journal.ByHeader, Session: "cc", Agent: "kid2", Parent: "kid", Via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, kid.Place)
	r.Shutdown(true, 9)
	require.Empty(t, r.parents)
}

// A session takes only so many agents.
func TestTooManyAgents(t *testing.T) {
	r := newRegistry(nil)
	var last Ticket[*log]
	for k := range maxAgents + 1 {
		last = join(t, r, Identity{Session: "s", Agent: fmt.Sprint(k), Via: journal.TierHeader}, 0)
	}
	require.Zero(t, last.Q)
	require.Equal(t, 1, last.Place.Agent)
}

// Where sessions are linear a second request is refused until the first has left. Closing comes before busy.
//
// Covers C-22.
func TestLinear(t *testing.T) {
	r := newRegistry(func(o *Options[*log]) { o.Linear = true })
	first := join(t, r, named("a"), 0)
	_, err := r.Join(named("a"), Head{}, 1)
	require.ErrorIs(t, err, ErrBusy)
	other := join(t, r, named("b"), 1)
	r.Leave(first.Session, 2)
	again := join(t, r, named("a"), 3)
	require.Equal(t, 1, again.Q)
	r.Close(again.Session, journal.WhyFinal, 4)
	_, err = r.Join(named("a"), Head{}, 5)
	require.ErrorIs(t, err, ErrClosing)
	r.Leave(again.Session, 6)
	require.Zero(t, join(t, r, named("a"), 7).Q, "a successor")
	_, err = r.Join(named("b"), Head{}, 8)
	require.ErrorIs(t, err, ErrBusy, "what others leave is not its slot")
	r.Leave(other.Session, 9)
}

// A thousand sessions at once: every request has a number of its own, and every session ends once.
//
// Covers C-20.
func TestManySessions(t *testing.T) {
	r := newRegistry(func(o *Options[*log]) { o.Limit = 0 })
	const sessions, workers, each = 1000, 8, 4
	var mu sync.Mutex
	numbers := map[*Session[*log]]map[int]bool{}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for k := range sessions * each {
				ticket, err := r.Join(named(fmt.Sprint((k*7+w)%sessions)), Head{}, int64(k))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				of := numbers[ticket.Session]
				if of == nil {
					of = map[int]bool{}
					numbers[ticket.Session] = of
				}
				if of[ticket.Q] {
					t.Errorf("two requests have number %d", ticket.Q)
				}
				of[ticket.Q] = true
				mu.Unlock()
				if k%97 == 0 {
					r.Close(ticket.Session, journal.WhyFinal, int64(k))
				}
				if k%31 == 0 {
					r.Sweep(int64(k))
				}
				r.Leave(ticket.Session, int64(k))
			}
		})
	}
	all.Wait()
	r.Shutdown(false, 1<<40)
	total := 0
	for s, of := range numbers {
		require.Len(t, s.Recorder.why, 1)
		for q := range len(of) {
			require.True(t, of[q])
		}
		total += len(of)
	}
	require.Equal(t, sessions*each*workers, total)
}
