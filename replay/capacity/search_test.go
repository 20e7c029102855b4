package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lanesOf lists the lanes of the probes in their order.
func lanesOf(a *Answer) (list []int) {
	for _, p := range a.Probes {
		list = append(list, p.Lanes)
	}
	return list
}

// run searches with a function that probes.
func (s Search) run(probe func(lanes int) Probe) *Answer {
	var probes []Probe
	for lanes := s.Next(nil); lanes > 0; lanes = s.Next(probes) {
		p := probe(lanes)
		p.Lanes = lanes
		probes = append(probes, p)
	}
	return s.Answer(probes)
}

// upTo is a server that keeps its service levels up to a number of lanes.
func upTo(n int) func(int) Probe {
	return func(lanes int) Probe {
		if lanes <= n {
			return Probe{Verdict: Met}
		}
		return Probe{Verdict: Missed}
	}
}

func TestSearchDoublesAndBisects(t *testing.T) {
	for _, c := range []struct {
		search  Search
		knee    int
		probes  []int
		outcome Outcome
		lanes   int
		missed  int
	}{
		{Search{}, 0, []int{1}, None, 0, 1},
		{Search{}, 1, []int{1, 2}, Found, 1, 2},
		{Search{}, 7, []int{1, 2, 4, 8, 6, 7}, Found, 7, 8},
		{Search{}, 96, []int{1, 2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100}, Found, 96, 100},
		{Search{From: 100}, 300, []int{100, 200, 400, 300, 350, 325, 312}, Found, 300, 312},
		{Search{From: 50}, 40, []int{50}, None, 0, 50},
		{Search{To: 10}, 300, []int{1, 2, 4, 8, 10}, AtLeast, 10, 0},
		{Search{To: 10}, 8, []int{1, 2, 4, 8, 10, 9}, Found, 8, 9},
		{Search{From: 7, To: 7}, 9, []int{7}, AtLeast, 7, 0},
	} {
		a := c.search.run(upTo(c.knee))
		require.Equal(t, c.probes, lanesOf(a), "%+v", c)
		require.Equal(t, []any{c.outcome, c.lanes, c.missed}, []any{a.Outcome, a.Lanes, a.Missed}, "%+v", c)
	}
}

// Before its end a search has no outcome.
func TestSearchThatHasNotEnded(t *testing.T) {
	a := Search{}.Answer([]Probe{{Lanes: 1, Verdict: Met}, {Lanes: 2, Verdict: Met}})
	require.Empty(t, a.Outcome)
	require.Equal(t, "no answer: the search ended after 2 probes", a.String())
	require.Empty(t, Search{}.Answer(nil).Outcome)
	a = Search{}.Answer([]Probe{{Lanes: 1, Verdict: Met}})
	require.Equal(t, "no answer: the search ended after 1 probe", a.String())
}

// station is a server with slots that each take a drawn time for a request, first come first served, and lanes that send the next
// request when they have the answer. It is played in virtual time.
type station struct {
	slots int
	mean  time.Duration // of a request in a slot
	noise float64       // part of the mean by which a request differs at most
}

// play returns the latencies of the requests that end within a length, as instants and values in seconds, in their order.
func (s station) play(lanes int, length time.Duration, draw *rand.Rand, each func(at time.Duration, latency float64) (stop bool)) {
	type request struct{ sent, end time.Duration }
	free := make([]time.Duration, s.slots)
	var sent []time.Duration // of the requests that wait or are served, by lane, in order
	for range lanes {
		sent = append(sent, 0)
	}
	var running []request
	for {
		for len(running) < s.slots && len(sent) > 0 { // the slot that is free first takes the request that waits longest
			k := slices.Index(free, slices.Min(free))
			begin := max(free[k], sent[0])
			end := begin + time.Duration(float64(s.mean)*(1+s.noise*(2*draw.Float64()-1)))
			free[k] = math.MaxInt64
			running = append(running, request{sent[0], end})
			sent = sent[1:]
		}
		first := 0
		for k := range running {
			if running[k].end < running[first].end {
				first = k
			}
		}
		r := running[first]
		if r.end > length || each(r.end, (r.end-r.sent).Seconds()) {
			return
		}
		running = slices.Delete(running, first, first+1)
		free[slices.Index(free, math.MaxInt64)] = r.end
		sent = append(sent, r.end)
	}
}

func percentile(values []float64, q float64) float64 {
	slices.Sort(values)
	at := q / 100 * float64(len(values)-1)
	low := int(at)
	high := min(low+1, len(values)-1)
	return values[low] + (at-float64(low))*(values[high]-values[low])
}

// A server of known capacity, with one lane a request, holds N lanes under a p95 of N slots-times: lanes x mean / slots. The search
// finds that within its tolerance, under noise, and ends probes early without changing what they show. A probe that could not
// drive the server ends it with that word.
//
//
func TestSearchFindsAKnownCapacity(t *testing.T) {
	const length = 2 * time.Minute
	for _, knee := range []int{1, 7, 96, 300} {
		for seed := range uint64(20) {
			draw := rand.New(rand.NewPCG(seed, uint64(knee)))
			s := station{slots: 1, mean: 40 * time.Millisecond, noise: 0.1}
			if knee > 50 {
				s.slots = 1 + int(seed)%4
			}
			limit := (float64(knee) + 0.5) / float64(s.slots) * s.mean.Seconds()
			holds := func(v float64) bool { return v < limit }
			early := 0
			probe := func(lanes int) Probe {
				out := Outlook{Target: Target{95, holds}, Bounds: Bounds{Duration: length}}
				var values []float64
				lost := false
				s.play(lanes, length, draw, func(at time.Duration, latency float64) bool {
					out.Add(at, latency, true)
					values = append(values, latency)
					if !lost && out.Lost(at) {
						lost = true
						early++
					}
					return false
				})
				p95 := percentile(values, 95)
				require.False(t, lost && holds(p95), "given up, and then met")
				if holds(p95) {
					return Probe{Verdict: Met}
				}
				return Probe{Verdict: Missed}
			}
			a := Search{}.run(probe)
			require.Equal(t, Found, a.Outcome)
			require.InDelta(t, knee, a.Lanes, max(1, 0.05*float64(knee)), "%d lanes, seed %d: %v", knee, seed, lanesOf(a))
			require.LessOrEqual(t, float64(a.Missed-a.Lanes), max(1, 0.05*float64(a.Lanes)))
			require.NotZero(t, early, "no probe was given up")

			a = Search{}.run(func(lanes int) Probe {
				if lanes > knee/2 {
					return Probe{Verdict: ClientBound, Reasons: []string{"the CPU"}}
				}
				return probe(lanes)
			})
			require.Equal(t, Unknown, a.Outcome)
			require.Zero(t, a.Lanes)
			require.Equal(t, ClientBound, a.Probes[len(a.Probes)-1].Verdict)
			require.Regexp(t, `^client-bound at \d+ lanes?: the CPU`, a.String())
			require.NotRegexp(t, `^capacity`, a.String())
		}
	}
}

func TestAnswersInWords(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	ttft := func(met bool, text string) Reading { return Reading{"ttft.p95", "2 s", text, value(1), met} }
	itl := Reading{"itl.p95", "50 ms", "41 ms", value(0.041), true}
	met := Probe{Lanes: 96, Verdict: Met, Conditions: []Reading{ttft(true, "1.84 s"), itl}}
	missed := Probe{Lanes: 112, Verdict: Missed, Conditions: []Reading{ttft(false, "2.31 s"), itl}}
	early := missed
	early.EndedEarly, early.Length = true, 38.2
	failed := Probe{Lanes: 1, Verdict: Missed, Reasons: []string{"errors 3.1 % (1 %)"}}
	bound := Probe{Lanes: 128, Verdict: ClientBound, Reasons: []string{"the CPU"}}
	for want, a := range map[string]Answer{
		"capacity 96 lanes: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms); 112 lanes: ttft.p95 2.31 s":                   {Outcome: Found, Lanes: 96, Missed: 112, Probes: []Probe{met, missed}},
		"capacity 96 lanes: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms); 112 lanes: ttft.p95 2.31 s, ended after 38 s": {Outcome: Found, Lanes: 96, Missed: 112, Probes: []Probe{met, early}},
		"capacity at least 96 lanes: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms); more were not tried":                 {Outcome: AtLeast, Lanes: 96, Probes: []Probe{met}},
		"no capacity: 1 lane: errors 3.1 % (1 %)":                                                                       {Outcome: None, From: 1, Probes: []Probe{failed}},
		"client-bound at 128 lanes: the CPU; 96 lanes met every condition, which is no capacity":                        {Outcome: Unknown, Probes: []Probe{met, bound}},
		"client-bound at 128 lanes: the CPU":                                                                            {Outcome: Unknown, Probes: []Probe{bound}},
	} {
		require.Equal(t, want, a.String())
	}
	require.Equal(t, "96 lanes: met: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms)", met.String())
	require.Equal(t, "112 lanes: missed: ttft.p95 2.31 s (2 s), itl.p95 41 ms (50 ms), ended after 38 s: it can no longer be met", early.String())
	require.Equal(t, "128 lanes: client-bound: the CPU", bound.String())
}

// An outlook gives a condition up only if no rest of the probe within its bound would meet it, and it does give up what is lost.
func TestOutlookAgainstTheBestRest(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	lost, kept := 0, 0
	for range 3000 {
		q := []float64{Mean, 50, 95, 99, 100}[draw.IntN(5)]
		limit := draw.Float64()
		target := Target{q, func(v float64) bool { return v < limit }}
		o := Outlook{Target: target, Bounds: Bounds{Requests: 20 + draw.IntN(60)}}
		var values []float64
		for n := 20 + draw.IntN(o.Requests-19); len(values) < n; {
			v := draw.Float64()
			values = append(values, v)
			o.Add(time.Second, v, true)
		}
		best := slices.Concat(values, make([]float64, o.Requests-len(values)))
		value := 0.0
		for _, v := range best {
			value += v / float64(len(best))
		}
		if q != Mean {
			value = percentile(best, q)
		}
		if o.Lost(busySlot) {
			lost++
			require.False(t, target.Holds(value), "q %g, limit %g, best %g", q, limit, value)
		} else if target.Holds(value) {
			kept++
		}
	}
	require.Greater(t, lost, 500)
	require.Greater(t, kept, 500)
}

func TestOutlookByTime(t *testing.T) {
	slow := Target{95, func(v float64) bool { return v < 1 }}
	o := Outlook{Target: slow, Bounds: Bounds{Duration: 120 * time.Second}}
	for n := range 30 { // three a second for ten seconds, all too slow: at most twice as many a second are to come
		o.Add(time.Duration(n)*time.Second/3, 2, true)
	}
	require.False(t, o.Lost(busySlot-1), "too early to say")
	for _, c := range []struct {
		at   time.Duration
		lost bool
	}{{10 * time.Second, false}, {15 * time.Second, false}, {60 * time.Second, true}} {
		require.Equal(t, c.lost, o.Lost(c.at), fmt.Sprint(c.at))
	}
	o.Duration = 12 * time.Second // 12 requests at most, of 42: more than 5 % are bad
	require.True(t, o.Lost(10*time.Second))
	require.False(t, (&Outlook{Target: slow}).Lost(time.Hour))
	without := Outlook{Target: slow, Bounds: Bounds{Requests: 30}}
	for range 30 {
		without.Add(time.Second, 0, false)
	}
	require.False(t, without.Lost(time.Hour), "nothing is known")
}

// A search says how many probes it needs at most: no capacity needs more, and one that many.
func TestLongest(t *testing.T) {
	for _, c := range []struct {
		search      Search
		lanes, want int
	}{{Search{}, 1, 2}, {Search{}, 16, 10}, {Search{From: 2, To: 3}, 1024, 2}, {Search{From: 8, To: 8}, 1024, 1}, {Search{To: 64}, 1024, 12}} {
		require.Equal(t, c.want, c.search.Longest(c.lanes), c)
	}
}
