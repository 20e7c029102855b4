package meet

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// wrongClock is a clock that is wrong by an offset at the start of a bubble, and drifts by a share.
func wrongClock(offset time.Duration, drift float64) func() time.Time {
	begin := time.Now()
	return func() time.Time {
		passed := time.Since(begin)
		return begin.Add(offset + passed + time.Duration(drift*float64(passed)))
	}
}

// Clocks that are wrong by seconds, and drift by 100 ppm, on a network whose delays vary, so that they differ by direction: instants that are moved
// to the clock of part 0 by the lines that a part writes are right within the uncertainty that these state, at any time of the run; and
// all parts begin together.
//
// Covers D-9.
func TestClocksAreComparedWithinTheirUncertainty(t *testing.T) {
	clocks := []struct {
		offset time.Duration
		drift  float64
	}{{0, 0}, {5 * time.Second, 100e-6}, {-5 * time.Second, -100e-6}, {5 * time.Second, -100e-6}, {-5 * time.Second, 100e-6}, {0, 100e-6}}
	for _, ofHost := range []struct {
		offset time.Duration
		drift  float64
	}{{0, 0}, {5 * time.Second, -100e-6}} {
		for _, most := range []time.Duration{0, 300 * time.Microsecond, 20 * time.Millisecond} {
			inWorld(t, func(w *world) {
				w.jitter(most)
				list := w.all(len(clocks))
				var now []func() time.Time
				for k, c := range clocks {
					if k == 0 {
						c = ofHost
					}
					now = append(now, wrongClock(c.offset, c.drift))
					list[k].Now = now[k]
				}
				parts := w.join(w.t.Context(), list...)
				lines := make([]measure.Clock, len(parts))
				ends := make([]func(), len(parts))
				for k, j := range parts {
					require.NoError(t, j.err)
					ends[k] = j.KeepClock(func(r measure.ClockReading) { lines[k] = append(lines[k], r) })
					require.NotEmpty(t, lines[k], "before the first request")
				}
				began := make([]time.Time, len(parts))
				each(parts, func(k int, m *Meeting) {
					require.NoError(t, m.Begin(m.Context(), "profiling", nil))
					began[k] = time.Now()
				})
				first := shown(now)
				for k, at := range began {
					require.InDelta(t, 0, at.Sub(began[0]), float64(most)/2+float64(100*time.Microsecond), "part %d", k)
				}
				var seen [][]time.Time // by part, at one instant
				draw := rand.New(rand.NewPCG(3, 4))
				for range 300 {
					time.Sleep(time.Duration(draw.Int64N(int64(time.Second))))
					seen = append(seen, shown(now))
				}
				each(parts, func(k int, _ *Meeting) { ends[k]() })
				time.Sleep(30 * time.Second) // a part that has written its last line
				seen = append(seen, first, shown(now))
				for k, c := range lines {
					for _, at := range seen {
						moved, uncertainty := c.Move(at[k])
						require.LessOrEqual(t, moved.Sub(at[0]).Abs(), uncertainty+time.Microsecond/100, "part %d, with the lines %v", k, c)
					}
					if k == 0 {
						require.Len(t, c, 1)
						_, uncertainty := c.Move(seen[0][0])
						require.Zero(t, uncertainty)
						continue
					}
					require.Greater(t, len(c), 10, "at least every ten seconds")
					for n, r := range c[1:] {
						require.Less(t, r.Unix-c[n].Unix, int64(readingEvery+2*beatEvery))
						require.LessOrEqual(t, r.Uncertainty, int64(most)+int64(time.Millisecond)/20, "half of a round trip")
					}
				}
				finish(parts)
			})
		}
	}
}

// shown returns what all clocks show when nothing moves.
func shown(clocks []func() time.Time) (list []time.Time) {
	synctest.Wait()
	for _, now := range clocks {
		list = append(list, now())
	}
	return list
}

// Of several exchanges the one with the shortest round trip is kept. Later ones are kept when they are better, or ten seconds have passed.
func TestComparerKeepsTheBest(t *testing.T) {
	var c comparer
	var mu sync.Mutex
	var written measure.Clock
	exchange := func(at, rtt, offset int64) {
		c.add(&message{Compare: true, T1: at, T2: at + offset + rtt/2, T3: at + offset + rtt/2 + 100}, at+rtt+100)
	}
	require.Zero(t, c.begin())
	for k, rtt := range []int64{900, 300, 500} {
		exchange(int64(k+1)*1e6, rtt, 7000)
	}
	require.True(t, c.reached(3))
	require.False(t, c.reached(4))
	require.Equal(t, time.Duration(1000), c.end())
	c.tell(func(r measure.ClockReading) {
		mu.Lock()
		defer mu.Unlock()
		written = append(written, r)
	})
	best := measure.ClockReading{Unix: 2e6 + 200, Offset: 7000, Uncertainty: 150 + 2}
	require.Equal(t, measure.Clock{best}, written)

	exchange(1e9, 310, 7001) // worse
	exchange(2e9, 400, 7002)
	require.Len(t, written, 1)
	exchange(3e9, 200, 7003)
	require.Equal(t, int64(3e9+150), written[1].Unix, "better")
	exchange(5e9, 500, 7004)
	exchange(6e9, 300, 7005)
	require.Len(t, written, 2)
	exchange(14e9, 600, 7006)
	require.Equal(t, int64(6e9+200), written[2].Unix, "the best since then, after ten seconds")
	c.end()
	require.Len(t, written, 3, "there is none since")
	c.begin()
	for k, rtt := range []int64{90, 80, 70, 75} {
		exchange(15e9+int64(k)*1e6, rtt, 7007)
	}
	require.Len(t, written, 3, "one for a comparison")
	c.end()
	require.Equal(t, int64(15e9+2e6+85), written[3].Unix)
	for _, bad := range [][4]int64{{20e9, 1, 1, 19e9}, {20e9, 10, 9, 21e9}, {20e9, 0, 2e9, 21e9}} {
		c.add(&message{T1: bad[0], T2: bad[1], T3: bad[2]}, bad[3])
	}
	c.end()
	require.Len(t, written, 4, "stamps that go back say nothing")
	require.Equal(t, int64(8e9-7007), c.own(8e9).UnixNano())
}
