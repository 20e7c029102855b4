package until

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
)

// growing is a run that writes its records when the test says so.
type growing struct {
	dir     string
	file    *os.File
	written int
}

func newGrowing(t *testing.T, info string) *growing {
	g := &growing{dir: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, measure.RunFile), []byte(info), 0o666))
	file, err := os.Create(filepath.Join(g.dir, measure.RecordsFile))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	g.file = file
	return g
}

const runInfo = `{"preset": "default", "start": "2026-01-01T00:00:00Z", "concurrency": 4}`

// record appends a request of a tree with a time to the first token.
func (g *growing) record(t *testing.T, tree int, ttft float64, change ...func(*measure.Record)) {
	sent := float64(g.written)
	g.written++
	r := measure.Record{
		Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Tree: tree, Credit: g.written - 1, Trace: "t", Session: "t",
		Numbers: measure.Numbers{Due: measure.At(sent), Admitted: measure.At(sent), Sent: measure.At(sent), FirstToken: measure.At(sent + ttft), LastToken: measure.At(sent + ttft), End: measure.At(sent + ttft)},
	}
	for _, f := range change {
		f(&r)
	}
	_, err := g.file.Write(append(r.AppendJSON(nil), '\n'))
	require.NoError(t, err)
}

// watched is a call of Watch whose looks the test causes.
type watched struct {
	tick  chan time.Time
	looks chan Look
	ended chan struct{}
	stop  context.CancelFunc
	found chan *measure.Until
	err   chan error
}

func (g *growing) watch(t *testing.T, texts ...string) *watched {
	w := &watched{tick: make(chan time.Time), looks: make(chan Look, 100), ended: make(chan struct{}, 100), found: make(chan *measure.Until, 1), err: make(chan error, 1)}
	watcher := Watcher{Dir: g.dir, Tick: w.tick, End: func() { w.ended <- struct{}{} }, Tell: func(l Look) { w.looks <- l }}
	for _, text := range texts {
		target, err := Parse(text)
		require.NoError(t, err)
		watcher.Targets = append(watcher.Targets, target)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() {
		found, err := watcher.Watch(ctx)
		w.found <- found
		w.err <- err
	}()
	return w
}

// look causes a look at what has been written, and returns what it found.
func (w *watched) look() Look {
	w.tick <- time.Time{}
	return <-w.looks
}

// The third narrow look in a row ends the run, once; a wide one between begins anew. What is returned is over all records, with the
// interval that report gives.
func TestWatchEndsAtTheThirdNarrowLook(t *testing.T) {
	g := newGrowing(t, runInfo)
	for tree := range 20 {
		g.record(t, tree, 1)
		g.record(t, tree, 1.01)
	}
	w := g.watch(t, "ttft.mean=10%", "latency.p50=20%")
	looks := []Look{<-w.looks} // narrow
	g.record(t, 20, 20)
	looks = append(looks, w.look()) // wide: one tree in 21 is far off
	for tree := 21; tree < 600; tree++ {
		g.record(t, tree, 1)
	}
	looks = append(looks, w.look(), w.look())
	require.Empty(t, w.ended, "two looks")
	looks = append(looks, w.look())
	<-w.ended
	w.tick <- time.Time{} // there are no more looks
	g.record(t, 600, 1)   // in the grace
	g.record(t, 601, 700, func(r *measure.Record) { r.Bucket = measure.Cooldown })
	w.stop()
	found := <-w.found
	require.NoError(t, <-w.err)
	require.Empty(t, w.ended, "once")
	require.Empty(t, w.looks)
	var inARow, trees []int
	for k, l := range looks {
		require.Equal(t, k+1, l.Number)
		inARow, trees = append(inARow, l.InARow), append(trees, l.Trees)
	}
	require.Equal(t, []int{1, 0, 1, 2, 3}, inARow)
	require.Equal(t, []int{20, 21, 600, 600, 600}, trees)

	require.True(t, found.Reached)
	require.Equal(t, []int{5, 601}, []int{found.Looks, found.Trees})
	reported, err := compare.Read(compare.Source{Dir: g.dir})
	require.NoError(t, err)
	for k, name := range []string{"ttft.mean", "latency.p50"} {
		got := found.Targets[k]
		require.Equal(t, reported.Figures[name].Interval, &interval.Interval{Low: float64(got.Low), High: float64(got.High)})
		require.Equal(t, reported.Figures[name].Value, got.Value)
		require.Empty(t, got.Why)
	}
	require.Equal(t, "ttft.mean", found.Targets[0].Metric)
	require.InDelta(t, (600+20*1.01+20)/621, float64(found.Targets[0].Value), 0.01)
	require.Equal(t, measure.Number(1), found.Targets[1].Value)
	require.Equal(t, measure.Number(0.2), found.Targets[1].Share)
}

// Every target must be narrow. Requests of the warmup, failed ones and those without the metric are not looked at.
func TestWatchLooksAtTheHeadline(t *testing.T) {
	g := newGrowing(t, runInfo)
	for tree := range 30 {
		g.record(t, tree, 1)
		g.record(t, 1000+tree, 1, func(r *measure.Record) { r.Phase, r.Bucket = measure.WarmupPhase, measure.WarmupBucket })
		g.record(t, 2000+tree, 1, func(r *measure.Record) { r.Error = &measure.Error{Category: "timeout"} })
	}
	w := g.watch(t, "ttft.mean=10%", "prompt_tokens.mean=10%")
	first := <-w.looks
	for range 4 {
		w.look()
	}
	w.stop()
	found := <-w.found
	require.NoError(t, <-w.err)
	require.Empty(t, w.ended)
	require.False(t, found.Reached)
	require.Equal(t, 30, found.Trees)
	require.Zero(t, found.Targets[0].Margin)
	require.Equal(t, "0 trees: an interval needs 20", found.Targets[1].Why)
	require.True(t, found.Targets[1].Value.IsMissing())
	require.Equal(t, "ttft.mean 1.00 s ± 0 % (10 %), prompt_tokens.mean not known (10 %), 30 trees", first.String())
}

func TestWatchOfFewTrees(t *testing.T) {
	g := newGrowing(t, runInfo)
	for tree := range 19 {
		g.record(t, tree, 1)
	}
	w := g.watch(t, "ttft.p95=5%")
	w.tick <- time.Time{}
	w.tick <- time.Time{}
	w.stop()
	found := <-w.found
	require.NoError(t, <-w.err)
	require.Empty(t, w.looks)
	require.Equal(t, []int{0, 19}, []int{found.Looks, found.Trees})
	require.Equal(t, measure.Number(1), found.Targets[0].Value)
	require.Equal(t, "19 trees: an interval needs 20", found.Targets[0].Why)
}

// What cannot be read is an error beside what is known, and ends no run.
func TestWatchOfWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ info, line, want string }{
		"a damaged record": {runInfo, "{\"phase\":\"profiling\",\n", "records.jsonl: line 31"},
		"no preset":        {`{"preset": "nine"}`, "", "nine"},
		"no run":           {`{`, "", "run.json"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrowing(t, c.info)
			for tree := range 30 {
				g.record(t, tree, 1)
			}
			_, err := fmt.Fprint(g.file, c.line)
			require.NoError(t, err)
			w := g.watch(t, "ttft.p95=5%")
			found := <-w.found
			require.ErrorContains(t, <-w.err, c.want)
			require.Contains(t, found.Targets[0].Why, c.want)
			require.False(t, found.Reached)
			require.False(t, found.Targets[0].Within())
			require.Empty(t, w.ended)
		})
	}
}
