package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

// The summary says how many requests each address of a server got, whatever became of them, and nothing without a choice.
//
// Covers T-154.
func TestAddresses(t *testing.T) {
	a := NewAggregate(Rules{})
	second := 1
	for k, of := range []struct {
		url     *int
		address string
	}{{nil, "10.0.0.2"}, {nil, "10.0.0.1"}, {&second, "10.0.0.1"}, {nil, "10.0.0.2"}, {nil, ""}} {
		r := good(k, 1, 0, 0.5, 2, 5)
		r.URL, r.Address = of.url, of.address
		if k == 3 {
			r.Error = &Error{Category: "timeout"}
		}
		a.Add(r)
	}
	warm := good(0, 1, 0, 0.5, 2, 5)
	warm.Phase, warm.Address = WarmupPhase, "10.0.0.3"
	a.Add(warm)
	s := a.Summary(RunInfo{})
	require.Equal(t, []AddressCount{{0, "10.0.0.1", 1}, {0, "10.0.0.2", 2}, {1, "10.0.0.1", 1}}, s.Addresses)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "addresses   requests each: 10.0.0.1 1, 10.0.0.2 2, 10.0.0.1 1\n")
	require.Nil(t, NewAggregate(Rules{}).Summary(RunInfo{}).Addresses)
}

// A line with a value that no run writes is refused: the error names file, line, field and value, and says what to do.
func TestDamagedRecords(t *testing.T) {
	warm := good(0, 1, 0, 0.5, 2, 3)
	warm.Phase, warm.Bucket = WarmupPhase, WarmupBucket
	cancelled := bad(CancelledAtEnd, "cancelled")
	for _, c := range []struct {
		of            *Record
		old, new, say string
	}{
		{warm, `"phase":"warmup"`, `"phase":"bar"`, `phase: "bar": want warmup or profiling`},
		{warm, `"phase":"warmup"`, `"pase":"warmup"`, `phase: "": want`},
		{warm, `"phase":"warmup"`, `"phase":"profiling"`, `bucket: "warmup": want ["profiling" "cooldown"] for this phase and error`},
		{warm, `"bucket":"warmup"`, `"bucket":"cooldown"`, `bucket: "cooldown": want ["warmup"]`},
		{cancelled, `"bucket":"cancelled_at_end"`, `"bucket":"foo"`, `bucket: "foo": want ["cancelled_at_end"]`},
		{cancelled, `"category":"cancelled"`, `"category":"context_overflow"`, `bucket: "cancelled_at_end": want ["context_overflow"]`},
		{warm, `"due":1`, `"due":-1`, "due: -1: want 0 to 1e+09"},
		{warm, `"due":1`, `"due":1e300`, "due: 1e+300: want 0 to 1e+09"},
		{warm, `"due":1`, `"due":1e999`, "due: "},
		{warm, `"prompt_tokens":98`, `"prompt_tokens":-98`, "prompt_tokens: -98: want 0 to 1099511627776"},
		{warm, `"output_tokens":3`, `"output_tokens":9000000000000000000`, "output_tokens: 9000000000000000000: want"},
		{cancelled, `"category":`, `"code":-1,"category":`, "error.code: -1: want"},
		{warm, `"end":3.1`, `"end":0.5`, "end: 0.5: want no instant before last_token, 3"},
		{warm, `"first_token":1.5`, `"first_token":0.5`, "first_token: 0.5: want no instant before sent, 1"},
		{warm, `"last_token":3,`, ``, "first_token: 1.5, last_token: 0: want both or none"},
	} {
		line := string(c.of.AppendJSON(nil))
		require.Contains(t, line, c.old)
		dir := t.TempDir()
		path := filepath.Join(dir, RecordsFile)
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"+strings.Replace(line, c.old, c.new, 1)+"\n"), 0o600))
		in := openRecords(t, dir)
		_, err := in.Next()
		require.NoError(t, err)
		_, err = in.Next()
		require.ErrorContains(t, err, path+": line 2: "+c.say)
		require.ErrorContains(t, err, "restore the file, or cut it off before this line")
	}
}

// Numbers of RunFile that no run writes are refused: the error names file, field and value, and says what to do.
func TestDamagedInfo(t *testing.T) {
	for _, c := range []struct {
		damage func(*RunInfo)
		say    string
	}{
		{func(i *RunInfo) {}, ""},
		{func(i *RunInfo) { i.Facts.PhaseDuration = -1 }, "facts.phase_duration: -1: want 0 to 1e+09"},
		{func(i *RunInfo) { i.Facts.Deadline = 1e300 }, "facts.deadline: 1e+300: want 0 to 1e+09"},
		{func(i *RunInfo) { i.Facts.Load.Requests = -2 }, "facts.load.requests_in_flight: -2: want"},
		{func(i *RunInfo) { i.Facts.Branches.IdleSkipped = -1 }, "facts.branches.idle_skipped: -1: want"},
		{func(i *RunInfo) { i.Facts.Deadlocks = []DeadlockReport{{}, {Last: LastEvent{At: -3}}} }, "facts.wedged[1].last.at: -3: want"},
		{func(i *RunInfo) { i.Facts.PeakRSS = 1 << 60 }, "facts.peak_rss: 1152921504606846976: want 0 to 9007199254740992"},
		{func(i *RunInfo) { i.Lanes = -1 }, "concurrency: -1: want"},
		{func(i *RunInfo) { i.Phases[0].Duration = -4 }, "phases[0].duration: -4: want"},
		{func(i *RunInfo) { i.Phases[0].Name = "main" }, `phases[0].name: "main": want "warmup" or "profiling"`},
		{func(i *RunInfo) { i.Phases[0].Start = time.Time{} }, "phases[0].start: 0001-01-01T00:00:00Z: want a year from 1970 to 2200"},
	} {
		info := RunInfo{
			Lanes:  2,
			Phases: []PhaseSpan{{Name: ProfilingPhase, Start: time.Unix(1e9, 0), Duration: 5}},
			Facts:  &Facts{PhaseDuration: 5, Warmup: &WarmupFacts{Duration: Missing}, Load: &Load{Seconds: 5}},
		}
		c.damage(&info)
		text, err := json.Marshal(info)
		require.NoError(t, err)
		_, err = readInfo(t, text)
		if c.say == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, RunFile+": "+c.say)
		require.ErrorContains(t, err, "restore the file")
	}
}

// What is no JSON, or of another kind than a run writes, is named with its line.
func TestInfoThatCannotBeRead(t *testing.T) {
	_, err := readInfo(t, []byte("{\n \"facts\": {\n  \"cpu\": \"NaN\"\n}}"))
	require.ErrorContains(t, err, RunFile+": line 3: facts.cpu: string is not allowed here; no run writes this: restore the file")
	_, err = readInfo(t, []byte("{\n \"facts\": {\"phase_duration\": 1e999}}"))
	require.ErrorContains(t, err, RunFile+": line 2: facts.phase_duration: number 1e999 is not allowed here")
	_, err = readInfo(t, []byte("{\n \"facts\": {\n  \"cpu\": NaN}}"))
	require.ErrorContains(t, err, RunFile+": line 3: invalid character 'N'")
}

func readInfo(t *testing.T, text []byte) (RunInfo, error) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), text, 0o600))
	return ReadInfo(dir)
}

func TestReadInfoChecksServiceLevels(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"s","of_each":true}`:         "",
		`{"metric":"ttft","statistic":"p95","sign":">=","limit":0.05,"unit":"s","of_each":false}`: "",
		`{"metric":"tftt","statistic":"","sign":"<","limit":2,"unit":"s","of_each":true}`:         `slo[0]: "tftt<2s": no metric "tftt"`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"","of_each":true}`:          `slo[0]: "ttft<2": "2": want a time with its unit`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"s","of_each":false}`:        `slo[0]: "ttft<2s": no such condition`,
		`{"metric":"ttft","statistic":"","sign":"!","limit":2,"unit":"s","of_each":true}`:         `slo[0]: "ttft!2s": want NAME<VALUE`,
		`{"metric":"error-rate","statistic":"","sign":"<","limit":-1,"unit":"","of_each":false}`:  `slo[0]: "error-rate<-1": "-1": want a share`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":1e300,"unit":"s","of_each":true}`:     `slo[0]: `,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"slo":[`+text+`]}`), 0o600))
		_, err := ReadInfo(dir)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}

// A phase has every credit once; two phases may share one.
func TestRecordsOfTwoRunsAreRefused(t *testing.T) {
	records := make([]*Record, 4)
	for k := range records {
		records[k] = good(0, 1, float64(k), 0.5, 2.5, 5)
	}
	records[0].Phase, records[0].Bucket = WarmupPhase, WarmupBucket
	records[2].Credit = 1000 // beyond the words of the set
	reader := openRecords(t, writeRecords(t, records...))
	for range 3 {
		_, err := reader.Next()
		require.NoError(t, err)
	}
	_, err := reader.Next()
	require.ErrorContains(t, err, "records.jsonl: line 4: credit: 0: an earlier line of the phase profiling has it: the file mixes records of two runs")
}

// A scenario judges the whole load: a part says that it is one, and is not valid only for what makes the whole load not valid.
func TestAPartHasNoVerdictOfItsOwn(t *testing.T) {
	a := NewAggregate(Rules{CoverageGate: true})
	a.Add(good(0, 1, 0, 0.5, 2, 5))
	a.Add(bad(ContextOverflow, wire.ContextOverflow)) // one of two
	info := RunInfo{Run: Run{Scenario: &Scenario{Name: "s", MinDuration: 900}}, Facts: &Facts{ExpectedDuration: 900, Arrivals: &ArrivalFacts{
		Backlog: Quarters{1, 2, 10, 100}, SentRate: Quarters{1, 1, 1, 1},
	}}}
	judged := func() (*bool, []string) {
		s := a.Summary(info)
		return s.Valid, s.Reasons
	}
	for _, part := range []*PartInfo{nil, {Number: 0, Of: 1}} {
		info.Part = part
		valid, reasons := judged()
		require.False(t, *valid, "the only part is the whole load")
		require.Equal(t, []string{OverflowRate, InsufficientMetrics, BacklogGrew}, reasons)
	}
	info.Part = &PartInfo{Number: 1, Of: 4}
	valid, reasons := judged()
	require.Nil(t, valid)
	require.Nil(t, reasons)
	require.Nil(t, a.Summary(info).Coverage)

	info.Facts.Cancelled, info.Scenario.Overridden = true, []string{"speed"}
	valid, reasons = judged()
	require.False(t, *valid)
	require.Equal(t, []string{UnsafeOverride, RunCancelled}, reasons)

	var text strings.Builder
	require.NoError(t, a.Summary(info).WriteTable(&text, 100))
	require.True(t, strings.HasPrefix(text.String(), "part        1 of 4, from 0: "), text.String())
	info.Part.Of = 1
	text.Reset()
	require.NoError(t, a.Summary(info).WriteTable(&text, 100))
	require.NotContains(t, text.String(), "part  ")
}

func TestNamesOfDirectoriesOfParts(t *testing.T) {
	for _, p := range [][2]int{{0, 1}, {3, 16}, {65535, 65536}, {99999, 123456}} {
		number, of, ok := ParsePartDir(PartDir(p[0], p[1]))
		require.True(t, ok)
		require.Equal(t, p, [2]int{number, of})
	}
	for _, name := range []string{"part-0-of-4", "part-00000-of-00004x", "xpart-00000-of-00004", "part-0000a-of-00004", "part-00000"} {
		_, _, ok := ParsePartDir(name)
		require.False(t, ok, name)
	}
}

// What the clocks leave open stands behind each figure that crosses parts, never as less than it is.
func TestMarginOfClocks(t *testing.T) {
	p := &Parts{Of: 2, Used: 2, Clocks: Clocks{Uncertainty: 0.001}}
	require.Equal(t, " ± 0.026 %", p.Margin(8, true), "2 ms of 8 s, and of that less 2 ms")
	require.Equal(t, " ± 2.00 ms", p.Margin(8, false))
	require.Equal(t, " ± 0.001 %", p.Margin(1e6, true))
	require.Equal(t, " ± unknown", p.Margin(0.002, true), "the window may be empty")
	require.Equal(t, " ± unknown", p.Margin(Missing, true))
	p.Clocks.Uncertainty = Missing
	require.Equal(t, " ± unknown", p.Margin(8, false))
	p.Used = 1
	require.Empty(t, p.Margin(8, true))
	require.Empty(t, (*Parts)(nil).Margin(8, true))
}

// Every run of a list has a line; a run without results has its concurrency and exit status alone.
func TestListTable(t *testing.T) {
	a := NewAggregate(Rules{})
	a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	a.Add(bad(Profiling, "timeout"))
	a.Add(bad(ContextOverflow, wire.ContextOverflow))
	s := a.Summary(RunInfo{Lanes: 8})
	list := List{Out: "results", Runs: []ListedRun{
		{Concurrency: 8, Dir: "c0008", Headline: s.Figures(), Summary: &s}, {Concurrency: 16, Dir: "c0016", Exit: 1},
	}}
	var b strings.Builder
	require.NoError(t, list.WriteTable(&b, 0))
	require.Equal(t, `concurrency    requests     errors requests/s   output/s   ttft p50   ttft p99    itl p50  exit
8                     3     50.0 %       0.40          2     500 ms    500 ms?     500 ms     0
16                    -          -          -          -          -          -          -     1
errors      concurrency 8: 1 of 2: timeout 50.0 %
overflow    concurrency 8: 1 of 3 overflowed the context
left out    concurrency 8: 1 of 3 requests (33.3 % in no figure)
remarks     concurrency 8: failed, killed, overflow, left_out, short

results     results
`, b.String())
	list = List{Repeat: 2, Runs: []ListedRun{{Concurrency: 8, Repeat: 1, Exit: 1}, {Concurrency: 8, Repeat: 2, Headline: s.Figures(), Summary: &s}}}
	b.Reset()
	require.NoError(t, list.WriteTable(&b, 0))
	require.Equal(t, `concurrency    requests     errors requests/s   output/s   ttft p50   ttft p99    itl p50  exit
8 r01                 -          -          -          -          -          -          -     1
8 r02                 3     50.0 %       0.40          2     500 ms    500 ms?     500 ms     0
errors      concurrency 8 r02: 1 of 2: timeout 50.0 %
overflow    concurrency 8 r02: 1 of 3 overflowed the context
left out    concurrency 8 r02: 1 of 3 requests (33.3 % in no figure)
remarks     concurrency 8 r02: failed, killed, overflow, left_out, short
`, b.String())
	list = List{Runs: []ListedRun{{Concurrency: 8, Summary: &s}}}
	require.Nil(t, list.WithoutSummaries().Runs[0].Summary)
	require.Equal(t, &s, list.Runs[0].Summary)
	require.Equal(t, map[wire.Category]int{"timeout": 1}, s.Figures().Errors)
}
