package conductor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// endless hands out trees without end. A root spawns its children at its first turn and joins them at its last, so that a lane
// has a number of sessions live most of the time. Delays are random.
type endless struct {
	random   *rand.Rand
	sessions int
}

func (e *endless) Next(int) (Assignment, bool) {
	gap := func() float64 { return 0.5 + e.random.Float64() }
	t := root(0, gap())
	for range e.sessions - 1 {
		delays := []float64{0}
		for range 7 {
			delays = append(delays, gap())
		}
		t.child(0, 0, false, gap(), delays...).join(0, 1, len(t.Sessions)-1)
	}
	return Assignment{Tree: t}, true
}

// BenchmarkConductor plays turns in virtual time with many live sessions, in trees of one session and in large trees. One
// operation is one turn: a timer, a send and a return. events/s counts all three.
func BenchmarkConductor(b *testing.B) {
	for _, c := range []struct{ lanes, sessions int }{{256, 1}, {4096, 1}, {40_000, 1}, {64, 625}, {1, 40_000}} {
		b.Run(fmt.Sprintf("%d lanes of %d sessions", c.lanes, c.sessions), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			flights := heap[flight]{less: func(x, y flight) bool { return x.at < y.at }}
			var now time.Duration
			launch := func(s Dispatch) error {
				flights.push(flight{Dispatch: s, at: now + time.Duration(random.Int64N(int64(time.Second)))})
				return nil
			}
			source := &endless{random, c.sessions}
			conductor := New(c.lanes, source, Limits{TreeIdle: 5 * time.Minute, SystemIdle: time.Minute}, launch, nil)
			if err := conductor.Start(0); err != nil {
				b.Fatal(err)
			}
			step := func() {
				next, ok := conductor.NextWake()
				if flights.len() > 0 && (!ok || flights.items[0].at <= next) {
					f := flights.remove(0)
					now = f.at
					if err := conductor.Returned(f.ID, now, now, OK); err != nil {
						b.Fatal(err)
					}
					return
				}
				now = next
				conductor.Wake(now)
			}
			for warm := 0; warm < 4*c.lanes*c.sessions; warm++ { // all children are born
				step()
			}
			b.ReportAllocs()
			sent := conductor.counts.Sent
			for b.Loop() {
				for target := conductor.counts.Sent + 1; conductor.counts.Sent < target; {
					step()
				}
			}
			b.ReportMetric(3*float64(conductor.counts.Sent-sent)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(conductor.counts.ChildrenLive+conductor.Counts().TreesOpen), "live")
		})
	}
}

// BenchmarkArrivals plays 100,000 trees of two turns that arrive at 1,000 a second, and take 2.5 s each on average: on lanes
// enough for all, and on half as many, where half of the trees wait at the end.
func BenchmarkArrivals(b *testing.B) {
	const trees = 100_000
	for _, lanes := range []int{1 << 16, 1250} {
		b.Run(fmt.Sprintf("%d lanes", lanes), func(b *testing.B) {
			b.ReportAllocs()
			most := 0
			for b.Loop() {
				random := rand.New(rand.NewPCG(1, 2))
				flights := heap[flight]{less: func(x, y flight) bool { return x.at < y.at }}
				var now time.Duration
				launch := func(s Dispatch) error {
					flights.push(flight{Dispatch: s, at: now + time.Duration(random.Int64N(int64(2*time.Second)))})
					return nil
				}
				conductor := New(lanes, endlessTrees{root(0, 0.5)}, Limits{Trees: trees}, launch, nil)
				conductor.OpenBy(&every{gap: time.Millisecond})
				if err := conductor.Start(0); err != nil {
					b.Fatal(err)
				}
				for !conductor.Done() {
					next, ok := conductor.NextWake()
					if flights.len() > 0 && (!ok || flights.items[0].at <= next) {
						f := flights.remove(0)
						now = f.at
						if err := conductor.Returned(f.ID, now, now, OK); err != nil {
							b.Fatal(err)
						}
						most = max(most, conductor.Counts().TreesWaiting)
						continue
					}
					now = next
					conductor.Wake(now)
				}
			}
			b.ReportMetric(trees*float64(b.N)/b.Elapsed().Seconds(), "trees/s")
			b.ReportMetric(float64(most), "waiting")
		})
	}
}
