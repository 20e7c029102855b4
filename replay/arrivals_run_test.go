package replay

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// A run whose backlog grows until the last tree has arrived is not valid; one that keeps up is neither valid nor not.
//
// Covers T-69.
func TestOverloadIsNotValid(t *testing.T) {
	c := mooncake(t, make([]float64, 100)...)
	for limit, overloaded := range map[int]bool{0: false, 30: false, 1: true} {
		o := arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 10, Law: arrivals.Constant})
		o.Concurrency = limit
		v, err := virtually(t, o, second)
		require.NoError(t, err)
		if !overloaded {
			require.Nil(t, v.summary.Valid)
			require.Empty(t, v.summary.Reasons)
			continue
		}
		require.False(t, *v.summary.Valid)
		require.Equal(t, []string{measure.BacklogGrew}, v.summary.Reasons)
		require.InDeltaSlice(t, []float64{12, 34, 57, 79}, v.summary.Arrivals.Backlog, 2)
		require.False(t, v.summary.Client.Bound, "the server is slow, not the client")
		v.requireRebuilt()
	}
}

// Sessions that live as long as the run pile up, and a rate that grows: more requests are in flight because more are sent. A server
// whose answers all take as long keeps up with that. One that answers a request at a time does not.
//
// Covers T-69.
func TestSessionsThatPileUpAreNoOverload(t *testing.T) {
	var calls []call
	for k := range 30 {
		calls = append(calls, call{at: float64(4 * k), took: 1})
	}
	free := time.Duration(0)
	atATime := func(s sentTurn) answerTo {
		free = max(free, s.at) + time.Second
		return answerTo{takes: free - s.at}
	}
	c := recorded(t, recording("a", calls...))
	for _, a := range []Arrivals{
		{Mode: RateArrivals, Rate: 0.5, Law: arrivals.Constant},
		{Mode: RateArrivals, Rate: 0.5, Law: arrivals.Constant, Ramp: 40 * time.Second},
	} {
		for name, script := range map[string]func(sentTurn) answerTo{"keeps up": takes(3 * time.Second), "does not": atATime} {
			free = 0
			o := arriving(t, c, a)
			o.Marker, o.Duration, o.Grace = payload.FirstTurnPrefix, time.Minute, time.Hour
			v, err := virtually(t, o, script)
			require.NoError(t, err)
			b := v.summary.Arrivals.Backlog
			require.Greater(t, b[3], 1.5*b[1], "%s: it grew, %v", name, b)
			if name == "keeps up" {
				require.Nil(t, v.summary.Valid, "backlog %v, sent %v", b, v.summary.Arrivals.SentRate)
			} else {
				require.Equal(t, []string{measure.BacklogGrew}, v.summary.Reasons, "backlog %v, sent %v", b, v.summary.Arrivals.SentRate)
			}
			v.requireRebuilt()
		}
	}
}

// Two trees of one trace may be open at a time only with markers, or where that is allowed.
//
// Covers T-69.
func TestMarkersOfTreesThatArrive(t *testing.T) {
	c := mooncake(t, 0, 0, 0)
	prepared := func(change func(*Options)) error {
		o := arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 1, Law: arrivals.Constant})
		o.Duration = time.Minute
		change(&o)
		r := newRun(o.WithDefaults())
		defer r.close()
		return r.chooseTraces()
	}
	const refused = "trees arrive again and again from 3 distinct traces and have no marker"
	require.ErrorContains(t, prepared(func(o *Options) {}), refused)
	require.ErrorContains(t, prepared(func(o *Options) { o.Concurrency = 4 }), refused)
	require.NoError(t, prepared(func(o *Options) { o.Concurrency = 3 }))
	require.NoError(t, prepared(func(o *Options) { o.Duration = 3 * time.Second }), "no trace arrives twice")
	require.ErrorContains(t, prepared(func(o *Options) { o.Duration = 3*time.Second + 1 }), refused)
	require.NoError(t, prepared(func(o *Options) { o.Requests = 3 }))
	require.NoError(t, prepared(func(o *Options) { o.Once = true }))
	require.NoError(t, prepared(func(o *Options) { o.AllowWrap = true }))
	require.NoError(t, prepared(func(o *Options) { o.Marker = payload.FirstTurnPrefix }))
	require.NoError(t, prepared(func(o *Options) { o.Arrivals = Arrivals{Mode: RecordedArrivals} }), "each trace once")

	o := arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 1, Law: arrivals.Constant})
	o.Duration, o.Marker = 5*time.Second, payload.FirstTurnPrefix
	v, err := virtually(t, o, takes(time.Hour))
	require.NoError(t, err)
	seen := map[payload.Marker]bool{}
	for _, s := range v.sent {
		require.False(t, seen[s.marker], "each tree has a marker of its own")
		seen[s.marker] = true
	}
	require.Len(t, seen, 5)
	require.Contains(t, strings.Join(v.warned, "\n"), "trees of the same trace may be played at a time, because 3 traces arrive again and again")
}

// Where every trace is played once, one that cannot be played is an arrival without a tree. Else the next takes its place.
//
// Covers T-69.
func TestArrivalOfATraceThatCannotBePlayed(t *testing.T) {
	unplayable := func(v *virtualRun) { v.sampler.skipped[1] = true }
	c := mooncake(t, 0, 1000, 2000)
	o := arriving(t, c, Arrivals{Mode: RecordedArrivals})
	o.Duration = time.Hour
	v, err := virtually(t, o, second, unplayable)
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "3@2"}, v.sends())
	require.Equal(t, []measure.Number{3, 2, 1}, []measure.Number{v.summary.Arrivals.Arrived, v.summary.Arrivals.Opened, v.summary.Arrivals.Skipped})

	o = arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 1, Law: arrivals.Constant})
	o.Trees, o.AllowWrap = 4, true
	v, err = virtually(t, o, second, unplayable)
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "3@1", "1@2", "3@3"}, v.sends())
}

// Periods and the progress show the trees that are open and those that wait.
func TestPeriodsShowOpenAndWaitingTrees(t *testing.T) {
	for _, mode := range []ArrivalMode{RecordedArrivals, Lanes} {
		o := arriving(t, mooncake(t, 0, 100, 200, 300, 400), Arrivals{Mode: mode})
		o.Concurrency, o.StatsInterval = 2, time.Second
		var periods []Progress
		o.Period = func(p Progress) { periods = append(periods, p) }
		var last Progress
		o.Progress = func(p Progress) { last = p }
		v, err := virtually(t, o, takes(1700*time.Millisecond))
		require.NoError(t, err)
		require.Len(t, v.records, 5)
		shown := mode == RecordedArrivals
		require.Equal(t, shown, periods[0].Arrivals && periods[0].TreesOpen == 2 && periods[0].TreesWaiting == 3, periods)
		require.Equal(t, shown, last.Arrivals)
		require.Positive(t, last.TreesOpen)
	}
}

// A client that cannot send as fast as trees arrive is bound, and that changes no due time either.
func TestRateBeyondTheClient(t *testing.T) {
	o := arriving(t, mooncake(t, make([]float64, 200)...), Arrivals{Mode: RateArrivals, Rate: 2000, Law: arrivals.Constant})
	var at *time.Duration
	v, err := virtually(t, o, func(sentTurn) answerTo {
		*at += time.Millisecond // which sending a request takes
		return answerTo{takes: time.Millisecond}
	}, func(v *virtualRun) { at = &v.at })
	require.NoError(t, err)
	for _, r := range v.records {
		require.InDelta(t, float64(r.Tree)/2000, r.Due.Seconds(), 1e-12)
	}
	require.True(t, v.summary.Client.Bound)
	require.InDelta(t, 0.1, float64(v.summary.Lateness.Max), 0.02)
}

// Traces are loaded before they arrive, as far as memory allows, so that no burst waits for the disk.
func TestTracesAreLoadedBeforeTheyArrive(t *testing.T) {
	o := arriving(t, mooncake(t, make([]float64, 1000)...), Arrivals{Mode: RecordedArrivals}).WithDefaults()
	s := newSampler(o, o.Warn)
	defer s.close()
	traces, err := selectTraces(o, 0)
	require.NoError(t, err)
	s.dealer.once = true
	require.NoError(t, s.prepareArrivals(traces))
	for k := range traces {
		for _, next := range traces[k:min(k+arrivalDepth, len(traces))] {
			_, ok := s.ahead[next]
			require.True(t, ok, "trace %d is not loaded when %d arrives", next, k)
		}
		_, ok := s.Next(k % 28)
		require.True(t, ok)
		s.ended(k % 28)
	}
	require.Empty(t, s.ahead)
	require.Zero(t, s.memory)

	l := &s.traceLoader // what does not fit is loaded later, but at least one is
	l.memory = maxAhead
	l.loadAhead(traces)
	require.Len(t, l.ahead, 1)
}

// Real time, real connections: every tree is due when the process drew it, and the records and the summary agree.
func TestArrivalsAgainstAServer(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Pace = Pace{Speed: 1e6}
	o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 400, Law: arrivals.Gamma, Shape: 0.5}
	o.Concurrency, o.Trees, o.Marker = 5, 48, payload.FirstTurnPrefix
	p := play(t, t.Context(), o)
	require.Equal(t, 48, p.Trees)
	schedule := o.Arrivals.process(defaultSeed).Schedule()
	due := map[int]float64{}
	for k := range 48 {
		at, _ := schedule.Next()
		due[k] = at.Seconds()
	}
	for _, r := range p.records {
		require.LessOrEqual(t, r.OpenTrees, 5)
		require.Positive(t, r.OpenTrees)
		if r.Turn == 0 && r.Parent == "" {
			require.Equal(t, due[r.Tree], r.Due.Seconds())
		} else {
			require.Zero(t, r.Queued.Seconds())
		}
	}
	require.Equal(t, 48, p.Arrivals.Queued.N)
}

// A run that plays every trace once lasts until the last has arrived and is answered.
func TestEstimateOfArrivals(t *testing.T) {
	o := required(mooncake(t, 0, 10000, 60000))
	for want, a := range map[time.Duration]Arrivals{
		60 * time.Second: {Mode: RecordedArrivals}, 50 * time.Second: {Mode: RecordedArrivals, From: 10 * time.Second},
		20 * time.Second: {Mode: RateArrivals, Rate: 0.1, Law: arrivals.Constant}, 0: {},
	} {
		o.Arrivals = a
		got, err := EstimateDuration(o)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	o.Concurrency, o.Arrivals = 3, Arrivals{Ramp: 30 * time.Second}
	got, err := EstimateDuration(o)
	require.NoError(t, err)
	require.Equal(t, 20*time.Second, got)
}

// A machine is calibrated with the trees that arrive first, and none of them is used up.
func TestCalibrationOfArrivals(t *testing.T) {
	for _, marker := range []payload.MarkerTarget{payload.NoMarker, payload.FirstTurnPrefix} {
		o := arriving(t, mooncake(t, make([]float64, 100)...), Arrivals{Mode: RecordedArrivals})
		o.Marker, o.Calibrate = marker, true
		r := newRun(o.WithDefaults())
		require.NoError(t, r.prepare(t.Context()))
		r.calibrationTurns = 2
		c := r.calibrateFor(t.Context(), 10*time.Second)
		require.Empty(t, c.Error)
		require.Equal(t, maxCalibrationAtOnce, c.Lanes)
		require.Positive(t, c.Requests)
		require.Zero(t, r.sampler.opened)
		require.Zero(t, r.sampler.dealer.dealt)
		require.Empty(t, r.sampler.ledger.passes)
		r.close()
	}
}

// More trees than may wait end the run with an error that names them.
func TestTooManyTreesWait(t *testing.T) {
	if os.Getenv("AGENTX_LONG") == "" {
		t.Skip("16,777,217 arrivals: make test-long")
	}
	o := arriving(t, mooncake(t, 0), Arrivals{Mode: RateArrivals, Rate: arrivals.MaxRate, Law: arrivals.Constant})
	o.Concurrency, o.Duration, o.Grace = 1, time.Hour, time.Second
	v, err := virtually(t, o, func(sentTurn) answerTo { return answerTo{never: true} })
	require.ErrorIs(t, err, conductor.ErrTooManyWaiting)
	require.Len(t, v.records, 1)
	require.EqualValues(t, 1<<24+2, v.summary.Arrivals.Arrived)
	require.Equal(t, []string{measure.BacklogGrew}, v.summary.Reasons)
}

// The means over the quarters are those of all instants one by one, over any time.
func TestBacklogOverTheQuartersOfTheArrivals(t *testing.T) {
	for seed := range uint64(50) {
		g := rand.New(rand.NewPCG(seed, 1))
		unit := time.Duration(1) << (20 + g.IntN(20)) // from a millisecond to minutes
		var b backlog
		var at time.Duration
		arrived, sent, sum, sends := 0, 0, make([]float64, 4), make([]float64, 4)
		type span struct {
			from, to time.Duration
			n, sent  int
		}
		var spans []span
		for range 5000 {
			n := conductor.Counts{TreesWaiting: g.IntN(9), InFlight: g.IntN(9), TreesArrived: arrived, TreesOpen: g.IntN(9)}
			arrived++
			sends := g.IntN(5)
			sent += sends
			n.TreesArrived, n.Sent = arrived, sent
			b.set(at, n)
			next := at + time.Duration(g.Int64N(int64(unit)+1))
			spans = append(spans, span{at, next, n.TreesWaiting + n.InFlight, sends})
			at = next
		}
		got, rates := b.quarters()
		total := b.last - b.first
		if total < 4 {
			continue
		}
		for _, s := range spans {
			if k := int(4 * float64(s.from-b.first) / float64(total)); k < 4 {
				sends[k] += float64(s.sent)
			}
			for k := range sum {
				from, to := max(s.from, b.first+total*time.Duration(k)/4), min(s.to, b.first+total*time.Duration(k+1)/4)
				sum[k] += float64(s.n) * max(0, to-from).Seconds()
			}
		}
		for k := range sum {
			require.InEpsilon(t, sum[k]/(total.Seconds()/4), got[k], 0.02)
			require.InEpsilon(t, sends[k]/(total.Seconds()/4), rates[k], 0.02)
		}
		require.LessOrEqual(t, len(b.sums), maxBacklogSteps)
	}
	waiting, rates := new(backlog).quarters()
	require.Nil(t, waiting)
	require.Nil(t, rates)
}
