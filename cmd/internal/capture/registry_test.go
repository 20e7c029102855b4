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

func named(name string) identity { return identity{by: journal.ByURL, session: name} }

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
	require.Equal(t, "cap-00000002", join(t, r, named("a"), 0).session.Trace)
	r.shutdown(true, 0)
	r.sweep(int64(2 * time.Hour))
	require.Equal(t, "cap-00000003", join(t, r, named("a"), 0).session.Trace)
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
	require.Same(t, first.session, second.session)
	require.Equal(t, [4]int64{0, 0, 1, 2000}, [4]int64{int64(first.q), first.T, int64(second.q), second.T})
	late := join(t, r, named("late"), 100)
	require.EqualValues(t, 500, join(t, r, named("late"), 600).T)
	require.EqualValues(t, 500, join(t, r, named("late"), 400).T, "times never fall")
	r.Close(late.session, journal.WhyFinal, 600)
	s := first.session
	require.Regexp(t, "^cap-[0-9a-f]{8}$", s.Trace)
	require.NoError(t, r.delete(s.ID, 4000))
	require.ErrorIs(t, r.delete(s.ID, 4000), errClosing)
	require.Equal(t, sessionInfo{Trace: s.Trace, State: "closing", Requests: 2, InFlight: 2}, s.info())
	successor := join(t, r, named("a"), 5000)
	require.NotEqual(t, s.Trace, successor.session.Trace)
	require.Zero(t, successor.q)
	require.Zero(t, successor.T)
	r.leave(s, 6000)
	require.Empty(t, ended[s])
	r.leave(s, 7000)
	require.Equal(t, []journal.Why{journal.WhyDelete}, ended[s])
	require.Equal(t, "finished", s.info().State)
	require.ErrorIs(t, r.delete(s.ID, 8000), errClosing)
	r.sweep(7000 + int64(time.Hour) - 1)
	_, err := r.get(s.ID)
	require.NoError(t, err)
	r.sweep(7000 + int64(time.Hour))
	require.ErrorIs(t, r.delete(s.ID, 0), errNotFound)
	require.Len(t, r.list(), 2)
	require.Same(t, successor.session, join(t, r, named("a"), 9000).session, "what was forgotten is not the successor")

	for k := range 20 { // quick cycles
		c := join(t, r, named("b"), int64(k))
		r.Close(c.session, journal.WhyFinal, int64(k))
		r.Close(c.session, journal.WhyIdle, int64(k))
		r.leave(c.session, int64(k))
		require.Equal(t, []journal.Why{journal.WhyFinal}, ended[c.session])
		require.Zero(t, c.q)
	}
}

// Covers C-21.
func TestSweep(t *testing.T) {
	r, ended := newTestRegistry(nil)
	idle, busy, closing := join(t, r, named("idle"), 0), join(t, r, named("busy"), 0), join(t, r, named("closing"), 0)
	r.leave(idle.session, 10)
	r.Close(closing.session, journal.WhyFinal, 10)
	r.sweep(10 + int64(30*time.Second) - 1)
	require.Equal(t, [3]int{2, 1, 0}, r.counts())
	r.sweep(10 + int64(30*time.Second))
	require.Equal(t, []journal.Why{journal.WhyFinal}, ended[closing.session], "drained")
	r.leave(closing.session, 20) // the request that was given up ends later
	require.Len(t, ended[closing.session], 1)
	r.sweep(10 + int64(time.Hour))
	require.Equal(t, []journal.Why{journal.WhyIdle}, ended[idle.session])
	require.Empty(t, ended[busy.session])
	r.shutdown(false, 20)
	require.Empty(t, ended[busy.session])
	r.shutdown(true, 20)
	require.Equal(t, []journal.Why{journal.WhyShutdown}, ended[busy.session])
	require.Zero(t, r.counts()[stateOpen]+r.counts()[stateClosing])
}

// One session more than the limit finishes the one that is idle longest. Those with requests in flight stay.
func TestTooManySessions(t *testing.T) {
	r, ended := newTestRegistry(func(o *Options) { o.Limits.Sessions = 3 })
	a, b, c := join(t, r, named("a"), 1), join(t, r, named("b"), 2), join(t, r, named("c"), 3)
	_, err := r.create(4)
	require.ErrorIs(t, err, errTooMany)
	r.leave(c.session, 5)
	r.leave(b.session, 6)
	made, err := r.create(7)
	require.NoError(t, err)
	require.Equal(t, []journal.Why{journal.WhyLimit}, ended[c.session])
	require.Len(t, made.ID, 32)
	require.Same(t, made, join(t, r, identity{by: journal.ByURL, session: "url " + made.ID}, 8).session)
	join(t, r, named("d"), 9)
	require.Equal(t, []journal.Why{journal.WhyLimit}, ended[b.session])
	require.Empty(t, ended[a.session])
	join(t, r, named("e"), 10) // all are busy: it is recorded all the same
	require.Equal(t, 4, r.counts()[stateOpen])
	tombstones, _ := newTestRegistry(nil)
	for k := range maxTombstones + 10 {
		tombstones.Close(join(t, tombstones, named(fmt.Sprint(k)), int64(k)).session, journal.WhyFinal, int64(k))
		tombstones.shutdown(true, int64(k))
	}
	require.Len(t, tombstones.list(), maxTombstones)
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
	require.Same(t, child.session, root.session)
	require.Same(t, child.session, grand.session)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, child.place)
	require.Equal(t, journal.Place{}, root.place)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, grand.place)
	require.Equal(t, journal.Place{Agent: 3, Via: journal.TierHeader}, join(t, r, link("other", "root"), 3).place)
	require.NotSame(t, child.session, join(t, r, chained(journal.ByHeader, "y ", "child", "root"), 4).session, "ids of two sources")

	client := r.client(&carry.Arrival{}).session
	join(t, r, link("a", "b"), 5)
	circle := join(t, r, link("b", "a"), 6)
	require.Equal(t, client, circle.session.key)
	require.Equal(t, "x self", join(t, r, link("self", "self"), 6).session.key)
	for k := range 30 {
		at := join(t, r, link(fmt.Sprint("n", k+1), fmt.Sprint("n", k)), 7)
		require.Equal(t, k+1 > maxChain, at.session.key == client, "link %d", k+1)
	}
	agents := join(t, r, identity{by: journal.ByHeader, session: "cc", agent: "kid", parent: "unseen", via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, agents.place)
	kid := join(t, r, identity{by: journal.ByHeader, session: "cc", agent: "kid2", parent: "kid", via: journal.TierHeader}, 8)
	require.Equal(t, journal.Place{Agent: 2, Parent: 1, Via: journal.TierHeader}, kid.place)
	r.shutdown(true, 9)
	require.Empty(t, r.parents)
}

// A session takes only so many agents.
func TestTooManyAgents(t *testing.T) {
	r, _ := newTestRegistry(nil)
	var last ticket
	for k := range maxAgents + 1 {
		last = join(t, r, identity{session: "s", agent: fmt.Sprint(k), via: journal.TierHeader}, 0)
	}
	require.Zero(t, last.q)
	require.Equal(t, 1, last.place.Agent)
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
	r.leave(first.session, 2)
	again := join(t, r, named("a"), 3)
	require.Equal(t, 1, again.q)
	r.Close(again.session, journal.WhyFinal, 4)
	_, err = r.Join(named("a"), &carry.Arrival{At: 5})
	require.ErrorIs(t, err, errClosing)
	r.leave(again.session, 6)
	require.Zero(t, join(t, r, named("a"), 7).q, "a successor")
	_, err = r.Join(named("b"), &carry.Arrival{At: 8})
	require.ErrorIs(t, err, errBusy, "what others leave is not its slot")
	r.leave(other.session, 9)
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
				of := numbers[ticket.session]
				if of == nil {
					of = map[int]bool{}
					numbers[ticket.session] = of
				}
				if of[ticket.q] {
					t.Errorf("two requests have number %d", ticket.q)
				}
				of[ticket.q] = true
				mu.Unlock()
				if k%97 == 0 {
					r.Close(ticket.session, journal.WhyFinal, int64(k))
				}
				if k%31 == 0 {
					r.sweep(int64(k))
				}
				r.leave(ticket.session, int64(k))
			}
		})
	}
	all.Wait()
	r.shutdown(false, 1<<40)
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
