package conductor

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCheckerSeesEveryBrokenInvariant breaks the state of a conductor on purpose, once for every invariant that the checker
// names, and requires the checker to report it. Each case begins at 2 s in one tree. Its root has spawned five children at 1 s: session 1 is in flight,
// session 2 sleeps, session 3 is retained until session 1 is done; the root is parked until session 4, which sleeps too,
// is done. Session 5 sleeps and was live in the start state.
func TestCheckerSeesEveryBrokenInvariant(t *testing.T) {
	type broken struct {
		*world
		tree *tree
		s    []*session
	}
	for _, c := range []struct {
		name, want string
		act        func(b broken)
	}{
		{"a request beside another of its session", "INV-1:", func(b broken) {
			delete(b.c.inFlight, b.s[1].id)
			b.s[1].state = queued
			b.c.prefill.enqueue(b.s[1])
			b.c.Wake(b.now)
		}},
		{"a turn is left out", "INV-2:", func(b broken) {
			b.s[2].turn++
			b.c.Wake(12 * time.Second)
		}},
		{"a session that no turn spawned", "INV-2:", func(b broken) {
			delete(b.check.trees[0].sessions, 2)
			b.c.Wake(12 * time.Second)
		}},
		{"a gate opens too early", "INV-3:", func(b broken) {
			b.tree.branches[3].left = 0
			b.c.timers.stop(b.s[0])
			b.c.unpark(b.s[0], b.now)
			b.c.Wake(b.now)
		}},
		{"a branch has lost count", "INV-3:", func(b broken) { b.tree.branches[3].left++ }},
		{"a turn that is due has no timer", "INV-4:", func(b broken) { b.c.timers.stop(b.s[2]) }},
		{"a turn has two owners", "INV-4:", func(b broken) { b.c.prefill.enqueue(b.s[2]) }},
		{"a retained turn that nothing will release", "INV-4:", func(b broken) { b.tree.barrier.waiters[1].remove(0) }},
		{"a slot is never given back", "INV-7:", func(b broken) { b.c.prefill.inUse++ }},
		{"a tree is counted twice", "INV-7:", func(b broken) { b.c.counts.TreesOpened++ }},
		{"a lane takes a second tree", "INV-8:", func(b broken) { b.c.openTree(0, b.now, 0) }},
		{"a lane takes a tree after the end", "INV-8: lane 0 takes tree 1 after the end", func(b broken) {
			b.c.Stop(b.now)
			b.c.stopped = false
			b.c.counts.TreesReleased, b.c.counts.TreesDrained = 0, 1
			b.c.drained = nil
			b.c.observe = func(e Event) {
				b.c.stopped = e.Kind == TreeOpened
				b.check.event(e)
			}
			b.c.openTree(0, b.now, 0)
		}},
		{"a tree drains while a session is left", "INV-8: tree 0 is over", func(b broken) {
			b.c.drained = append(b.c.drained, b.tree)
			b.c.Wake(b.now)
		}},
		{"a turn is sent after the end", "INV-8: tree 0, session 2", func(b broken) {
			b.c.stopped = true
			b.c.Wake(12 * time.Second)
		}},
		{"a turn is sent in a pause", "INV-8: tree 0, session 2", func(b broken) {
			b.c.Pause(b.now)
			b.c.timers.stop(b.s[2])
			b.s[2].state = queued
			b.c.issue(b.s[2], b.now)
		}},
		{"a lane sends more than its requests", "INV-8: tree 0, session 2", func(b broken) {
			b.c.limits.LaneRequests = 2
			b.c.requests[0] = -9
			b.c.Wake(12 * time.Second)
		}},
		{"a deferred turn is sent", "INV-4: tree 0, session 2: turn 0 is sent and was deferred", func(b broken) {
			b.check.trees[0].sessions[2].deferred = true
			b.c.Wake(12 * time.Second)
		}},
		{"a request returns that was not sent", "INV-9:", func(b broken) {
			b.c.inFlight[7] = b.s[2]
			b.s[2].state = inFlight
			b.c.timers.stop(b.s[2])
			_ = b.c.Returned(7, b.now, b.now, OK)
		}},
		{"a counter is below 0", "INV-9: ChildrenDelayed", func(b broken) { b.c.counts.ChildrenDelayed = -1 }},
		{"a request is forgotten", "INV-9:", func(b broken) { delete(b.c.inFlight, b.s[1].id) }},
		{"a session in flight is closed", "INV-9:", func(b broken) {
			b.s[1].state = deciding
			b.c.close(b.s[1], b.now, Truncated)
		}},
		{"a tree in which nothing will happen", "INV-11:", func(b broken) {
			for _, s := range []*session{b.s[0], b.s[2], b.s[4], b.s[5]} {
				b.c.timers.stop(s)
			}
			b.s[1].state = due
			b.tree.inFlight = 0
		}},
		{"a tree is called deadlocked and is not", "INV-11: tree 0 is called deadlocked", func(b broken) {
			for _, s := range []*session{b.s[0], b.s[2], b.s[4], b.s[5]} {
				b.c.timers.stop(s)
			}
			b.tree.inFlight = 0
			b.c.touch(b.tree)
			b.c.closeDeadlocked(b.now)
		}},
		{"a tree with a deferred turn is called deadlocked", "INV-11: tree 0 is called deadlocked, but session 2 is deferred", func(b broken) {
			b.check.trees[0].sessions[2].deferred = true
			b.c.emit(Event{Kind: TreeDeadlocked})
		}},
		{"a turn is deferred though its lane may send", "INV-11: tree 0, session 2: turn 0 is deferred", func(b broken) {
			b.c.timers.stop(b.s[2])
			b.s[2].state = queued
			b.c.deferTurn(b.s[2], b.now)
		}},
		{"a gate is made a second time", "INV-13:", func(b broken) {
			b.c.timers.stop(b.s[0])
			b.s[0].state = deciding
			b.c.park(b.s[0])
		}},
		{"a gate is made for a turn that comes later", "INV-13:", func(b broken) {
			b.c.timers.stop(b.s[2])
			b.s[2].state, b.s[2].turn = deciding, 1
			b.c.park(b.s[2])
		}},
		{"a gate that is open is made", "INV-13: tree 0, session 2: the gate before turn 0 is open", func(b broken) {
			b.c.timers.stop(b.s[2])
			b.s[2].state = deciding
			b.c.park(b.s[2])
		}},
		{"a child is spawned a second time", "INV-14:", func(b broken) {
			b.tree.sessions[2] = nil
			b.c.addBranch(b.tree, 1, b.now, nil)
		}},
		{"a branch that had begun is spawned", "INV-14:", func(b broken) {
			delete(b.check.trees[0].sessions, 5)
			b.tree.sessions[5] = nil
			b.c.addBranch(b.tree, 4, b.now, nil)
		}},
		{"a session is closed twice", "INV-14:", func(b broken) {
			b.c.close(b.s[2], b.now, Truncated)
			b.c.emit(Event{Kind: SessionClosed, Session: 2, Reason: Truncated})
		}},
		{"a session that was spawned is called never spawned", "INV-14:", func(b broken) { b.c.close(b.s[2], b.now, NeverSpawned) }},
		{"a session is left in the table of its tree", "INV-16:", func(b broken) {
			b.c.close(b.s[2], b.now, Truncated)
			b.tree.sessions[2] = b.s[2]
		}},
		{"a retained turn is left in the barrier", "INV-16:", func(b broken) {
			h := b.tree.barrier.waiters[1]
			h.items = append(h.items, b.s[3])
		}},
		{"a tree stays on its lane", "INV-16: tree 0 is on lane 0, and is not open", func(b broken) { delete(b.check.trees, 0) }},
		{"an event leaves something behind", "INV-16:", func(b broken) { b.c.touch(b.tree) }},
		{"a call reads every session", "INV-17:", func(b broken) {
			for n := range 1000 {
				b.tree.session(n % 6)
			}
		}},
		{"an edge is looked at again", "INV-17: 8 edges were found done", func(b broken) { b.c.work.edges = 8 }},
		{"the counters do not add up", "INV-18:", func(b broken) { b.c.counts.ChildrenSpawned++ }},
		{"a child is live that is none", "INV-18:", func(b broken) {
			b.c.counts.ChildrenSpawned++
			b.c.counts.ChildrenLive++
		}},
		{"a timer is moved and the others are not", "INV-19:", func(b broken) { b.s[2].wakes-- }},
		{"the clock of a tree is put forward while it works", "INV-19:", func(b broken) {
			b.c.emit(Event{Kind: TreeIdleSkipped, Skipped: time.Second})
		}},
		{"all clocks are put forward while one works", "INV-19:", func(b broken) {
			b.c.emit(Event{Kind: IdleSkipped, Skipped: time.Second})
		}},
		{"a session of a start state is lost", "INV-20:", func(b broken) {
			b.c.timers.stop(b.s[5])
			b.tree.remove(b.s[5])
		}},
		{"a session is not handed over", "INV-20: lane 0 hands over session 5: false", func(b broken) {
			b.c.Pause(b.now)
			b.check.must(b.c.Returned(b.s[1].id, b.now, b.now, OK))
			state, ok := b.c.Handoff(0)
			state.Sessions = slices.DeleteFunc(state.Sessions, func(s HandedSession) bool { return s.Session == 5 })
			b.check.handOff(0, state, ok)
		}},
		{"a turn that is done is not handed over", "INV-20: lane 0 hands over session 1: false, turn 0, 0 turns done", func(b broken) {
			b.c.Pause(b.now)
			b.check.must(b.c.Returned(b.s[1].id, b.now, b.now, OK))
			state, ok := b.c.Handoff(0)
			state.TurnsDone[1] = 0
			b.check.handOff(0, state, ok)
		}},
		{"a tree is not handed over", "INV-20: lane 0 hands over tree 0: false", func(b broken) { b.check.handOff(0, LaneState{}, false) }},
		{"a tree ends without an event of a session", "INV-20: tree 0 has drained, no event says how session 6 ended", func(b broken) {
			b.tree.branches[5].spawned = true
			b.c.stop(b.now)
			b.c.stopped, b.tree.closing = false, false
			b.s[1].state = deciding
			b.c.close(b.s[1], b.now, Truncated)
			b.c.emit(Event{Kind: TreeDrained})
		}},
		{"a turn is released in a pause", "4.7: tree 0, session 3: turn 0 is released", func(b broken) {
			b.c.Pause(b.now)
			b.tree.barrier.paused = false
			b.check.must(b.c.Returned(b.s[1].id, b.now, b.now, OK))
		}},
		{"a turn overtakes its predecessor", "4.7:", func(b broken) {
			b.tree.barrier.drop(b.s[3])
			b.s[3].move(retained, queued)
			b.c.prefill.enqueue(b.s[3])
			b.c.Wake(b.now)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := root(0, 20, 20, 20).child(0, 0, false, 0, 0).child(0, 0, false, 9, 0, 0).child(0, 0, false, 0, 0).
				child(0, 0, false, 9, 0).child(0, 0, false, 0, 0).child(0, 3, false, 0, 0)
			tree.join(0, 1, 4).after(3, 0, 1, 0)
			require.NoError(t, tree.Validate())
			start := &StartState{TurnsDone: make([]int, 7), Live: []LiveSession{{Session: 0}, {Session: 5, Due: time.Minute}}}
			w := newWorld(1, &assignments{lanes: []Assignment{{Tree: tree, Start: start}}, more: []*Tree{root(0)}}, Limits{})
			w.start()
			w.now = time.Second
			w.call(func() { w.check.must(w.c.Returned(0, w.now, w.now, OK)) })
			w.now = 2 * time.Second
			w.call(func() { w.c.Wake(w.now) })
			require.Empty(t, w.check.broken)
			b := broken{w, w.c.lanes[0], w.c.lanes[0].sessions}
			b.s = append([]*session(nil), b.s...)
			states := []state{}
			for _, s := range b.s[:6] {
				states = append(states, s.state)
			}
			require.Equal(t, []state{parked, inFlight, due, retained, due, due}, states)
			w.check.begin()
			func() {
				defer func() {
					if err := recover(); err != nil {
						t.Logf("the conductor itself found it: %v", err)
					}
				}()
				c.act(b)
				w.check.end()
			}()
			found := false
			for _, line := range w.check.broken {
				found = found || len(line) >= len(c.want) && line[:len(c.want)] == c.want
			}
			require.True(t, found, "%q: %q", c.want, w.check.broken)
		})
	}
}
