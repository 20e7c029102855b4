package measure

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Covers T-69.
func TestBacklogThatGrew(t *testing.T) {
	even := Quarters{5, 5, 5, 5}
	for _, c := range []struct {
		of, sent Quarters
		want     bool
	}{
		{nil, nil, false},
		{Quarters{0, 0, 0, 0}, even, false},
		{Quarters{1, 2, 3, 4}, even, true}, // twice the second, and 2 more
		{Quarters{1, 2, 3, 3.99}, even, false},
		{Quarters{10, 20, 25, 30}, even, true}, // half as much again
		{Quarters{10, 20, 24, 29.9}, even, false},
		{Quarters{10, 20, 25.1, 30}, even, false}, // no more growth at the end: the first are answered
		{Quarters{10, 20, 20, 40}, even, false},   // not from each quarter to the next
		{Quarters{20, 20, 30, 40}, even, false},
		{Quarters{10, 20, 41, 40}, even, false},
		{Quarters{50, 40, 30, 20}, even, false},
		{Quarters{0, 0.5, 1, 1.5}, even, false}, // three times the second, of next to nothing
		{Quarters{math.NaN(), 2, 3, 4}, even, false},
		{Quarters{10, 20, 30, 40}, Quarters{1, 2, 3, 4}, false}, // as many more were sent
		{Quarters{10, 20, 30, 40}, Quarters{3, 3, 3, 4.01}, false},
		{Quarters{10, 20, 30, 40}, Quarters{3, 3, 3, 4}, true}, // each waits half as long again
		{Quarters{10, 20, 30, 40}, Quarters{3, 0, 0, 0}, true}, // nothing is answered, so nothing is sent
	} {
		require.Equal(t, c.want, backlogGrew(c.of, c.sent), "%v, %v", c.of, c.sent)
		s := NewAggregate(Rules{}).Summary(RunInfo{Arrivals: &ArrivalPlan{Mode: RateArrivals}, Facts: &Facts{Arrivals: &ArrivalFacts{Backlog: c.of, SentRate: c.sent}}})
		require.Equal(t, c.want, s.Valid != nil && !*s.Valid)
		require.Equal(t, c.want, len(s.Reasons) == 1 && s.Reasons[0] == BacklogGrew)
		if c.want {
			require.Len(t, detailOf(&s, "invalid"), 1, "pages show what the last line of the console says")
			require.Contains(t, detailOf(&s, "invalid")[0], "try: a lower --rate: trees arrived faster than they were served")
		}
	}
}

// Waits are counted of first turns of trees that arrived, however they ended, and lateness is without them.
func TestQueuedTrees(t *testing.T) {
	a := NewAggregate(Rules{})
	add := func(r *Record, change func(*Record)) {
		change(r)
		a.Add(r)
	}
	add(good(0, 1, 0, 0.5, 2, 3), func(r *Record) { r.Due, r.Queued, r.OpenTrees = At(0.25), At(0.5), 1 })
	add(bad(CancelledAtEnd, "cancelled"), func(r *Record) { r.Queued, r.OpenTrees = At(1.5), 2 })
	add(good(0, 1, 0, 0.5, 2, 3), func(r *Record) { r.Turn, r.OpenTrees = 1, 2 })
	s := a.Summary(RunInfo{Arrivals: &ArrivalPlan{Mode: RateArrivals, Rate: 2.5, Draw: "poisson"}})
	require.Equal(t, 2, s.Arrivals.Queued.N)
	require.EqualValues(t, 1, s.Arrivals.Queued.Mean)
	require.EqualValues(t, 0.25, s.Lateness.Max)
	require.True(t, s.Arrivals.Arrived.IsMissing(), "of a run that was killed")
	text, err := json.Marshal(s.Arrivals)
	require.NoError(t, err)
	require.Contains(t, string(text), `"arrived":null`)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "arrivals    2.50 trees/s, poisson\n")
	require.Regexp(t, `(?m)^queued +1\.00+ s`, b.String())
	require.NotContains(t, b.String(), "queued leaves out")

	b.Reset()
	s = a.Summary(RunInfo{Arrivals: &ArrivalPlan{}, Facts: &Facts{Arrivals: &ArrivalFacts{Arrived: 4, Opened: 2, Waiting: 2}}})
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "\n            queued leaves out trees that never opened: 2\n")
}
