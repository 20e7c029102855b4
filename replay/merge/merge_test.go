package merge_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each calls use with every record of a run.
func each(t testing.TB, run *merge.Run, use func(*measure.Record)) {
	records, err := run.Records()
	require.NoError(t, err)
	defer records.Close()
	for {
		r, err := records.Next()
		if errors.Is(err, io.EOF) {
			require.NoError(t, records.ContentsError())
			return
		}
		require.NoError(t, err)
		use(r)
	}
}

// summarize returns the summary as JSON without what only parts have, or differs between them.
func summarize(t testing.TB, run *merge.Run) map[string]any {
	s, _, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	for _, key := range []string{"parts", "run", "out", "records", "branches", "warmup", "client", "fidelity"} {
		delete(m, key)
	}
	m["remarks"] = s.RemarksOf(measure.Broken, measure.Warning) // the notes are of the fidelity
	return m
}

// N parts with one clock are as one run: the same records in the same order, the same summary, the same tables.
func TestPartsAreAsOneRun(t *testing.T) {
	w := newWorld(1, 30)
	one := filepath.Join(load{world: w, of: 1}.write(t), measure.PartDir(0, 1))
	alone := open(t, one) // as a run of its own
	want, records := summarize(t, alone), []measure.Record{}
	contents := []string{}
	each(t, alone, func(r *measure.Record) {
		records, contents = append(records, *r), append(contents, string(r.Contents.Packed()))
	})
	run, err := report.Of(alone)
	require.NoError(t, err)
	tables, err := run.Compute()
	require.NoError(t, err)
	trees := map[string]int{} // of the whole load, by the ids of their roots
	for _, of := range []int{1, 2, 3, 16, 48} {
		parts := open(t, load{world: w, of: of}.write(t))
		require.Equal(t, of, parts.Info.Parts.Used)
		require.Equal(t, lanes, parts.Info.Lanes)
		got := summarize(t, parts)
		delete(got, "part")
		delete(want, "part")
		require.Equal(t, want, got, "%d parts", of)
		k, credits, passes := 0, map[string]map[int]bool{measure.WarmupPhase: {}, measure.ProfilingPhase: {}}, map[[2]any]int{}
		clear(trees)
		each(t, parts, func(r *measure.Record) {
			x, y := records[k], *r
			require.False(t, credits[r.Phase][r.Credit], "credit %d of %s occurs twice", r.Credit, r.Phase)
			credits[r.Phase][r.Credit] = true
			if tree, ok := trees[r.RootID]; ok {
				require.Equal(t, tree, r.Tree)
			}
			trees[r.RootID] = r.Tree
			require.Equal(t, r.Lane%of, r.Tree%of)
			passes[[2]any{r.Trace, r.Pass}] = r.Tree
			require.Equal(t, contents[k], string(y.Contents.Packed()))
			k++
			y.Tree, y.Credit, y.Pass, x.Tree, x.Credit, x.Pass = 0, 0, 0, 0, 0, 0
			x.Contents, y.Contents = wire.Contents{}, wire.Contents{}
			require.Equal(t, x, y)
		})
		require.Len(t, records, k)
		require.Len(t, trees, w.trees)
		require.Len(t, passes, w.trees, "no two trees are the same pass of a trace")
		run, err := report.Of(parts)
		require.NoError(t, err)
		again, err := run.Compute()
		require.NoError(t, err)
		require.Equal(t, tables, again, "%d parts", of)
	}
}

// Instants on clocks that are 5 s off and drift by 100 ppm are right within the uncertainty that the parts state, and what one clock has
// measured stays as it is.
//
// Covers D-9.
func TestMergedInstantsAreRight(t *testing.T) {
	const of = 16
	l := load{world: newWorld(2, 60), of: of, skews: skewed(of), meeting: "00c0ffee00c0ffee"}
	truth := map[string]*measure.Record{}
	for k := range l.turns {
		truth[l.turns[k].RequestID] = &l.turns[k].Record
	}
	run := open(t, l.write(t))
	require.InDelta(t, 0, run.Info.Start.Sub(time.Unix(0, begun-5e8)).Seconds(), 0.002)
	start := map[string]int64{}
	for _, p := range run.Info.Phases {
		start[p.Name] = p.Start.UnixNano()
		require.InDelta(t, origin(p.Name), start[p.Name], 1e6*float64(run.Info.Parts.Clocks.Uncertainty)*1e3)
	}
	n, before := 0, int64(0)
	each(t, run, func(r *measure.Record) {
		n++
		want, part := truth[r.RequestID], run.Info.Parts.List[r.Lane%of]
		bound := math.Round(float64(part.Uncertainty)*1e9) + 2
		for name, at := range map[string][2]float64{
			"due": {r.Due.Seconds(), want.Due.Seconds()}, "sent": {r.Sent.Seconds(), want.Sent.Seconds()}, "first token": {r.FirstToken.Seconds(), want.FirstToken.Seconds()},
			"last token": {r.LastToken.Seconds(), want.LastToken.Seconds()}, "end": {r.End.Seconds(), want.End.Seconds()},
		} {
			if at[1] > 0 || name == "sent" {
				require.InDelta(t, origin(r.Phase)+measure.Nanos(at[1]), start[r.Phase]+measure.Nanos(at[0]), bound, "%s of %s, part %d", name, r.RequestID, part.Number)
			}
		}
		own := *want
		l.skew(part.Number).read(&own)
		for _, length := range [][4]float64{{r.FirstToken.Seconds(), r.Sent.Seconds(), own.FirstToken.Seconds(), own.Sent.Seconds()}, {r.LastToken.Seconds(), r.FirstToken.Seconds(), own.LastToken.Seconds(), own.FirstToken.Seconds()}, {r.Sent.Seconds(), r.Due.Seconds(), own.Sent.Seconds(), own.Due.Seconds()}} {
			if length[2] > 0 {
				require.InDelta(t, length[2]-length[3], length[0]-length[1], 1e-12, "the part measured it with its own clock")
			}
		}
		end := start[r.Phase] + int64(r.End)
		require.LessOrEqual(t, before, end+5e6, "in the order of the ends, but for what readings differ")
		before = end
	})
	require.Equal(t, len(l.turns), n)
	worst := 0.0
	for _, p := range run.Info.Parts.List {
		s := l.skew(p.Number)
		require.InDelta(t, -s.offset.Seconds(), float64(p.Offset), 0.001)
		require.Less(t, float64(p.Uncertainty), 0.002, "part %d", p.Number)
		worst = max(worst, float64(p.Uncertainty))
	}
	require.Equal(t, measure.Number(worst), run.Info.Parts.Clocks.Uncertainty)
}

// Rates of parts with such clocks are those of the load within what the summary states beside them.
//
// Covers D-9.
func TestMarginsOfRates(t *testing.T) {
	const of = 4
	w := newWorld(3, 20)
	alone := open(t, filepath.Join(load{world: w, of: 1}.write(t), measure.PartDir(0, 1)))
	want, _, err := replay.Summarize(alone, nil)
	require.NoError(t, err)
	run := open(t, load{world: w, of: of, skews: skewed(of), meeting: "m"}.write(t))
	got, _, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	for name, rate := range map[string][2]measure.Number{
		"request_rate": {want.RequestRate, got.RequestRate}, "prompt_token_rate": {want.PromptTokenRate, got.PromptTokenRate},
		"output_token_rate": {want.OutputTokenRate, got.OutputTokenRate}, "duration": {want.Duration, got.Duration}, "phase_duration": {want.PhaseDuration, got.PhaseDuration},
	} {
		margin := float64(got.Parts.Clocks.Figures[name])
		require.Positive(t, margin, name)
		require.Less(t, margin, 0.001*float64(rate[0]), name)
		require.InDelta(t, float64(rate[0]), float64(rate[1]), margin, name)
	}
	require.Equal(t, want.TTFT.N, got.TTFT.N)
	require.InEpsilon(t, float64(want.TTFT.P95), float64(got.TTFT.P95), 1e-4, "each is of one clock")
	require.Regexp(t, `^ ± 0\.\d+ %$`, got.ClockMargin(true))

	unknown := open(t, load{world: w, of: of}.write(t))
	s, missing, err := replay.Summarize(unknown, nil)
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.Contains(t, missing[0], "the parts have not compared their clocks")
	require.True(t, s.Parts.Clocks.Figures["request_rate"].IsMissing())
	require.Equal(t, " ± unknown", s.ClockMargin(true))
	only := open(t, load{world: w, of: 1}.write(t))
	require.Empty(t, only.Missing, "nothing crosses parts")
	require.Zero(t, only.Info.Parts.Clocks.Uncertainty)
	require.NoError(t, os.RemoveAll(unknown.Dir))
}

// Parts that did not begin together begin where their clocks say. The load begins with the first of those that are used.
func TestPartsThatBeginApart(t *testing.T) {
	const of = 3
	late := []time.Duration{2 * time.Second, 0, 500 * time.Millisecond}
	l := load{world: newWorld(13, 8), of: of, change: func(number int, i *measure.RunInfo) {
		for k := range i.Phases {
			i.Phases[k].Start = i.Phases[k].Start.Add(late[number])
		}
	}}
	truth := map[string]float64{}
	for k := range l.turns {
		truth[l.turns[k].RequestID] = l.turns[k].Sent.Seconds()
	}
	dir := l.write(t)
	look := func(run *merge.Run, first time.Duration) {
		require.Equal(t, int64(profiling+first), run.Info.Phases[1].Start.UnixNano())
		require.InDelta(t, (profiling-begun)/1e9, run.Info.Phases[1].Offset, 1)
		each(t, run, func(r *measure.Record) {
			require.InDelta(t, truth[r.RequestID]+(late[r.Lane%of]-first).Seconds(), r.Sent.Seconds(), 1e-9)
		})
	}
	look(open(t, dir), 0)
	change(t, filepath.Join(dir, measure.PartDir(1, of), measure.RecordsFile), func(s string) string { return "{\n" + s })
	run, err := merge.Open(dir, merge.Options{Partial: true})
	require.NoError(t, err)
	look(run, 500*time.Millisecond)
}
