package aiperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// all are the names of the files of a run with excluded rows, in the order in which they are written.
var all = []string{
	"profile_export.jsonl", "profile_export_excluded.jsonl", "profile_export_aiperf.json", "profile_export_aiperf.csv",
	"profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv", "profile_export_console.txt", ".aiperf_results_ready.json",
}

var errFull = errors.New("no space left")

// Whatever step on the disk fails, every file is the old one, or the new one, or absent; nothing else is left; and the file that
// says that all are there stands only beside all of them. A second call completes what the first has begun.
func TestWriteFailsAtEveryStep(t *testing.T) {
	run, out := newRun(t, 1, 15), filepath.Join(t.TempDir(), "new", "aiperf_artifacts")
	o := Options{Out: out, Slice: time.Second}
	steps := 0
	_, err := Write(withSteps(func(string, string) error { steps++; return nil }), run, o)
	require.NoError(t, err)
	whole := files(t, out)
	require.Len(t, whole, len(all))
	for fail := 1; fail <= steps; fail++ {
		for _, old := range []map[string]string{nil, {all[0]: "old", all[1]: "old", all[2]: "old", all[7]: "old"}} {
			dir := t.TempDir()
			for name, text := range old {
				put(t, dir, name, []byte(text))
			}
			n := 0
			w, err := Write(withSteps(func(string, string) error {
				if n++; n == fail {
					return errFull
				}
				return nil
			}), open(t, run.Dir), Options{Out: dir, Slice: time.Second})
			require.ErrorIs(t, err, errFull)
			got := files(t, dir)
			for name, text := range got {
				require.True(t, text == whole[name] || text == old[name], "step %d: %s", fail, name)
				require.NotEmpty(t, whole[name], "step %d: %s is left", fail, name)
			}
			for _, name := range w.Files {
				require.True(t, whole[name] == got[name], "step %d: %s", fail, name)
			}
			if got[".aiperf_results_ready.json"] != "" {
				require.True(t, maps.Equal(whole, got), "step %d", fail)
			}
			_, err = Write(t.Context(), open(t, run.Dir), Options{Out: dir, Slice: time.Second})
			require.NoError(t, err)
			require.True(t, maps.Equal(whole, files(t, dir)), "step %d", fail)
		}
	}
}

// Files of an earlier call that this one does not write are removed; those of others stay.
func TestWriteRemovesWhatItReplaces(t *testing.T) {
	run := newRun(t, 2, 30)
	dir := t.TempDir()
	put(t, dir, "records.parquet", []byte("mine"))
	w, err := Write(t.Context(), run, Options{Out: dir, Slice: time.Second})
	require.NoError(t, err)
	require.Equal(t, all, w.Files)
	w, err = Write(t.Context(), open(t, run.Dir), Options{Out: dir})
	require.NoError(t, err)
	want := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == all[4] || name == all[5] })
	require.Equal(t, want, w.Files)
	got := files(t, dir)
	require.Len(t, got, len(want)+1)
	require.Equal(t, "mine", got["records.parquet"])
	require.Equal(t, `{"ready":true,"was_cancelled":false,"partial":false}`+"\n", got[".aiperf_results_ready.json"])
}

// The metrics of servers have the slices of the requests, else of a second, or none under the harness.
func TestServerSlices(t *testing.T) {
	run := newRun(t, 2, 30)
	text := fmt.Sprintf(`{"endpoint":0,"url":"http://a/metrics"}
{"series":0,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{}}
{"endpoint":0,"at":%d,"took":1,"values":[[0,100]]}
{"endpoint":0,"at":%d,"took":1,"values":[[0,150]]}
`, start-second, start+2*second)
	put(t, run.Dir, "server_metrics.jsonl", []byte(text))
	for _, c := range []struct {
		preset string
		slice  time.Duration
		starts []int64
	}{
		{"default", 3 * time.Second, []int64{start, start + 3*second}},
		{"default", 0, []int64{start, start + second, start + 2*second, start + 3*second, start + 4*second}},
		{"agentx-1.0.12", 0, nil},
	} {
		run.Info.Preset = c.preset
		_, err := Write(t.Context(), run, Options{Slice: c.slice})
		require.NoError(t, err)
		var server struct {
			Metrics map[string]struct {
				Series []struct {
					Timeslices []struct {
						Start int64 `json:"start_ns"`
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(files(t, run.Dir)["server_metrics_export.json"]), &server))
		var starts []int64
		for _, one := range server.Metrics["vllm:prompt_tokens"].Series[0].Timeslices {
			starts = append(starts, one.Start)
		}
		require.Equal(t, c.starts, starts, "%s, slices of %v", c.preset, c.slice)
	}
}

// A run with no excluded rows has no file of them.
func TestWriteWithoutExcludedRows(t *testing.T) {
	run := newRun(t, 3, 1)
	put(t, run.Dir, all[1], []byte("old"))
	w, err := Write(t.Context(), run, Options{})
	require.NoError(t, err)
	require.Zero(t, w.Excluded)
	require.NotContains(t, w.Files, all[1])
	require.NoFileExists(t, filepath.Join(run.Dir, all[1]))
}

// A prefix changes all names at once. Parts are written alone.
func TestNamesAndParts(t *testing.T) {
	run := newRun(t, 4, 30)
	dir := t.TempDir()
	w, err := Write(t.Context(), run, Options{Out: dir, Prefix: "run-7", Slice: time.Second})
	require.NoError(t, err)
	require.Equal(t, []string{
		"run-7.jsonl", "run-7_excluded.jsonl", "run-7.json", "run-7.csv", "run-7_timeslices.json", "run-7_timeslices.csv", "run-7_console.txt", ".run-7_results_ready.json",
	}, w.Files)
	for parts, names := range map[[2]bool][]string{{true, false}: all[2:3], {false, true}: all[3:4], {true, true}: all[2:4]} {
		dir := t.TempDir()
		w, err := Write(t.Context(), open(t, run.Dir), Options{Out: dir, JSON: parts[0], CSV: parts[1]})
		require.NoError(t, err)
		require.Equal(t, names, w.Files)
		require.Len(t, files(t, dir), len(names))
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, Options{Prefix: "a b.c", Slice: time.Millisecond}.Validate())
	for want, o := range map[string]Options{
		"slice -1s: want 0 or more":                                                                                       {Slice: -time.Second},
		"slice 1µs: want at least 1ms: every slice has all metrics":                                                       {Slice: time.Microsecond},
		`prefix "a/b": want the beginning of a name, without a directory`:                                                 {Prefix: "a/b"},
		`prefix "..\\x": want the beginning of a name, without a directory`:                                               {Prefix: `..\x`},
		`prefix ".hidden": want a name that does not begin with a dot`:                                                    {Prefix: ".hidden"},
		`prefix "records": the files of a run have this name, and would be overwritten: want another, such as "records1"`: {Prefix: "records"},
		`prefix "Run": the files of a run have this name, and would be overwritten: want another, such as "Run1"`:         {Prefix: "Run"},
		"prefix: want no control characters":                                                                              {Prefix: "a\nb"},
		"prefix: 201 bytes: want at most 200":                                                                             {Prefix: string(make([]byte, 201))},
	} {
		require.EqualError(t, o.Validate(), want)
		_, err := Write(t.Context(), newRun(t, 1, 1), o)
		require.EqualError(t, err, want)
	}
}

// A run that was killed has the rows of its whole lines, no facts, and says so.
func TestWriteOfAKilledRun(t *testing.T) {
	run := newRun(t, 5, 40)
	path := filepath.Join(run.Dir, "records.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-100], 0o600))
	info := run.Info
	info.Facts, info.Phases = nil, nil
	putJSON(t, filepath.Join(run.Dir, "run.json"), info)
	w, err := Write(t.Context(), open(t, run.Dir), Options{})
	require.NoError(t, err)
	require.Equal(t, 39, w.Rows+w.Excluded)
	require.Len(t, w.Missing, 3)
	require.Contains(t, w.Missing[2], "when its phases started is not known")
	require.Contains(t, w.Missing[0], "the run has not ended, or was killed")
	require.Contains(t, w.Missing[1], "records.jsonl: the last line is cut off and left out")
	got := files(t, run.Dir)
	require.Equal(t, `{"ready":true,"was_cancelled":false,"partial":true}`+"\n", got[".aiperf_results_ready.json"])
	aggregate := decode(t, []byte(got["profile_export_aiperf.json"]))
	require.Equal(t, false, aggregate["is_complete"])
	require.Equal(t, "the run has not ended, or was killed", aggregate["incomplete_reason"])
	require.NotContains(t, aggregate, "branch_stats")
	row, err := ParseRow([]byte(got["profile_export.jsonl"][:len(firstLine(got["profile_export.jsonl"]))]))
	require.NoError(t, err)
	require.InDelta(t, float64(start-60*second), float64(row.Metadata.RequestStart), float64(2*second), "the start of the run stands in")
}

func firstLine(s string) string {
	for k := range len(s) {
		if s[k] == '\n' {
			return s[:k]
		}
	}
	return s
}

// Damage in the records is told with the file and the line, and no file is written.
func TestWriteOfDamagedRecords(t *testing.T) {
	run := newRun(t, 6, 5)
	path := filepath.Join(run.Dir, "records.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	line := len(firstLine(string(data)))
	require.NoError(t, os.WriteFile(path, append(data[:line+1:line+1], append([]byte("{x\n"), data[line+1:]...)...), 0o600))
	out := t.TempDir()
	_, err = Write(t.Context(), open(t, run.Dir), Options{Out: out})
	require.ErrorContains(t, err, "records.jsonl: line 2: ")
	require.Empty(t, files(t, out))
}
