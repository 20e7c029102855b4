package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
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
	_, _, err = rebuildSummary(dir)
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
				require.Zero(t, r.Queued.Seconds())
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
		require.InDelta(t, 0, r.Lateness().Seconds(), 1e-12)
		due, queued = append(due, r.Due.Seconds()), append(queued, r.Queued.Seconds())
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
			dues[r.Tree] = r.Due.Seconds()
			require.InDelta(t, 0, r.Lateness().Seconds(), 1e-9)
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

// With absolute turns later turns go at their recorded instants over the speed, or when the turn before is over.
//
// Covers T-68.
func TestAbsoluteTurns(t *testing.T) {
	turn := func(session string, at float64) string {
		return fmt.Sprintf(`{"timestamp":%g,"input_length":600,"output_length":4,"hash_ids":[1,%g],"session_id":%q}`+"\n", at, at+2, session)
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

func TestArrivalsAreValidated(t *testing.T) {
	c := mooncake(t, 0, 1000)
	recording, rate := Arrivals{Mode: RecordedArrivals}, Arrivals{Mode: RateArrivals, Rate: 1}
	absolute := Arrivals{AbsoluteTurns: true}
	for want, o := range map[string]Options{
		"--rate and --arrivals: a rate is another way to open trees":                                    {Arrivals: Arrivals{Rate: 1}},
		"--arrival: works only with --rate":                                                             {Arrivals: Arrivals{Mode: RecordedArrivals, Law: arrivals.Gamma}},
		"--to and --arrivals: a window is one of recorded arrivals":                                     {Arrivals: Arrivals{Mode: RateArrivals, Rate: 1, To: 1}},
		"--ramp and --arrivals: trees that arrive on their own begin at their recorded starts":          {Arrivals: Arrivals{Mode: RecordedArrivals, Ramp: 1}},
		"--arrivals: --rate says how many trees per second":                                             {Arrivals: Arrivals{Mode: RateArrivals}},
		"--to: at or before --from: want a later time":                                                  {Arrivals: Arrivals{Mode: RecordedArrivals, From: 2, To: 1}},
		"--asap and --arrivals: trees that arrive on their own keep their times: leave one of them out": {Arrivals: recording, Pace: Pace{ASAP: true}},
		"--start and --arrivals: ":                                                                      {Arrivals: rate, Start: Start{Sampled: true}},
		"--warmup and --arrivals: ":                                                                     {Arrivals: rate, Warmup: Warmup{Primers: true}},
		"--system-idle-cap and --arrivals: ":                                                            {Arrivals: recording, Limits: Limits{SystemIdle: 1}},
		"--recycle and --arrivals: ":                                                                    {Arrivals: rate, Recycle: RecycleFIFOGuarded},
		"--max-live-per-trace and --arrivals: ":                                                         {Arrivals: rate, MaxLivePerTrace: true},
		"--sampler-order and --arrivals: ":                                                              {Arrivals: recording, Order: Shuffle},
		"--turns and --scenario: a scenario plays lanes and gaps":                                       {Arrivals: absolute, Scenario: &measure.Scenario{Name: "x"}},
		"--warmup and --ramp: ":                                                                         {Arrivals: Arrivals{Ramp: 1}, Warmup: Warmup{Primers: true}},
		"--asap and --turns: ":                                                                          {Arrivals: absolute, Pace: Pace{ASAP: true}},
		"--max-gap and --turns: ":                                                                       {Arrivals: absolute, Pace: Pace{MaxGap: 1}},
		"--think-time-only and --turns: ":                                                               {Arrivals: absolute, Pace: Pace{ThinkTimeOnly: true}},
		"--start and --turns: ":                                                                         {Arrivals: absolute, Start: Start{Sampled: true}},
		"--warmup and --turns: ":                                                                        {Arrivals: absolute, Warmup: Warmup{Primers: true}},
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
	require.ErrorContains(t, o.CheckArrivals(), `a rate of requests needs traces of one request each, and trace "`)
	o.Arrivals = recording
	require.False(t, o.HasRecordedStarts())
	require.ErrorContains(t, o.CheckArrivals(), "16 of 16 traces have no recorded start, the first is ")
}
