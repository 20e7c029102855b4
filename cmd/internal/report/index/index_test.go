package index

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// writeRun writes a run of some requests that began so many hours after start, with a summary if it ended.
func writeRun(t *testing.T, dir string, hours int, ttft float64, ended bool, options ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	info := measure.RunInfo{Run: measure.Run{Start: start.Add(time.Duration(hours) * time.Hour), Model: "m", Preset: "default"}, Lanes: 8}
	for k := 0; k < len(options); k += 2 {
		value, err := json.Marshal(options[k+1])
		require.NoError(t, err)
		info.Options = append(info.Options, measure.Option{Name: options[k], Value: value})
	}
	if ended {
		end := info.Start.Add(time.Minute)
		info.End, info.Facts = &end, &measure.Facts{PhaseDuration: 60}
	}
	level, err := measure.ParseCondition("ttft.p95<2s")
	require.NoError(t, err)
	info.SLO = append(info.SLO, level)
	rules, err := measure.RulesOfRun(info.Run)
	require.NoError(t, err)
	all := measure.NewAggregate(rules, info.SLO...)
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range 30 {
		at := func(after float64) measure.Time { return measure.At(float64(k) + after) }
		r := measure.Record{
			Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Tree: k, Credit: k, Trace: "t", Session: "t", SourceKind: "weka_main", RequestID: "r", CorrelationID: "c", RootID: "c",
			Numbers: measure.Numbers{Due: at(0), Admitted: at(0), Sent: at(0), FirstToken: at(ttft), LastToken: at(ttft + 1), LastMessage: at(ttft + 1), End: at(ttft + 1), Status: 200, MaxTokens: 10, PromptTokens: measure.Tokens(100), OutputTokens: measure.Tokens(10)},
		}
		require.NoError(t, w.Write(&r))
		all.Add(&r)
	}
	require.NoError(t, w.Close())
	write := func(name string, v any) {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	write(measure.RunFile, info)
	if ended {
		write(summaryFile, all.Summary(info))
	}
}

// writeRuns writes a directory of runs: one in it, a sweep below, one that has not ended, one whose summary is damaged.
func writeRuns(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "results")
	writeRun(t, filepath.Join(root, "first"), 0, 0.25, true, "label", "before", "engine", "vllm", "gpus", "4")
	writeRun(t, filepath.Join(root, "sweep", "c0004"), 2, 0.5, true)
	writeRun(t, filepath.Join(root, "sweep", "c0016"), 3, 5, true)
	writeRun(t, filepath.Join(root, "open"), 4, 0.25, false)
	writeRun(t, filepath.Join(root, "it's damaged"), 1, 0.25, true)
	require.NoError(t, os.WriteFile(filepath.Join(root, "it's damaged", summaryFile), []byte("{"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(root, "first", "report.html"), nil, 0o666))
	return root
}

// An index has every run below a directory once, the latest first, with the figures of its summary.
//
//
func TestRead(t *testing.T) {
	root := writeRuns(t)
	list, err := Read(root)
	require.NoError(t, err)
	var rows []string
	for _, r := range list {
		rows = append(rows, strings.Join([]string{r.Dir, r.Label, r.Start, string(r.State), r.Served}, "|"))
	}
	require.Equal(t, []string{
		"open||2026-01-02T07:04:05Z|no end|", "sweep/c0016||2026-01-02T06:04:05Z|ended|", "sweep/c0004||2026-01-02T05:04:05Z|ended|",
		"it's damaged||2026-01-02T04:04:05Z|ended|", "first|before|2026-01-02T03:04:05Z|ended|vllm, 4 GPUs",
	}, rows)
	require.InDelta(t, 5, float64(list[1].Figures["ttft.p95"]), 1e-9)
	require.InDelta(t, 0.5, float64(list[2].Figures["ttft.p95"]), 1e-9)
	require.InDelta(t, float64(list[4].Figures["output_token_rate"])/4, float64(list[4].Figures["per_gpu"]), 1e-9)
	require.True(t, list[2].Figures["per_gpu"].IsMissing(), "its GPUs are not known")
	require.True(t, list[1].Doubt, "it misses its level")
	require.Regexp(t, `^Missed ttft.p95<2s \(5.00 s`, list[1].Verdict)
	require.Regexp(t, `^The run was killed, or is not over: its figures are of what it had written; met ttft.p95<2s`, list[0].Verdict)
	require.InDelta(t, 0.25, float64(list[0].Figures["ttft.p95"]), 1e-9, "of its records")
	require.True(t, list[0].Doubt)
	require.Equal(t, "Its summary.json cannot be read: agentx report makes it again.", list[3].Verdict)

	one, err := Read(filepath.Join(root, "first"))
	require.NoError(t, err)
	require.Equal(t, ".", one[0].Dir)
}

// The page sorts, filters and quotes; equal directories give equal bytes.
//
//
func TestPage(t *testing.T) {
	root := writeRuns(t)
	for _, name := range []string{listFile, comparisonFile} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "sweep", name), nil, 0o666))
	}
	text, err := HTML(root, root)
	require.NoError(t, err)
	again, err := HTML(root, root)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	e := pagetest.NewEngine(t, string(text))
	require.Regexp(t, `<tr><td>before</td><td>2026-01-02T03:04:05Z</td><td>m</td><td>8</td><td>9.92/s</td>`, string(text), "also without JavaScript")
	e.Document() // which fails where the page cannot be drawn
	require.Equal(t, "./first/report.html", e.Eval("page.head.runs[4].page"))
	require.Equal(t, ",./sweep/compare.html,./sweep/compare.html,,", e.Eval("page.head.runs.map(({ comparison }) => comparison).join()"))
	require.Equal(t, "false,true,false,false,false", e.Eval("page.head.runs.map(({ missed }) => missed).join()"), "others have remarks alone")
	order := `sortedRuns(page.head.runs, indexColumns(page.head).find(({ title }) => title === a).of, b).map(({ dir }) => dir).join()`
	require.Equal(t, "open,first,sweep/c0004,sweep/c0016,it's damaged", e.Eval(order, "ttft p95", false), "what is not known comes last")
	require.Equal(t, "sweep/c0016,sweep/c0004,first,open,it's damaged", e.Eval(order, "ttft p95", true))
	require.Equal(t, `'it'\''s damaged'`, e.Eval("quoteArgument(a)", "it's damaged"))
	require.Equal(t, "'./-x'", e.Eval("quoteArgument(a)", "-x"))
	require.Equal(t, "sweep/c0004", e.Eval("quoteArgument(a)", "sweep/c0004"))

	_, err = HTML(t.TempDir(), root)
	require.ErrorContains(t, err, "no run is in or below it")
}

// A server names runs by numbers, which stay when runs are added, and answers about no other.
//
//
func TestServer(t *testing.T) {
	root, now := writeRuns(t), time.Now()
	s := NewServer(root, func() time.Time { return now })
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	status, _ := get("/runs/1")
	require.Equal(t, http.StatusNotFound, status, "nothing was looked at yet")
	status, text := get("/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"served":true`)
	require.Contains(t, text, `"number":1,"label":"","dir":"open","page":"runs/1"`)
	require.Contains(t, text, `"state":"playing"`)
	writeRun(t, filepath.Join(root, "new"), 9, 0.25, true)
	_, text = get("/data")
	require.NotContains(t, text, `"dir":"new"`, "the directory is read once a second")
	now = now.Add(20 * time.Second)
	_, text = get("/data")
	require.Contains(t, text, `"number":6,"label":"","dir":"new"`)
	require.Contains(t, text, `"number":1,"label":"","dir":"open"`)
	require.Contains(t, text, `"state":"killed"`)
	require.NotContains(t, text, `"comparison"`)
	require.NoError(t, os.WriteFile(filepath.Join(root, "sweep", listFile), nil, 0o666))
	changed := func(change func(path string, old []byte)) string {
		path := filepath.Join(root, "sweep", "c0004", summaryFile)
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		before, err := os.Stat(path)
		require.NoError(t, err)
		change(path, bytes.Replace(old, []byte(`"model":"m"`), []byte(`"model":"M"`), 1))
		if now = now.Add(time.Minute); bytes.Contains(old, []byte(`"model":"m"`)) {
			require.NoError(t, os.Chtimes(path, before.ModTime(), before.ModTime()))
		}
		_, text = get("/data")
		return text
	}
	write := func(path string, data []byte) { require.NoError(t, os.WriteFile(path, data, 0o666)) }
	require.NotContains(t, changed(write), `"model":"M"`, "a file of the same size and time is not read again")
	require.Contains(t, text, `"comparison":"compare?runs=2,3"`)
	require.Contains(t, changed(func(path string, data []byte) { write(path, append(data, ' ')) }), `"model":"M"`)

	status, text = get("/runs/2")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"kind":"run"`)
	status, text = get("/compare?runs=3,2")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"kind":"compare"`)
	require.Contains(t, text, `"page":"runs/3"`)
	for path, want := range map[string]int{
		"/runs/0": 404, "/runs/7": 404, "/runs/x": 404, "/runs/..%2f1": 404, "/runs/1/": 404, "/first/summary.json": 404, "/compare?runs=1": 400, "/compare?runs=1,99": 404,
		"/compare?runs=1,2,3,4,5,6,1,2,3,4,5": 400, "/compare": 400,
	} {
		status, _ := get(path)
		require.Equal(t, want, status, path)
	}
}
