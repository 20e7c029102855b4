package parquet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	lib "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// start is when the profiling phase of the test runs starts. A float64 does not hold it.
const start = 1700000000311000123

// writeRun writes a run of some records, of which every second failed and every third has everything optional.
func writeRun(t *testing.T, n int) *report.Run {
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range n {
		r := measure.Record{Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: k, Trace: "t", Session: "t", Numbers: measure.Numbers{Sent: measure.At(1.000000001 + float64(k)), End: measure.At(2 + float64(k))}}
		if k%2 == 1 {
			r.Error = &measure.Error{Category: "http_status", Code: 500, Message: fmt.Sprint("error ", k)}
		}
		if k%3 == 0 {
			tokens, url := int64(k), 1
			r.PromptTokens, r.URL, r.Parent, r.Resent, r.Chunks = measure.Tokens(tokens), &url, "p", true, 2
			r.Contents.Add(5*time.Millisecond, 1)
			r.Contents.Add(7*time.Millisecond, 1)
		}
		require.NoError(t, w.Write(&r))
	}
	require.NoError(t, w.Close())
	data, err := json.Marshal(measure.RunInfo{Phases: []measure.PhaseSpan{{Name: measure.ProfilingPhase, Start: time.Unix(0, start).UTC()}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.json"), data, 0o600))
	run, err := report.Open(dir)
	require.NoError(t, err)
	return run
}

// readRows reads a file as maps by the names of columns; null is nil.
func readRows(t *testing.T, path string) (rows []map[string]any) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	r := lib.NewReader(file)
	defer r.Close()
	for range r.NumRows() {
		row := map[string]any{}
		require.NoError(t, r.Read(&row))
		rows = append(rows, row)
	}
	return rows
}

// The table has a row for each record and a column for each key of records.jsonl, with the same values; what a record leaves out is
// null.
func TestColumnsAreTheKeysOfRecords(t *testing.T) {
	run := writeRun(t, 40)
	path := filepath.Join(t.TempDir(), File)
	require.NoError(t, Write(t.Context(), run, path))
	rows := readRows(t, path)
	require.Len(t, rows, 40)
	requireNullCounts(t, path, rows)
	lines, err := os.ReadFile(filepath.Join(run.Dir, measure.RecordsFile))
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(lines))
	for k, row := range rows {
		var record map[string]any
		require.NoError(t, d.Decode(&record))
		if failed, ok := record["error"].(map[string]any); ok {
			for key, v := range failed {
				record["error_"+key] = v
			}
			delete(record, "error")
		}
		require.EqualValues(t, start+1e9+1+int64(k)*1e9, row[sentColumn])
		for key, got := range row {
			if key == sentColumn || key == contentsColumn {
				continue
			}
			want, has := record[key]
			if !has {
				require.Nil(t, got, key)
				continue
			}
			if n, ok := got.(int64); ok {
				got = float64(n)
			}
			if text, ok := got.([]byte); ok {
				got = string(text)
			}
			require.Equal(t, want, got, key)
			delete(record, key)
		}
		require.Empty(t, record, "keys without a column")
		require.Len(t, row[contentsColumn], map[bool]int{true: 2}[k%3 == 0])
	}
}

// DuckDB counts the values of a column by the nulls that the file states.
func requireNullCounts(t *testing.T, path string, rows []map[string]any) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	f, err := lib.OpenFile(file, info.Size())
	require.NoError(t, err)
	for _, c := range f.Metadata().RowGroups[0].Columns {
		nulls, name := int64(0), c.MetaData.PathInSchema[0]
		for _, row := range rows {
			if list, ok := row[name].([]any); row[name] == nil || ok && len(list) == 0 {
				nulls++
			}
		}
		require.Equal(t, nulls, c.MetaData.Statistics.NullCount, name)
	}
}

// The file is whole or absent whatever step fails, and damage in the records is told with the line.
func TestWriteFails(t *testing.T) {
	run := writeRun(t, 3)
	for fail := 1; fail <= 3; fail++ {
		dir, n := t.TempDir(), 0
		full := errors.New("no space left")
		err := Write(durable.WithOptions(context.Background(), durable.Options{Step: func(string, string) error {
			if n++; n == fail {
				return full
			}
			return nil
		}}), run, filepath.Join(dir, File))
		require.ErrorIs(t, err, full)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	records := filepath.Join(run.Dir, measure.RecordsFile)
	text, err := os.ReadFile(records)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(records, append(text, "{x\n"...), 0o600))
	require.ErrorContains(t, Write(t.Context(), run, filepath.Join(t.TempDir(), File)), "records.jsonl: line 4: ")
	require.NoError(t, os.Remove(filepath.Join(run.Dir, measure.RecordsFile)))
	require.ErrorIs(t, Write(t.Context(), run, filepath.Join(t.TempDir(), File)), fs.ErrNotExist)
}

// No two columns have one name, and every field of a record that is written has one.
func TestColumnNames(t *testing.T) {
	seen := map[string]bool{sentColumn: true, contentsColumn: true}
	for _, c := range columns() {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
	require.Equal(t, rowType().NumField(), len(seen))
}
