package merge_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// What no record knows is added up over the parts, with instants on the clock of part 0 and numbers of the whole load.
func TestFactsOfTheWholeLoad(t *testing.T) {
	const of = 3
	wedged := measure.DeadlockReport{Phase: measure.ProfilingPhase, At: 2, Tree: 5, Lane: 1, Last: measure.LastEvent{At: 1}}
	l := load{world: newWorld(8, 6), of: of, skews: []skew{{}, {offset: 3 * time.Second, error: 100}}, meeting: "m", change: func(number int, i *measure.RunInfo) {
		i.Host = []string{"a", "b", "b"}[number]
		i.Facts.Deadline, i.Facts.ExpectedDuration = []float64{3, 4, 3.5}[number], []float64{4, 5, 3}[number]
		i.Arrivals = &measure.ArrivalPlan{Mode: measure.RateArrivals, Rate: 10.0 / 3, Cap: 16}
		i.Facts.Arrivals = &measure.ArrivalFacts{Arrived: 5, Opened: 4, MostOpen: 3, Backlog: measure.Quarters{1, 2, 3, 4}, SentRate: measure.Quarters{1, 1, 1, 1}}
		i.Calibration = &measure.Calibration{Lanes: 16, RequestRate: 100, TTFT: measure.Quantiles{P50: measure.Number(number), P99: 9}}
		i.Facts.Ahead = &measure.Ahead{Requests: 2, Connections: 1}
		i.Options = append(i.Options, measure.Option{Name: "listen", Value: json.RawMessage(`"` + i.Host + `"`)}) // parts may differ in it
		if number == 1 {
			i.Facts.Deadlocks, i.Facts.Branches.TreesDeadlocked, i.Facts.Cores = []measure.DeadlockReport{wedged}, 1, 8
		}
	}}
	run := open(t, l.write(t))
	i, f := run.Info, run.Info.Facts
	require.Equal(t, "a, b", i.Host)
	require.Nil(t, i.Part)
	require.Equal(t, run.Dir, i.Out)
	for _, o := range i.Options {
		require.NotEqual(t, "part", o.Name)
	}
	require.Equal(t, measure.ArrivalPlan{Mode: measure.RateArrivals, Rate: 10, Cap: 48}, *i.Arrivals)
	require.Equal(t, 12, f.Cores, "four of one machine, eight of the other, on which two parts ran")
	require.Equal(t, 4.5, f.CPU)
	require.EqualValues(t, 3000, f.PeakRSS)
	require.Equal(t, 9, f.Branches.TreesOpened)
	require.Equal(t, 1.5, f.Branches.IdleSkipped)
	require.Equal(t, measure.Prompts{Tokens: 300, Reused: 180}, *f.Prompts)
	require.Equal(t, measure.Number(6), f.Warmup.Primers)
	require.Equal(t, measure.Ahead{Requests: 6, Connections: 3}, *f.Ahead)
	require.Equal(t, 15, f.Arrivals.Arrived)
	require.Equal(t, measure.Quarters{3, 6, 9, 12}, f.Arrivals.Backlog)
	require.Equal(t, measure.Calibration{Lanes: 48, RequestRate: 300, TTFT: measure.Quantiles{P50: 2, P99: 9}}, *i.Calibration)
	require.InDelta(t, 4, f.Deadline, 1e-5)
	require.Equal(t, 5.0, f.ExpectedDuration)
	require.Len(t, f.Deadlocks, 1)
	require.Equal(t, 1+5*of, f.Deadlocks[0].Tree)
	require.InDelta(t, 2, f.Deadlocks[0].At, 1e-5)
	require.InDelta(t, 1, f.Deadlocks[0].Last.At, 1e-5)
	require.InDelta(t, 3*1/f.Load.Seconds, float64(f.Load.Playing), 1e-9)
	require.Equal(t, []string{measure.WedgedTree, measure.BacklogGrew}, f.Reasons)
	s, _, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	require.Equal(t, f.Reasons, s.Reasons)
	require.Equal(t, f.Valid, s.Valid)
	list, err := run.Lanes()
	require.NoError(t, err)
	require.Len(t, list, lanes)
	for k := range list {
		require.Equal(t, k, list[k].Lane)
	}
}

// A scenario judges the whole load: overflows that are too many in one part may be few in all, and content that one part got late covers the phase.
func TestScenarioJudgesTheWholeLoad(t *testing.T) {
	judged := func(expected float64, overflows int) (*bool, []string) {
		w := newWorld(9, 30)
		for k := range w.turns {
			r := &w.turns[k].Record
			if r.Error != nil && r.Phase == measure.ProfilingPhase { // all end well
				r.Error, r.Bucket = nil, measure.Profiling
			}
			if overflows > 0 && r.Lane == 3 && r.Phase == measure.ProfilingPhase {
				overflows--
				r.Error, r.Bucket = &measure.Error{Category: "context_overflow"}, measure.ContextOverflow
			}
		}
		l := load{world: w, of: 4, change: func(_ int, i *measure.RunInfo) {
			i.Scenario, i.Facts.ExpectedDuration = &measure.Scenario{Name: "s", MinDuration: 10}, expected
		}}
		run := open(t, l.write(t))
		s, _, err := replay.Summarize(run, nil)
		require.NoError(t, err)
		require.Equal(t, run.Info.Facts.Reasons, s.Reasons)
		require.Equal(t, run.Info.Facts.Valid, s.Valid)
		return s.Valid, s.Reasons
	}
	valid, reasons := judged(27, 5) // of some 1,000, and of some 20 of the lane
	require.True(t, *valid)
	require.Empty(t, reasons)
	valid, reasons = judged(27, 1000)
	require.False(t, *valid)
	require.Equal(t, []string{measure.OverflowRate}, reasons)
	valid, reasons = judged(60, 0)
	require.False(t, *valid)
	require.Equal(t, []string{measure.InsufficientMetrics}, reasons)
}

// The client of a load is bound if that of one part is, also where few of all requests were late.
func TestClientOfAPartIsBound(t *testing.T) {
	w := newWorld(10, 120)
	for k := range w.turns {
		if r := &w.turns[k].Record; r.Lane == 15 && r.Turn == 1 && r.Phase == measure.ProfilingPhase { // some of the requests of one lane of three of part 15
			r.Due = measure.At(max(0, r.Due.Seconds()-1))
			r.Admitted = r.Due
		}
	}
	s, _, err := replay.Summarize(open(t, load{world: w, of: 16}.write(t)), nil)
	require.NoError(t, err)
	require.Less(t, float64(s.Lateness.P95), 0.01)
	require.True(t, s.Client.Bound)
	require.Len(t, s.Client.BoundBy, 1)
	require.True(t, strings.HasPrefix(s.Client.BoundBy[0], "part 15 (host-7): start: "), s.Client.BoundBy[0])
	for _, p := range s.Parts.List {
		require.Equal(t, p.Number == 15, p.Bound)
		require.Equal(t, p.Requests, p.Completed+p.Failed+w.apart(p.Number, 16))
	}
	var text strings.Builder
	require.NoError(t, s.WriteTable(&text, 0))
	require.Contains(t, text.String(), "the client, or a limit set on it, was a bottleneck")
}

// apart counts the requests of a part that were cancelled, or did not fit the context.
func (w *world) apart(number, of int) (n int) {
	for k := range w.turns {
		if r := &w.turns[k].Record; r.Lane%of == number && (r.Bucket == measure.CancelledAtEnd || r.Bucket == measure.ContextOverflow) {
			n++
		}
	}
	return n
}

// Every part reads the pages of all servers. Their samples are there once: those of the first part that has some, on the clock of part 0.
func TestServersAreReadOnce(t *testing.T) {
	const of = 3
	l := load{world: newWorld(11, 6), of: of, skews: []skew{{}, {offset: 3 * time.Second, error: 100}, {offset: 2 * time.Second, error: 100}}, meeting: "m", change: func(number int, i *measure.RunInfo) {
		if number > 0 {
			i.ServerMetrics = &measure.ServerMetrics{File: scrape.File, Pages: []measure.MetricsPage{{URL: "http://h/metrics", Fetches: number}}}
		}
	}}
	dir := l.write(t)
	for number := 1; number < of; number++ {
		at := l.skew(number).own(profiling + 1e9)
		text := `{"endpoint":0,"url":"http://h/metrics","default":true}` + "\n" + `{"series":0,"endpoint":0,"name":"running","type":"gauge","labels":{}}` + "\n" +
			fmt.Sprintf(`{"endpoint":0,"at":%d,"took":1,"values":[[0,7]]}`, at) + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, measure.PartDir(number, of), scrape.File), []byte(text), 0o600))
	}
	run := open(t, dir)
	require.Equal(t, 1, run.Info.ServerMetrics.Pages[0].Fetches)
	data, err := run.Servers()
	require.NoError(t, err)
	require.Len(t, data.Endpoints, 1)
	require.Len(t, data.Endpoints[0].Answers, 1)
	require.InDelta(t, profiling+1e9, data.Endpoints[0].Answers[0].At, 1000)
}

// A part of a load is read as a run of its own.
func TestOnePartIsARun(t *testing.T) {
	dir := filepath.Join(load{world: newWorld(12, 12), of: 2}.write(t), measure.PartDir(1, 2))
	run, err := report.Open(dir)
	require.NoError(t, err)
	require.Nil(t, run.Info.Parts)
	require.Equal(t, 1, run.Info.Part.Number)
	s, _, err := replay.Summarize(run.Files, nil)
	require.NoError(t, err)
	require.Equal(t, lanes/2, s.Lanes.Started)
	_, err = merge.Open(filepath.Join(dir, "none"), merge.Options{})
	require.NoError(t, err, "its records are what a reader asks for")
}
