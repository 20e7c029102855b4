package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		cachetest.RemoveRoot()
		os.Exit(status)
	}))
}

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

// start is when the profiling phase of test runs starts. A float64 does not hold it.
const start = 1700000000311000123

// infoOf returns the description of a run under a preset whose profiling phase took a number of seconds.
func infoOf(name string, seconds float64) measure.RunInfo {
	return measure.RunInfo{
		Run:    measure.Run{Preset: name, Counting: measure.Counting, Start: time.Unix(0, start).UTC()},
		Phases: []measure.PhaseSpan{{Name: measure.ProfilingPhase, Start: time.Unix(0, start).UTC(), Duration: seconds}},
		Facts:  &measure.Facts{PhaseDuration: seconds},
	}
}

// writeRun writes the files of a run and opens it.
func writeRun(t testing.TB, info measure.RunInfo, records ...measure.Record) *Run {
	t.Helper()
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k, r := range records {
		r.Credit = k
		require.NoError(t, w.Write(&r))
	}
	require.NoError(t, w.Close())
	data, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), data, 0o600))
	run, err := Open(dir)
	require.NoError(t, err)
	return run
}

// compute writes a run and computes its results.
func compute(t testing.TB, info measure.RunInfo, records ...measure.Record) *Results {
	t.Helper()
	res, err := writeRun(t, info, records...).Compute()
	require.NoError(t, err)
	return res
}

// runUnder returns a run with the rules of a preset and no files.
func runUnder(t testing.TB, name string) *Run {
	s, ok := preset.Named(name)
	require.True(t, ok)
	return &Run{Switches: s, rules: measure.RulesOf(&s)}
}

// at returns nanoseconds as an instant of a record.
func at(ns int64) measure.Time { return measure.Time(ns) }

// success returns the record of a request whose content messages came at the given times after it was sent, without their tokens.
func success(sent, end int64, prompt, output int64, contents ...int64) measure.Record {
	r := measure.Record{
		Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Transfer: measure.Transfer{Chunks: len(contents)},
		Numbers: measure.Numbers{
			Due: at(sent), Admitted: at(sent), Sent: at(sent), End: at(end), LastMessage: at(end), Status: 200,
			PromptTokens: measure.Tokens(prompt), OutputTokens: measure.Tokens(output), MaxTokens: output, RecordedISL: prompt,
		},
	}
	for k, c := range contents {
		r.Contents.Add(time.Duration(c), wire.Unknown)
		switch k {
		case 0:
			r.FirstToken, r.FirstOutput = at(sent+c), at(sent+c)
		case 1:
			r.SecondToken = at(sent + c)
		}
		r.LastToken = at(sent + c)
	}
	return r
}

// failure returns the record of a request that failed.
func failure(sent, end int64, category wire.Category) measure.Record {
	return measure.Record{
		Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Numbers: measure.Numbers{Due: at(sent), Admitted: at(sent), Sent: at(sent), End: at(end)},
		Error: &measure.Error{Category: category, Message: "failed"},
	}
}

// value returns a statistic of a table as a number.
func value(t require.TestingT, table Table, tag, stat string) float64 {
	b := table.Find(tag)
	require.NotNil(t, b, tag)
	n, ok := b.Find(stat)
	require.True(t, ok, "%s %s", tag, stat)
	return n.Float64()
}
