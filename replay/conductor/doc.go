// Package conductor decides which turn of which session is sent when. It is a state machine: the caller passes the time. It has
// no clock, starts no goroutine and makes no I/O.
//
// The caller makes a [Conductor] with [New], which takes a [Source] of trees and two functions: launch puts a turn on the
// wire, observe gets every [Event]. Then it drives the conductor, from one goroutine:
//
//	c.OpenBy(arrivals)                         // trees open when they arrive; without it, when lanes are free
//	c.Start(now)                               // opens a tree on every lane, or those that have arrived
//	c.FirstToken(id, now)                      // the answer to a request has begun
//	c.Returned(id, at, now, conductor.OK)      // a request has ended
//	at, ok := c.NextWake()                     // when to call Wake if nothing else happens
//	c.Wake(now)                                // sends what has become due
//	c.Stop(now)                                // ends the sending, closes what is not in flight
//	c.Pause(now)                               // ends the sending, keeps all for the next phase
//	c.Done()                                   // nothing is in flight and nothing will be
//	c.Handoff(lane)                            // after a pause: where the tree of a lane stands
//
// Every instant is a duration since the start of the phase. Every method returns at once and sends, by launch, what can be
// sent at that instant. So no two decisions can race, and tests play whole replays on a virtual clock.
//
// # State machine
//
// A lane plays one tree at a time: a root session and the sessions that it spawns, which may spawn others. A session goes
// from state to state:
//
//	fresh -> due -> retained -> queued -> in flight -> deciding -> closed
//	                              |                        |  \--> due, with its next turn
//	                              \-> deferred             |-----> queued, with the same turn
//	                                                       \-----> parked -> retained or queued
//
// What a session waits for in each state:
//
//   - fresh: the return of its spawning turn
//   - due: its time (timers.go)
//   - retained: turns of other sessions that precede its turn in the recording (barrier.go)
//   - queued: a prefill slot (prefill.go)
//   - deferred: the next phase (pause.go)
//   - parked: the branches that its turn joins, and the recorded time of that turn
//
// Every transition (transitions.go) checks the state that it leaves and panics on another one: a turn that is sent twice is
// a defect of this package. All that will lead to a request has its timer in one queue, which is where the caps on idle time
// act. When the last session of a tree is closed the tree has drained, and its lane takes the next (lanes.go).
//
// With [Conductor.OpenBy] an arrival is one more timer (arrivals.go). It opens a tree on a free lane, or the tree waits for one.
// Answers decide when a tree is opened, never when its first turn is due.
//
// # The end of a phase
//
// Stop closes all that is not in flight. [Conductor.Pause] keeps it, and so does the last lane that has sent
// Limits.LaneRequests: when the requests in flight have returned, [Conductor.Handoff] gives the tree of each lane to the
// conductor of the next phase, which takes it up as a [StartState] (pause.go).
//
// # Invariants
//
// A turn is sent at most once, and again only after [Throttled], in the order of its session, after the branches that it joins and
// its recorded predecessors. A lane has at most one tree. No more requests are in flight without a first token than Limits.Prefill. A
// tree in which nothing can happen any more is reported and closed. The work of an event does not grow with the number of
// live sessions, but for a logarithm. A checker in the tests holds every event against these and the other invariants (INV) of
// doc/spec/replay.md 1.6.
package conductor
