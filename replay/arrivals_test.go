package replay

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// mooncake returns a cache of Mooncake rows that start at instants, in milliseconds.
func mooncake(t testing.TB, instants ...float64) *mmapcache.Cache {
	var b strings.Builder
	for k, at := range instants {
		fmt.Fprintf(&b, `{"timestamp":%g,"input_length":100,"output_length":4,"hash_ids":[%d]}`+"\n", at, k)
	}
	return cachetest.Prepare(t, b.String(), "code")
}

// arriving are options of a run on virtual time whose trees arrive, without a cap.
func arriving(t *testing.T, c *mmapcache.Cache, a Arrivals) Options {
	o := optionsFor(t, c, unreachable)
	o.Concurrency, o.Pace, o.Arrivals = 0, Pace{}, a
	return o
}

// takes returns the script of a server whose answers all take the same time.
func takes(d time.Duration) func(sentTurn) answerTo {
	return func(sentTurn) answerTo { return answerTo{takes: d} }
}

// sends returns what was sent in the phase that is measured: trace@seconds.
func (v *virtualRun) sends() (list []string) {
	for _, s := range v.sent {
		list = append(list, fmt.Sprintf("%s@%g", strings.TrimPrefix(s.trace, "row-00000"), s.at.Seconds()))
	}
	return list
}

// requireRebuilt checks that a report computes the same summary, byte for byte.
func (v *virtualRun) requireRebuilt() {
	dir := v.results.dir.path
	written, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	require.NoError(v.t, err)
	_, _, err = RebuildSummary(dir)
	require.NoError(v.t, err)
	again, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	require.NoError(v.t, err)
	require.Equal(v.t, string(written), string(again))
}

// Rows leave at their recorded instants over the speed, however long the server takes, and rows that start together in the order
// of the cache.
//
// Covers T-68.
func TestRecordedRowsLeaveAtTheirInstants(t *testing.T) {
	c := mooncake(t, 1000, 4000, 2500, 4000, 9000)
	for _, answers := range []time.Duration{time.Millisecond, 30 * time.Second} {
		for speed, want := range map[float64][]string{
			0: {"1@0", "3@1.5", "2@3", "4@3", "5@8"},
			2: {"1@0", "3@0.75", "2@1.5", "4@1.5", "5@4"},
		} {
			o := arriving(t, c, Arrivals{Mode: RecordedArrivals})
			o.Pace.Speed = speed
			v, err := virtually(t, o, takes(answers))
			require.NoError(t, err)
			require.Equal(t, want, v.sends())
			for _, r := range v.records {
				require.Zero(t, r.Lateness(), r.Trace)
				require.Zero(t, r.Queued)
				require.Zero(t, r.QueuedTrees)
				require.Positive(t, r.OpenTrees)
			}
			a := v.summary.Arrivals
			require.Equal(t, []measure.Number{5, 5, 0, 0, 0}, []measure.Number{a.Arrived, a.Opened, a.Skipped, a.Waiting, a.MostWaiting})
			require.Equal(t, "recorded", a.Mode)
			if answers > time.Second {
				require.EqualValues(t, 5, a.MostOpen)
				require.Len(t, v.results.lanes, 5, "a lane for each tree that was open")
			} else {
				require.EqualValues(t, 2, a.MostOpen)
			}
			require.False(t, v.summary.Client.Bound)
			require.Zero(t, v.summary.Concurrency)
			v.requireRebuilt()
		}
	}
}

// With a cap trees wait in the order of their arrivals, and the wait is neither lateness nor latency.
//
// Covers T-68.
func TestCapOnOpenTrees(t *testing.T) {
	o := arriving(t, mooncake(t, 0, 1000, 2000, 3000, 50000), Arrivals{Mode: RecordedArrivals})
	o.Concurrency = 2
	v, err := virtually(t, o, takes(5*time.Second))
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "2@1", "3@5", "4@6", "5@50"}, v.sends())
	var due, queued []float64
	var open, waiting []int
	for _, r := range v.records {
		require.InDelta(t, 0, r.Lateness(), 1e-12)
		due, queued = append(due, r.Due), append(queued, r.Queued)
		open, waiting = append(open, r.OpenTrees), append(waiting, r.QueuedTrees)
	}
	require.Equal(t, []float64{0, 1, 2, 3, 50}, due)
	require.Equal(t, []float64{0, 0, 3, 3, 0}, queued)
	require.Equal(t, []int{1, 2, 2, 2, 1}, open)
	require.Equal(t, []int{0, 0, 1, 0, 0}, waiting)
	a := v.summary.Arrivals
	require.EqualValues(t, 2, a.MostWaiting)
	require.EqualValues(t, 2, a.MostOpen)
	require.EqualValues(t, 3, a.Queued.Max)
	require.Equal(t, 5, a.Queued.N)
	require.InDelta(t, 0, float64(v.summary.Lateness.Max), 1e-12)
	require.EqualValues(t, 5, v.summary.RequestLatency.Max, "the wait is no latency")
	require.Equal(t, 2, v.summary.Concurrency)
	require.Empty(t, v.sampler.loaded, "a trace that is over is not kept")
	v.requireRebuilt()
}

// A window counts from the first recorded start, and its first trace is at 0.
//
// Covers T-68.
func TestWindowOfARecording(t *testing.T) {
	c := mooncake(t, 1000, 2000, 3000, 4000, 5000)
	v, err := virtually(t, arriving(t, c, Arrivals{Mode: RecordedArrivals, From: time.Second, To: 3 * time.Second}), second)
	require.NoError(t, err)
	require.Equal(t, []string{"2@0", "3@1"}, v.sends())
	require.Equal(t, []float64{1, 3}, []float64{v.summary.Arrivals.From, v.summary.Arrivals.To})

	o := arriving(t, c, Arrivals{Mode: RecordedArrivals, From: time.Second})
	o.Traces, o.Duration = 4, 1500*time.Millisecond // of a selection; a bound ends it earlier
	v, err = virtually(t, o, takes(time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, []string{"2@0", "3@1"}, v.sends())

	long := `{"timestamp":0,"input_length":4000,"output_length":4,"hash_ids":[1,2,3,4,5,6,7,8]}` + "\n"
	short := `{"timestamp":%d,"input_length":100,"output_length":4,"hash_ids":[9]}` + "\n"
	o = arriving(t, cachetest.Prepare(t, long+fmt.Sprintf(short, 2000)+fmt.Sprintf(short, 5000), "code"), Arrivals{Mode: RecordedArrivals, To: 6 * time.Second})
	o.MaxContext = 1000 // the first does not fit: the window counts from it all the same
	v, err = virtually(t, o, second)
	require.NoError(t, err)
	require.Equal(t, []string{"2@0", "3@3"}, v.sends())

	o = arriving(t, c, Arrivals{Mode: RecordedArrivals, From: time.Second})
	o.Traces = 1
	require.ErrorContains(t, o.CheckArrivals(), "none of the 1 selected traces starts in the window from 1s to 0s")
	o = arriving(t, c, Arrivals{Mode: RecordedArrivals, From: time.Minute})
	require.ErrorContains(t, o.CheckArrivals(), "no trace starts at 1m0s or later: the 5 recorded starts lie between 0s and 4s")
}

// A rate deals the traces as the sampler does: each once without a bound, else again and again.
//
// Covers T-68.
func TestRateOfTrees(t *testing.T) {
	c := mooncake(t, 0, 0, 0)
	rate := Arrivals{Mode: RateArrivals, Rate: 2, Law: arrivals.Constant}
	v, err := virtually(t, arriving(t, c, rate), takes(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "2@0.5", "3@1"}, v.sends())
	require.EqualValues(t, 3, v.summary.Arrivals.Arrived)

	o := arriving(t, c, rate)
	o.Duration, o.AllowWrap, o.Grace = 2200*time.Millisecond, true, time.Hour
	v, err = virtually(t, o, takes(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "2@0.5", "3@1", "1@1.5", "2@2"}, v.sends())

	o = arriving(t, c, rate)
	o.Concurrency, o.Trees = 1, 3 // of those that arrive, one waits at the end of the sending
	o.Trees, o.Duration = 0, 1200*time.Millisecond
	v, err = virtually(t, o, takes(time.Second))
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "2@1"}, v.sends())
	require.EqualValues(t, 1, v.summary.Arrivals.Waiting)
	require.EqualValues(t, 3, v.summary.Arrivals.Arrived)
}

// The instants of a rate depend on the seed alone: a server that fails or is slow changes none of them.
//
// Covers T-68.
func TestNoAnswerMovesAnArrival(t *testing.T) {
	c := mooncake(t, make([]float64, 40)...)
	var first []float64
	for _, script := range []func(sentTurn) answerTo{
		second, takes(30 * time.Second), func(s sentTurn) answerTo { return answerTo{takes: time.Second, category: "connection"} },
	} {
		o := arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 3, Law: arrivals.Gamma, Shape: 0.5, Ramp: 2 * time.Second})
		o.Concurrency, o.Backoff = 3, Backoff{First: time.Second, Max: time.Minute}
		v, _ := virtually(t, o, script)
		dues := make([]float64, 40)
		for _, r := range v.records {
			dues[r.Tree] = r.Due
			require.InDelta(t, 0, r.Lateness(), 1e-9)
		}
		if first == nil {
			first = dues
		}
		require.Equal(t, first, dues)
	}
}

// Lanes open one after another along a ramp.
//
// Covers T-68.
func TestRampOfLanes(t *testing.T) {
	o := arriving(t, mooncake(t, 0, 0, 0, 0), Arrivals{Ramp: 8 * time.Second})
	o.Concurrency = 4
	v, err := virtually(t, o, takes(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []string{"1@0", "2@2", "3@4", "4@6"}, v.sends())
	require.Nil(t, v.summary.Arrivals)
}

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

// Two trees of one trace may be open at a time only with markers, or where that is allowed.
//
// Covers T-69.
func TestMarkersOfTreesThatArrive(t *testing.T) {
	c := mooncake(t, 0, 0, 0)
	prepared := func(change func(*Options)) error {
		o := arriving(t, c, Arrivals{Mode: RateArrivals, Rate: 1, Law: arrivals.Constant})
		o.Duration = time.Minute
		change(&o)
		r := newRun(o.withDefaults())
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

// With absolute turns later turns go at their recorded instants over the speed, or when the turn before is over.
//
// Covers T-68.
func TestAbsoluteTurns(t *testing.T) {
	turn := func(session string, at float64) string {
		return fmt.Sprintf(`{"timestamp":%g,"input_length":100,"output_length":4,"hash_ids":[%g],"session_id":%q}`+"\n", at, at, session)
	}
	c := cachetest.Prepare(t, turn("s", 5000)+turn("s", 9000)+turn("s", 10000)+turn("s", 40000), "code")
	for _, mode := range []ArrivalMode{Lanes, RecordedArrivals} {
		o := arriving(t, c, Arrivals{Mode: mode, AbsoluteTurns: true})
		o.Pace.Speed = 2
		v, err := virtually(t, o, second)
		require.NoError(t, err)
		require.Equal(t, []string{"s@0", "s@2", "s@3", "s@17.5"}, v.sends())
	}
	o := arriving(t, cachetest.Prepare(t, turn("a", 0)+turn("b", 1000)+turn("b", 7000), "code"), Arrivals{Mode: RecordedArrivals, AbsoluteTurns: true})
	v, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Equal(t, []string{"a@0", "b@1", "b@7"}, v.sends(), "counted from the start of the session")

	o = arriving(t, recorded(t, recording("w", call{at: 0, took: 1}, call{at: 10, took: 1, agent: []call{{at: 12, took: 1}, {at: 20, took: 1}}}, call{at: 30, took: 1})),
		Arrivals{AbsoluteTurns: true})
	v, err = virtually(t, o, takes(9*time.Second))
	require.NoError(t, err)
	require.Equal(t, []string{"w@0", "w@12", "w@21", "w@30"}, v.sends())
}

// Periods and the progress show the trees that are open and those that wait.
func TestPeriodsShowOpenAndWaitingTrees(t *testing.T) {
	for _, mode := range []ArrivalMode{RecordedArrivals, Lanes} {
		o := arriving(t, mooncake(t, 0, 100, 200, 300, 400), Arrivals{Mode: mode})
		o.Concurrency, o.StatsInterval = 2, time.Second
		var periods []string
		o.Period = func(p measure.Period) { periods = append(periods, p.Lines()[0]) }
		var last Progress
		o.Progress = func(p Progress) { last = p }
		v, err := virtually(t, o, takes(1700*time.Millisecond))
		require.NoError(t, err)
		require.Len(t, v.records, 5)
		shown := mode == RecordedArrivals
		require.Equal(t, shown, strings.Contains(periods[0], "; 2 trees open, 3 waiting"), periods)
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
		require.InDelta(t, float64(r.Tree)/2000, r.Due, 1e-12)
	}
	require.True(t, v.summary.Client.Bound)
	require.InDelta(t, 0.1, float64(v.summary.Lateness.Max), 0.02)
}

// Traces are loaded before they arrive, as far as memory allows, so that no burst waits for the disk.
func TestTracesAreLoadedBeforeTheyArrive(t *testing.T) {
	o := arriving(t, mooncake(t, make([]float64, 1000)...), Arrivals{Mode: RecordedArrivals}).withDefaults()
	s := newSampler(o, o.Warn)
	defer s.close()
	traces, err := selectTraces(o, 0)
	require.NoError(t, err)
	s.dealer.once = true
	require.NoError(t, s.prepareArrivals(traces))
	for k := range traces {
		for _, next := range traces[k:min(k+arrivalDepth, len(traces))] {
			require.Contains(t, s.ahead, next)
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
	schedule := o.Arrivals.process(DefaultSeed).Schedule()
	due := map[int]float64{}
	for k := range 48 {
		at, _ := schedule.Next()
		due[k] = at.Seconds()
	}
	for _, r := range p.records {
		require.LessOrEqual(t, r.OpenTrees, 5)
		require.Positive(t, r.OpenTrees)
		if r.Turn == 0 && r.Parent == "" {
			require.Equal(t, due[r.Tree], r.Due)
		} else {
			require.Zero(t, r.Queued)
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
func TestCalibrationBeforeArrivals(t *testing.T) {
	for _, marker := range []payload.MarkerTarget{payload.NoMarker, payload.FirstTurnPrefix} {
		o := arriving(t, mooncake(t, make([]float64, 100)...), Arrivals{Mode: RecordedArrivals})
		o.Marker = marker
		r := newRun(o.withDefaults())
		require.NoError(t, r.prepare(t.Context()))
		c := r.calibrateFor(t.Context(), 10*time.Second, 2)
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
	if testing.Short() {
		t.Skip("16,777,217 arrivals")
	}
	o := arriving(t, mooncake(t, 0), Arrivals{Mode: RateArrivals, Rate: arrivals.MaxRate, Law: arrivals.Constant})
	o.Concurrency, o.Duration, o.Grace = 1, time.Hour, time.Second
	v, err := virtually(t, o, func(sentTurn) answerTo { return answerTo{never: true} })
	require.ErrorIs(t, err, conductor.ErrTooManyWaiting)
	require.Len(t, v.records, 1)
	require.EqualValues(t, 1<<24+2, v.summary.Arrivals.Arrived)
	require.Equal(t, []string{measure.BacklogGrew}, v.summary.Reasons)
}

func TestArrivalsAreValidated(t *testing.T) {
	c := mooncake(t, 0, 1000)
	recording, rate := Arrivals{Mode: RecordedArrivals}, Arrivals{Mode: RateArrivals, Rate: 1}
	absolute := Arrivals{AbsoluteTurns: true}
	for want, o := range map[string]Options{
		"mode 3: want 0 to 2":                                {Arrivals: Arrivals{Mode: RateArrivals + 1}},
		"a rate goes with mode rate, not with lanes":         {Arrivals: Arrivals{Rate: 1}},
		"a rate goes with mode rate, not with recorded":      {Arrivals: Arrivals{Mode: RecordedArrivals, Law: arrivals.Gamma}},
		"a window goes with mode recorded, not with rate":    {Arrivals: Arrivals{Mode: RateArrivals, Rate: 1, To: 1}},
		"recorded starts are played as they are":             {Arrivals: Arrivals{Mode: RecordedArrivals, Ramp: 1}},
		"ramp -1ns: want 0 to":                               {Arrivals: Arrivals{Ramp: -1}},
		"rate 0: want a number above 0":                      {Arrivals: Arrivals{Mode: RateArrivals}},
		"rate NaN: want a number above 0":                    {Arrivals: Arrivals{Mode: RateArrivals, Rate: math.NaN()}},
		"rate 1e+09: at most 1e+06":                          {Arrivals: Arrivals{Mode: RateArrivals, Rate: 1e9}},
		"shape 0 of gamma":                                   {Arrivals: Arrivals{Mode: RateArrivals, Rate: 1, Law: arrivals.Gamma}},
		"from 2ns to 1ns: the end must lie behind":           {Arrivals: Arrivals{Mode: RecordedArrivals, From: 2, To: 1}},
		"pace: ASAP with arrivals":                           {Arrivals: recording, Pace: Pace{ASAP: true}},
		"start: sampled with arrivals":                       {Arrivals: rate, Start: Start{Sampled: true}},
		"warmup with arrivals":                               {Arrivals: rate, Warmup: Warmup{Primers: true}},
		"limits: system idle with arrivals":                  {Arrivals: recording, Limits: Limits{SystemIdle: 1}},
		"recycle with arrivals":                              {Arrivals: rate, Recycle: RecycleFIFOGuarded},
		"MaxLivePerTrace with arrivals":                      {Arrivals: rate, MaxLivePerTrace: true},
		"order with recorded arrivals":                       {Arrivals: recording, Order: Shuffle},
		"scenario x with arrivals, a ramp or absolute turns": {Arrivals: absolute, Scenario: &measure.Scenario{Name: "x"}},
		"warmup with a ramp":                                 {Arrivals: Arrivals{Ramp: 1}, Warmup: Warmup{Primers: true}},
		"pace: ASAP with absolute turns":                     {Arrivals: absolute, Pace: Pace{ASAP: true}},
		"pace: max gap with absolute turns":                  {Arrivals: absolute, Pace: Pace{MaxGap: 1}},
		"pace: ThinkTimeOnly with absolute turns":            {Arrivals: absolute, Pace: Pace{ThinkTimeOnly: true}},
		"start: sampled with absolute turns":                 {Arrivals: absolute, Start: Start{Sampled: true}},
		"warmup with absolute turns":                         {Arrivals: absolute, Warmup: Warmup{Primers: true}},
	} {
		o.Cache, o.URLs, o.Model = c, []string{unreachable}, "m"
		require.ErrorContains(t, o.Validate(), want)
		require.ErrorContains(t, o.CheckArrivals(), want)
	}

	o := required(c)
	o.Arrivals = recording
	require.NoError(t, o.CheckArrivals())
	require.True(t, o.HasRecordedStarts())
	o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 1, PerRequest: true}
	require.NoError(t, o.CheckArrivals())
	o.Cache = cachetest.Demo(t)
	require.ErrorContains(t, o.CheckArrivals(), `a rate of requests: trace "`)
	o.Arrivals = recording
	require.False(t, o.HasRecordedStarts())
	require.ErrorContains(t, o.CheckArrivals(), "16 of 16 traces have no recorded start, the first is ")
}
