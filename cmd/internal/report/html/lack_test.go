package html

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// drawn computes everything that the page shows without a document, and returns the words of its verdict and its numbers.
func drawn(t *testing.T, html string) string {
	e := pagetest.NewEngine(t, html)
	return e.Eval(`(() => {
		const said = [page.head.result.conclusion, ...page.head.result.figures.map((figure) => [figure.title, ...tileTexts(figure)].join(" ")), briefOf(page.head), ...verdictsOf(page.head).map((v) => v.text), ...page.head.notes, ...factsOf(page.head).map((f) => f.join(" "))];
		const requests = new Requests(page);
		if (!requests.length) return said.join("\n");
		const range = new TimeRange(requests.time[0], pageEnd(page.head));
		for (const select of [() => {}, () => range.set(range.whole.from, (range.whole.from + range.whole.to) / 2)]) {
			select();
			said.push(describeRange(page, requests, range), sumsText(page, requests, range), sureText(page.head, range));
			for (const { metric, stat } of numbersOf(page, requests, range)) said.push(metric.name + " " + stat.n + " " + formatValue(stat.p50, metric.unit));
			const windows = cutWindows(range.from, range.to);
			windowPercentiles(windows, requests.time, requests.metrics.ttft, [50], requests.measured);
			hitsByTurn(requests, ...rowsWithin(range, requests.time));
		}
		for (let i = 0; i < requests.length; i++) describeRequest(requests, i);
		return said.join("\n");
	})()`).(string)
}

// runOf writes a run of the records that are kept of a sample, and returns the words of its page.
func runOf(t *testing.T, n int, change func(r *measure.Record) bool) string {
	s := newSample(n)
	var kept []measure.Record
	for _, r := range s.records {
		if change(&r) {
			kept = append(kept, r)
		}
	}
	s.records = kept
	dir, _ := s.write(t)
	html, _ := pageOf(t, dir)
	return drawn(t, html)
}

//
func TestPagesOfRunsThatLackSomething(t *testing.T) {
	require.Contains(t, runOf(t, 0, nil), "No request was sent.")
	one := 0
	text := runOf(t, 200, func(r *measure.Record) bool {
		if r.Phase == measure.ProfilingPhase && r.Bucket == measure.Profiling && r.Error == nil {
			one++
		}
		return one == 1 && r.Phase == measure.ProfilingPhase && r.Bucket == measure.Profiling && r.Error == nil
	})
	require.Contains(t, text, "1 request started here, 1 of them measured")
	require.Contains(t, text, "1 request (")
	require.Contains(t, text, "There are no intervals: 1 tree: an interval needs 20")

	text = runOf(t, 400, func(r *measure.Record) bool { return r.Error != nil })
	require.Contains(t, text, "Of 8 requests sent: 0 measured, 3 failed, 2 cut off at the end, 3 did not fit the context.")
	require.Contains(t, text, "ttft 0 –")

	text = runOf(t, 200, func(r *measure.Record) bool {
		r.PromptTokens, r.CachedTokens, r.OutputTokens, r.ReasoningTokens, r.FirstChunkTokens = 0, 0, 0, 0, 0
		return true
	})
	require.Contains(t, text, "itl 0 –")
	require.Contains(t, text, "– prompt tokens")

	text = runOf(t, 200, func(r *measure.Record) bool { return r.Phase == measure.WarmupPhase })
	require.Contains(t, text, "0 of them measured")
}

//
func TestPagesOfRunsThatWereCut(t *testing.T) {
	dir, _ := newSample(300).write(t)
	path := filepath.Join(dir, measure.RecordsFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)/2], 0o600))
	html, _ := pageOf(t, dir)
	require.Contains(t, drawn(t, html), "the page counts the records")
	require.NoError(t, os.WriteFile(filepath.Join(dir, scrape.File), []byte("{}\nnone\n"), 0o600))
	html, _ = pageOf(t, dir)
	require.Contains(t, drawn(t, html), "What the servers said of themselves is left out: "+filepath.Join(dir, scrape.File)+": line ")
	require.NoError(t, os.Remove(filepath.Join(dir, summaryFile)))
	info := newSample(300).info()
	info.Facts, info.Phases = nil, nil
	writeJSON(t, filepath.Join(dir, measure.RunFile), info)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.LanesFile), []byte(`{"lane":1,"t_star":null,"finished":null}`+"\n"), 0o600))
	html, _ = pageOf(t, dir)
	text := drawn(t, html)
	require.Contains(t, text, "records.jsonl: the last line is cut off and left out")
	require.Contains(t, text, "the run has not ended, or was killed")
	require.Contains(t, text, "When profiling began is not known")
	require.Contains(t, text, "that have no line in it, the first of them lane 0")

	require.NoError(t, os.Remove(filepath.Join(dir, measure.RunFile)))
	html, _ = pageOf(t, dir)
	require.Contains(t, drawn(t, html), "what was run is not known")
}

// A summary that is of other records, and a page of one that counts too many of them.
func TestRecordsThatAreNotOneRun(t *testing.T) {
	refused := func(change func(s *sample)) error {
		s := newSample(100)
		change(s)
		dir, _ := s.write(t)
		run, err := report.Open(dir)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), File)
		err = Write(t.Context(), run, path)
		require.NoFileExists(t, path)
		return err
	}
	require.ErrorContains(t, refused(func(s *sample) { s.records[50].Credit = s.records[49].Credit }), "records.jsonl: line 51: credit: ")
	require.ErrorContains(t, refused(func(s *sample) { s.records[50].Lane = 99 }), "records.jsonl: line 51: tree: ")
	err := refused(func(s *sample) { s.records[50].RootID = "other" })
	require.ErrorContains(t, err, "line 51: tree: ")
	require.ErrorContains(t, err, "the file mixes records of two runs")
	require.ErrorContains(t, refused(func(s *sample) { s.records[50].End = measure.At(2e8) }), "line 51: an instant lies 200000000 s into its phase")
	require.ErrorContains(t, refused(func(s *sample) { s.records[50].Bucket = "b" }), "line 51: bucket: ")

	run, err := report.Open(t.TempDir())
	require.NoError(t, err)
	require.ErrorContains(t, Write(t.Context(), run, filepath.Join(t.TempDir(), File)), "not the results of a run")
}

// What servers, traces and file names say is text.
func TestTextsOfTheRunAreText(t *testing.T) {
	dir, _ := newSample(300).write(t)
	html, _ := pageOf(t, dir)
	require.NotContains(t, html, "<b>")
	require.NotContains(t, html, "<script>alert")
	require.Equal(t, strings.Count(html, "<script"), strings.Count(html, "</script>"))
	require.Contains(t, drawn(t, html), "model </title><script>alert(1)</script>")
}
