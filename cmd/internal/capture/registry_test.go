package capture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// newTestRegistry returns a registry, and what it said of the ends of its sessions.
func newTestRegistry(change func(*Options), used ...string) (*registry, map[*session][]journal.Why) {
	o := &Options{Limits: Limits{Sessions: 100}, Idle: time.Hour, Drain: 30 * time.Second, Random: rand.NewChaCha8([32]byte{7})}
	if change != nil {
		change(o)
	}
	said := map[*session][]journal.Why{}
	return newRegistry(o, [32]byte{}, used, func(s *session) { s.recorder = &recorder{} }, func(s *session) { said[s] = append(said[s], s.why) }), said
}

func named(name string) identity { return identity{By: journal.ByURL, Session: name} }

// join is Join without an error.
func join(t *testing.T, r *registry, id identity, at int64) ticket {
	t.Helper()
	ticket, err := r.Join(id, &carry.Arrival{At: at})
	require.NoError(t, err)
	return ticket
}

// A trace gets an id that none had before: of a session, forgotten or not, or of a file.
//
// Covers C-21.
func TestTracesHaveNewIDs(t *testing.T) {
	drawn := []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3}
	r, _ := newTestRegistry(func(o *Options) { o.Random = bytes.NewReader(drawn) }, "cap-00000001", "cap-00000001", "none")
	require.Equal(t, "cap-00000002", join(t, r, named("a"), 0).Session.Trace)
	r.Shutdown(true, 0)
	r.Sweep(int64(2 * time.Hour))
	require.Equal(t, "cap-00000003", join(t, r, named("a"), 0).Session.Trace)
	_, err := r.Join(named("b"), &carry.Arrival{At: 0})
	require.ErrorContains(t, err, "an id for a trace")
}

// A session is open, closes, is finished and is forgotten; what comes for it meanwhile begins another.
//
// Covers C-21.
func TestLife(t *testing.T) {
	r, ended := newTestRegistry(nil)
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
	require.ErrorIs(t, r.Delete(s.ID, 4000), errClosing)
	require.Equal(t, sessionInfo{Trace: s.Trace, State: "closing", Requests: 2, InFlight: 2}, s.info())
	successor := join(t, r, named("a"), 5000)
	require.NotEqual(t, s.Trace, successor.Session.Trace)
	require.Zero(t, successor.Q)
	require.Zero(t, successor.T)
	r.Leave(s, 6000)
	require.Empty(t, ended[s])
	r.Leave(s, 7000)
	require.Equal(t, []journal.Why{journal.WhyDelete}, ended[s])
	require.Equal(t, "finished", s.info().State)
	require.ErrorIs(t, r.Delete(s.ID, 8000), errClosing)
	r.Sweep(7000 + int64(time.Hour) - 1)
	_, err := r.Get(s.ID)
	require.NoError(t, err)
	r.Sweep(7000 + int64(time.Hour))
	require.ErrorIs(t, r.Delete(s.ID, 0), errNotFound)
	require.Len(t, r.List(), 2)
	require.Same(t, successor.Session, join(t, r, named("a"), 9000).Session, "what was forgotten is not the successor")

	for k := range 20 { // quick cycles
		c := join(t, r, named("b"), int64(k))
		r.Close(c.Session, journal.WhyFinal, int64(k))
		r.Close(c.Session, journal.WhyIdle, int64(k))
		r.Leave(c.Session, int64(k))
		require.Equal(t, []journal.Why{journal.WhyFinal}, ended[c.Session])
		require.Zero(t, c.Q)
	}
}

// Covers C-21.
func TestSweep(t *testing.T) {
	r, ended := newTestRegistry(nil)
	idle, busy, closing := join(t, r, named("idle"), 0), join(t, r, named("busy"), 0), join(t, r, named("closing"), 0)
	r.Leave(idle.Session, 10)
	r.Close(closing.Session, journal.WhyFinal, 10)
	r.Sweep(10 + int64(30*time.Second) - 1)
	require.Equal(t, [3]int{2, 1, 0}, r.Counts())
	r.Sweep(10 + int64(30*time.Second))
	require.Equal(t, []journal.Why{journal.WhyFinal}, ended[closing.Session], "drained")
	r.Leave(closing.Session, 20) // the request that was given up ends later
	require.Len(t, ended[closing.Session], 1)
	r.Sweep(10 + int64(time.Hour))
	require.Equal(t, []journal.Why{journal.WhyIdle}, ended[idle.Session])
	require.Empty(t, ended[busy.Session])
	r.Shutdown(false, 20)
	require.Empty(t, ended[busy.Session])
	r.Shutdown(true, 20)
	require.Equal(t, []journal.Why{journal.WhyShutdown}, ended[busy.Session])
	require.Zero(t, r.Counts()[stateOpen]+r.Counts()[stateClosing])
}

// One session more than the limit finishes the one that is idle longest. Those with requests in flight stay.
func TestTooManySessions(t *testing.T) {
	r, ended := newTestRegistry(func(o *Options) { o.Limits.Sessions = 3 })
	a, b, c := join(t, r, named("a"), 1), join(t, r, named("b"), 2), join(t, r, named("c"), 3)
	_, err := r.Create(4)
	require.ErrorIs(t, err, errTooMany)
	r.Leave(c.Session, 5)
	r.Leave(b.Session, 6)
	made, err := r.Create(7)
	require.NoError(t, err)
	require.Equal(t, []journal.Why{journal.WhyLimit}, ended[c.Session])
	require.Len(t, made.ID, 32)
	require.Same(t, made, join(t, r, identity{By: journal.ByURL, Session: "url " + made.ID}, 8).Session)
	join(t, r, named("d"), 9)
	require.Equal(t, []journal.Why{journal.WhyLimit}, ended[b.Session])
	require.Empty(t, ended[a.Session])
	join(t, r, named("e"), 10) // all are busy: it is recorded all the same
	require.Equal(t, 4, r.Counts()[stateOpen])
	tombstones, _ := newTestRegistry(nil)
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
	r, _ := newTestRegistry(nil)
	link := func(agent, parent string) identity { return chained(journal.ByHeader, "x ", agent, parent) }
	child := join(t, r, link("child", "root"), 0) // before its parent
	root := join(t, r, link("root", ""), 1)
	grand := join(t, r, link("grand", "child"), 2)
	require.Same(t, child.Session, root.Session)
	require.Same(t, child.Session, grand.Session)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, child.Place)
	require.Equal(t, journal.Place{}, root.Place)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, grand.Place)
	require.Equal(t, journal.Place{Agent: 3, Via: journal.TierHeader}, join(t, r, link("other", "root"), 3).Place)
	require.NotSame(t, child.Session, join(t, r, chained(journal.ByHeader, "y ", "child", "root"), 4).Session, "ids of two sources")

	client := r.client(&carry.Arrival{}).Session
	join(t, r, link("a", "b"), 5)
	circle := join(t, r, link("b", "a"), 6)
	require.Equal(t, client, circle.Session.key)
	require.Equal(t, "x self", join(t, r, link("self", "self"), 6).Session.key)
	for k := range 30 {
		at := join(t, r, link(fmt.Sprint("n", k+1), fmt.Sprint("n", k)), 7)
		require.Equal(t, k+1 > maxChain, at.Session.key == client, "link %d", k+1)
	}
	agents := join(t, r, identity{By: journal.ByHeader, Session: "cc", Agent: "kid", Parent: "unseen", Via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, agents.Place)
	kid := join(t, r, identity{By: journal.ByHeader, Session: "cc", Agent: "kid2", Parent: "kid", Via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, kid.Place)
	r.Shutdown(true, 9)
	require.Empty(t, r.parents)
}

// A session takes only so many agents.
func TestTooManyAgents(t *testing.T) {
	r, _ := newTestRegistry(nil)
	var last ticket
	for k := range maxAgents + 1 {
		last = join(t, r, identity{Session: "s", Agent: fmt.Sprint(k), Via: journal.TierHeader}, 0)
	}
	require.Zero(t, last.Q)
	require.Equal(t, 1, last.Place.Agent)
}

// Where sessions are linear a second request is refused until the first has left. Closing comes before busy.
//
// Covers C-22.
func TestLinear(t *testing.T) {
	r, _ := newTestRegistry(func(o *Options) { o.Linear = true })
	first := join(t, r, named("a"), 0)
	_, err := r.Join(named("a"), &carry.Arrival{At: 1})
	require.ErrorIs(t, err, errBusy)
	other := join(t, r, named("b"), 1)
	r.Leave(first.Session, 2)
	again := join(t, r, named("a"), 3)
	require.Equal(t, 1, again.Q)
	r.Close(again.Session, journal.WhyFinal, 4)
	_, err = r.Join(named("a"), &carry.Arrival{At: 5})
	require.ErrorIs(t, err, errClosing)
	r.Leave(again.Session, 6)
	require.Zero(t, join(t, r, named("a"), 7).Q, "a successor")
	_, err = r.Join(named("b"), &carry.Arrival{At: 8})
	require.ErrorIs(t, err, errBusy, "what others leave is not its slot")
	r.Leave(other.Session, 9)
}

// A thousand sessions at once: every request has a number of its own, and every session ends once.
//
// Covers C-20.
func TestManySessions(t *testing.T) {
	r, ended := newTestRegistry(func(o *Options) { o.Limits.Sessions = 0 })
	const sessions, workers, each = 1000, 8, 4
	var mu sync.Mutex
	numbers := map[*session]map[int]bool{}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for k := range sessions * each {
				ticket, err := r.Join(named(fmt.Sprint((k*7+w)%sessions)), &carry.Arrival{At: int64(k)})
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
		require.Len(t, ended[s], 1)
		for q := range len(of) {
			require.True(t, of[q])
		}
		total += len(of)
	}
	require.Equal(t, sessions*each*workers, total)
}
