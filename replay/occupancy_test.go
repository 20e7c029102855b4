package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
)

// The means of an occupancy are those of counting what is busy in every second.
func TestOccupancy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type span struct{ lane, from, to int }
		const lanes = 3
		o := newOccupancy(lanes)
		var trees, requests []span
		var events []conductor.Event
		add := func(kind conductor.EventKind, at, lane int) {
			events = append(events, conductor.Event{Kind: kind, At: time.Duration(at) * time.Second, Lane: lane})
		}
		for lane := range lanes {
			from := rapid.IntRange(0, 5).Draw(t, "from")
			to := from + rapid.IntRange(1, 20).Draw(t, "length")
			trees = append(trees, span{lane, from, to})
			add(conductor.TreeOpened, from, lane)
			for range rapid.IntRange(1, 5).Draw(t, "requests") {
				sent := rapid.IntRange(from, to-1).Draw(t, "sent")
				end := rapid.IntRange(sent+1, to).Draw(t, "end")
				requests = append(requests, span{lane, sent, end})
				add(conductor.TurnSent, sent, lane)
				add(conductor.TurnReturned, end, lane)
			}
			add(conductor.TreeDrained, to, lane)
		}
		slices.SortStableFunc(events, func(a, b conductor.Event) int { return int(a.At - b.At) })
		last := 0
		for _, e := range events {
			o.onEvent(e)
		}
		for _, r := range requests {
			last = max(last, r.from)
		}
		var sum [3]int
		for at := range last {
			in := func(s span) bool { return s.from <= at && at < s.to }
			busy := map[int]bool{}
			for _, s := range trees {
				if in(s) {
					sum[0]++
				}
			}
			for _, r := range requests {
				if in(r) {
					sum[2]++
					busy[r.lane] = true
				}
			}
			sum[1] += len(busy)
		}
		got := o.load()
		require.EqualValues(t, last, got.Seconds)
		if last == 0 {
			require.True(t, got.Playing.IsMissing() && got.InFlight.IsMissing() && got.Requests.IsMissing())
			return
		}
		for k, n := range []measure.Number{got.Playing, got.InFlight, got.Requests} {
			require.InDelta(t, float64(sum[k]), float64(n)*float64(last), 1e-6)
		}
	})
}

// Two lanes play one trace each, on virtual time: a request of a second, a gap of three, another request.
func TestLoadOfARun(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 4, took: 1}), recording("b", call{at: 0, took: 1}, call{at: 4, took: 1}))
	o := optionsFor(t, c, unreachable)
	o.Concurrency, o.Pace = 2, Pace{}
	v, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Equal(t, &measure.Load{Seconds: 4, Playing: 2, InFlight: 0.5, Requests: 0.5, MaxRequests: 2}, v.results.info.Facts.Load)
	require.Equal(t, measure.LaneUse{Configured: 2, Playing: 2, InFlight: 0.5}, v.summary.Fidelity.Lanes)
	require.Positive(t, v.results.info.Facts.Cores)
}
