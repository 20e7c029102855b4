package markdown

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/gate"
	"github.com/agentx/agentx/replay/measure"
)

// hostile is a text that would be a cell, a line, a tag, a link, an emphasis or another direction of writing.
const hostile = "m|<img src=x onerror=alert(1)>\n| a | [b](c) **d** `e` _f_ ~g~ \u2028\u202e@h &lt; #1 \\"

//
func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"gpt-4 (70B), http://h:1/v1": "gpt-4 (70B), http://h:1/v1",
		"a|b\n\u202ec":               "a&#124;b\ufffd\ufffdc",
		"<b>&amp;":                   "&#60;b&#62;&#38;amp;",
	} {
		require.Equal(t, want, escape(text))
	}
	require.NotRegexp(t, "[|<>`*_~\\[\\]\\\\@#\n\u2028\u202e]", strings.NewReplacer("&#", "").Replace(escape(hostile)))
	require.Equal(t, strings.Repeat("x", longest)+"...", escape(strings.Repeat("x", 10_000)))
}

// document returns the document of a run with hostile texts, against itself.
func document(t *testing.T, trees int) *Document {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o777))
	w, err := measure.Create(dir)
	require.NoError(t, err)
	c, err := measure.ParseCondition("ttft<0.15s")
	require.NoError(t, err)
	onRun, err := measure.ParseCondition("ttft.max<0.1s")
	require.NoError(t, err)
	info := measure.RunInfo{Lanes: 4, Facts: &measure.Facts{PhaseDuration: 60, Cores: 1}}
	info.Model, info.URLs, info.Dataset.Key, info.Preset = hostile, []string{hostile}, hostile, "default"
	info.SLO = append(info.SLO, c, onRun)
	all := measure.NewAggregate(measure.Rules{}, info.SLO...)
	for tree := range trees {
		for turn := range 2 {
			at := float64(1 + tree)
			r := measure.Record{
				Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: 2*tree + turn, Tree: tree, Trace: "t", Pass: tree, Turn: turn, Numbers: measure.Numbers{Sent: measure.At(at), Due: measure.At(at), Status: 200,
					FirstToken: measure.At(at + 0.1 + 0.1*float64(turn)), LastToken: measure.At(at + 1), End: measure.At(at + 1), OutputTokens: measure.Tokens(11), PromptTokens: measure.Tokens(100), MaxTokens: 11},
			}
			require.NoError(t, w.Write(&r))
			all.Add(&r)
		}
	}
	failed := measure.Record{Phase: measure.ProfilingPhase, Credit: 2 * trees, Bucket: measure.Profiling, Numbers: measure.Numbers{Sent: measure.At(1), Due: measure.At(1), End: measure.At(2)}, Error: &measure.Error{Category: "http_status", Message: hostile}}
	require.NoError(t, w.Write(&failed))
	all.Add(&failed)
	require.NoError(t, w.Close())
	writeInfo(t, dir, info)
	c2, err := compare.Make(t.Context(), []compare.Source{{Dir: dir}, {Dir: dir}}, compare.Options{})
	require.NoError(t, err)
	s := all.Summary(info)
	return &Document{Run: &c2.Runs[1], Summary: &s, Against: c2, Gates: []gate.Verdict{{Gate: "ttft.p95<" + hostile, Reason: hostile}, {Gate: gate.ErrorRate, Limit: 0.1, Passed: true}}}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	d := document(t, 25)
	require.NoError(t, d.Write(&b))
	text := b.String()
	for _, line := range []string{
		"**Missed ttft.max&#60;100ms (200 ms, 100 % over); 1.96 % of the requests failed: 1 http&#95;status",
		"| TTFT p50 | 150 ms | 150 ms to 150 ms |  |", "| failed | 1 of 51 |  |  |", "| ttft.max&#60;100ms | 200 ms |  | **not met** |",
		"51 requests: 50 completed, 1 http&#95;status (1.96 %). 25 trees, a phase of 60.0 s; rates are over 25.0 s (benchmark).",
		"| error-rate=0.1 | passed |  |",
		"| time to first token | 150 ms<br><sub>150 ms to 150 ms</sub> | 150 ms<br><sub>150 ms to 150 ms</sub> |",
		"Below a figure: its 95 % interval, by resampling 25 trees.",
		"| share of failed requests | 1.96 % |",
		"| ttft&#60;150ms | 25 of 50 requests |  |",
		"| ttft.max&#60;100ms | 200 ms | **not met** |",
		"| ttft.p50 | 150 ms | 150 ms | 0 % | 0 % to 0 % (99.5 %) | less than 1 % |",
		"run (2) against run: less than 1 % in TTFT, ITL, latency, prompt tokens and output tokens (paired: 25 trees that both played). An interval of 99.5 % is one that decides: it is 95 % of all 11 figures that decide together. A gate judges one figure, by its 95 % interval.",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "<img")
	require.NotContains(t, text, "\u202e")
	require.NotContains(t, text, "every number is of this part")
	var part strings.Builder
	d.Summary.Part = &measure.PartInfo{Number: 1, Of: 4}
	require.NoError(t, d.Write(&part))
	require.Contains(t, part.String(), "**part 1 of 4, from 0**: every number is of this part alone\n")
	d.Summary.Part = nil
	columns := 0
	for line := range strings.Lines(text) { // every row of a table has the cells of its header
		switch n := strings.Count(line, "|"); {
		case n == 0:
			columns = 0
		case columns == 0:
			columns = n
		default:
			require.Equal(t, columns, n, line)
		}
	}
	again := strings.Builder{}
	require.NoError(t, d.Write(&again))
	require.Equal(t, text, again.String())
}

func TestWriteWithoutIntervals(t *testing.T) {
	var b strings.Builder
	d := document(t, 3)
	require.NoError(t, d.Write(&b))
	require.Contains(t, b.String(), "not decided: 3 trees: an interval needs 20.\n")
	require.NotContains(t, b.String(), "<sub>")
	require.Contains(t, b.String(), "| ttft.p95 | 200 ms? | 200 ms? |")
	b.Reset()
	d.Summary, d.Against, d.Gates = nil, nil, nil // files of AIPerf
	require.NoError(t, d.Write(&b))
	require.NotContains(t, b.String(), "Against")
}

// A run that was killed is said to be that, and how long it lasted is left out.
func TestWriteOfAKilledRun(t *testing.T) {
	d := document(t, 3)
	d.Summary.PhaseDuration, d.Run.Lacks = measure.Missing, []string{"the run has not ended, or was killed"}
	var b strings.Builder
	require.NoError(t, d.Write(&b))
	require.Contains(t, b.String(), ". 3 trees; rates are over 3.00 s (benchmark).\n")
	d.Summary.Trees, d.Summary.Requests = 1, 1
	b.Reset()
	require.NoError(t, d.Write(&b))
	require.Regexp(t, `\n1 request: .*\. 1 tree; rates are over .*\.\n`, b.String())
	require.Contains(t, b.String(), "\nNote: the run has not ended, or was killed\n")
}

// Conditions on the run alone make no request a good one.
func TestWriteWithoutGoodRequests(t *testing.T) {
	d := document(t, 3)
	write := func() string {
		var b strings.Builder
		require.NoError(t, d.Write(&b))
		return b.String()
	}
	require.Contains(t, write(), "/s good requests, ")
	d.Summary.Goodput.Conditions = d.Summary.Goodput.Conditions[1:]
	require.Contains(t, write(), "### Service levels\n\n| condition |")
}

func writeInfo(t *testing.T, dir string, info measure.RunInfo) {
	t.Helper()
	data, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), data, 0o600))
}
