package html

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// start is when the profiling phase of the test runs starts, warmupTime after the warmup.
const (
	start      = 1700000000311000123
	warmupTime = 3 * time.Second
)

// sample makes records of a run: trees of some sessions, with everything that a record may have or lack.
type sample struct {
	draw    *rand.Rand
	records []measure.Record
	credits [2]int
}

// newSample returns about so many records, the same ones each time.
func newSample(n int) *sample {
	s := &sample{draw: rand.New(rand.NewPCG(1, 2))}
	free := make([]time.Duration, 16) // by lane
	for tree := 0; len(s.records) < n; tree++ {
		lane := tree % len(free)
		free[lane] = s.tree(tree, lane, free[lane])
	}
	s.records = s.records[:n]
	return s
}

// tree adds the records of a tree, and returns when it was over.
func (s *sample) tree(tree, lane int, from time.Duration) (end time.Duration) {
	trace := fmt.Sprintf("trace-%03d", tree%40)
	end = from
	for k := range 1 + s.draw.IntN(3) {
		name, parent, depth := trace, "", 0
		if k > 0 {
			name, parent, depth = fmt.Sprintf("%s::sa:agent-%d", trace, k), trace, 1
		}
		at := from + s.between(0, 50*time.Millisecond)
		for turn := range 3 + s.draw.IntN(8) {
			r := measure.Record{
				Lane: lane, Tree: tree, Pass: tree / 40, Trace: trace, Session: name, Parent: parent, Depth: depth, Turn: turn, SourceOuter: turn, SourceKind: "weka_main",
				RootID: fmt.Sprint("root-", tree), CorrelationID: fmt.Sprint(tree, name),
			}
			at = s.request(&r, at)
			s.records = append(s.records, r)
			at += s.between(0, 300*time.Millisecond)
		}
		end = max(end, at)
	}
	return end
}

func (s *sample) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.draw.Int64N(int64(to-from)+1))
}

// request fills a record in that is due at an instant of the run, and returns when it ended.
func (s *sample) request(r *measure.Record, due time.Duration) (end time.Duration) {
	phase, clock := 1, due-warmupTime
	r.Phase, r.Bucket = measure.ProfilingPhase, measure.Profiling
	if due < warmupTime {
		phase, clock = 0, due
		r.Phase, r.Bucket = measure.WarmupPhase, measure.WarmupBucket
	}
	r.Credit = s.credits[phase]
	s.credits[phase]++
	sent := clock + s.between(0, 3*time.Millisecond)
	r.Due, r.Admitted, r.Sent = measure.Since(clock), measure.Since(clock), measure.Since(sent)
	if r.Turn == 0 && r.Depth == 0 && clock > time.Millisecond {
		queued := s.between(1, time.Millisecond)
		r.Due, r.Queued, r.OpenTrees = measure.Since(clock-queued), measure.Since(queued), 1
	}
	first := sent + s.between(5*time.Millisecond, 400*time.Millisecond)
	last := first + s.between(0, 2*time.Second)
	over := last + s.between(0, 60*time.Microsecond)
	r.RecordedISL = 500 + s.draw.Int64N(60000)
	r.RecordedBlocks, r.MaxTokens = r.RecordedISL/64, 1+s.draw.Int64N(400)
	r.RecordedHits = s.draw.Int64N(r.RecordedBlocks + 2) // also more than there are
	kind := s.draw.IntN(20)
	if kind == 0 {
		categories := []wire.Category{wire.Timeout, wire.HTTPStatus, wire.Cancelled, wire.ContextOverflow}
		r.Error = &measure.Error{Category: categories[s.draw.IntN(len(categories))], Code: 503, Message: fmt.Sprint("</script><b>\u2028 ", s.draw.IntN(3))}
		r.End = measure.Since(over)
		if phase == 1 {
			r.Bucket = measure.Cutoff{}.Bucket(over, r.Error.Category)
		}
		return over + due - clock
	}
	if kind == 1 && phase == 1 {
		r.Bucket = measure.Cooldown
	}
	r.FirstToken, r.LastToken, r.End, r.Chunks = measure.Since(first), measure.Since(last), measure.Since(over), 3
	if kind == 2 {
		return over + due - clock // without usage
	}
	prompt, output := r.RecordedISL+s.draw.Int64N(100), r.MaxTokens-s.draw.Int64N(2)
	r.PromptTokens, r.OutputTokens = measure.Tokens(prompt), measure.Tokens(output)
	if kind > 3 {
		cached := s.draw.Int64N(prompt)
		r.CachedTokens = measure.Tokens(cached)
	}
	if kind > 16 {
		reasoning, tokens := s.draw.Int64N(50), s.draw.Int64N(4)
		r.ReasoningTokens, r.FirstChunkTokens = measure.Tokens(reasoning), measure.Tokens(tokens)
	}
	return over + due - clock
}

// info describes the run.
func (s *sample) info() measure.RunInfo {
	begun := time.Unix(0, start).UTC()
	i := measure.RunInfo{
		Run: measure.Run{Preset: "default", Start: begun.Add(-warmupTime), Model: "</title><script>alert(1)</script>"}, Lanes: 16,
		Phases: []measure.PhaseSpan{
			{Name: measure.WarmupPhase, Start: begun.Add(-warmupTime), Duration: 2}, {Name: measure.ProfilingPhase, Start: begun, Offset: warmupTime.Seconds(), Duration: 600},
		},
		Facts: &measure.Facts{PhaseDuration: 600},
	}
	if s.credits[0] == 0 {
		i.Phases = i.Phases[1:]
		i.Phases[0].Offset = 0
	}
	return i
}

// write writes the files of the run.
func (s *sample) write(t testing.TB) (dir string, summary measure.Summary) {
	dir = t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	a, info := measure.NewAggregate(measure.Rules{}), s.info()
	info.Out, info.Records = dir, measure.RecordsFile
	for k := range s.records {
		require.NoError(t, w.Write(&s.records[k]))
		a.Add(&s.records[k])
	}
	require.NoError(t, w.Close())
	summary = a.Summary(info)
	writeJSON(t, filepath.Join(dir, measure.RunFile), info)
	writeJSON(t, filepath.Join(dir, summaryFile), summary)
	return dir, summary
}

func writeJSON(t testing.TB, path string, v any) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// pageOf writes the page of the run in a directory, and returns it.
func pageOf(t testing.TB, dir string) (string, *report.Run) {
	run, err := report.Open(dir)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), File)
	require.NoError(t, Write(t.Context(), run, path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text), run
}
