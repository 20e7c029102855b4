package aiperf

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/internal/fixtures"
)

// filesIn are the files of a directory in a vector.
type filesIn struct {
	Rows      []json.RawMessage `json:"profile_export.jsonl"`
	Aggregate json.RawMessage   `json:"profile_export_aiperf.json"`
}

// rewrite reads the files with this package and writes what it has read to a new directory. It is an error if one cannot be read.
func (f filesIn) rewrite(t *testing.T) (dir string, err error) {
	dir = t.TempDir()
	var text bytes.Buffer
	for _, line := range f.Rows {
		row, err := ParseRow(line)
		if err != nil {
			return dir, err
		}
		require.NoError(t, row.appendTo(&text))
	}
	put(t, dir, "profile_export.jsonl", text.Bytes())
	put(t, dir, "profile_export_aiperf.json", rewriteAggregate(t, f.Aggregate))
	return dir, nil
}

// rewriteAggregate reads an aggregate with this package and writes what it has read.
func rewriteAggregate(t *testing.T, data []byte) []byte {
	a, err := ReadAggregate(data)
	require.NoError(t, err)
	o := object{}
	for key, value := range map[string]string{"start_time": a.Start, "end_time": a.End} {
		if value != "" {
			o.add(key, json.RawMessage(timeJSON(value)))
		}
	}
	o.addTable(a.Headline)
	text, err := indented(o, "\n")
	require.NoError(t, err)
	return text
}

// timeJSON returns a time as it stood in a file: a number or a text.
func timeJSON(s string) string {
	if json.Valid([]byte(s)) {
		return s
	}
	return `"` + s + `"`
}

func put(t *testing.T, dir, name string, data []byte) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

// requireSame requires of a value, as JSON, every key of want.
func requireSame(t *testing.T, want any, got any) {
	data, err := json.Marshal(got)
	require.NoError(t, err)
	var plain any
	require.NoError(t, json.Unmarshal(data, &plain))
	require.Equal(t, want, plain)
}

// What this package reads and writes again gives the numbers that InferenceX computes from the files of the vector. Rows on which
// InferenceX fails it refuses to read, and has no way to write.
func TestConsumerVectors(t *testing.T) {
	type want struct {
		Raises     string
		Accounting any `json:"request_accounting"`
		Metrics    any `json:"request_metrics"`
	}
	fixtures.EachCase(t, "export_consumer", fixtures.Counts{14, 14, 14}, func(t *testing.T, _ fixtures.Case, in filesIn, want want) {
		dir, err := in.rewrite(t)
		if want.Raises != "" {
			require.ErrorContains(t, err, `is "null": want an object`)
			put(t, dir, "profile_export.jsonl", textOf(t, &Row{}))
			_, err = inferencex.Read(dir, inferencex.DefaultLimit)
			require.NoError(t, err, "an empty row has both objects")
			return
		}
		require.NoError(t, err)
		r, err := inferencex.Read(dir, inferencex.DefaultLimit)
		require.NoError(t, err)
		requireSame(t, want.Accounting, r.Accounting)
		requireSame(t, want.Metrics, r.Metrics)
	})
}

// The gate decides about an aggregate that this package has written as about that of the vector. It has no way to write a block
// that is no object, or a count that is no number.
func TestValidatorVectors(t *testing.T) {
	type in struct {
		Aggregate json.RawMessage `json:"profile_export_aiperf.json"`
		Limit     float64
	}
	type want struct{ Accepted bool }
	fixtures.EachCase(t, "export_validator", fixtures.Counts{10, 10, 10}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		_, err := inferencex.GateAggregate(rewriteAggregate(t, in.Aggregate), in.Limit)
		require.Equal(t, want.Accepted, err == nil)
	})
}

func TestPowerWindowVectors(t *testing.T) {
	fixtures.EachCase(t, "export_power_window", fixtures.Counts{6, 6, 6}, func(t *testing.T, _ fixtures.Case, in filesIn, want any) {
		dir, err := in.rewrite(t)
		require.NoError(t, err)
		p, err := inferencex.Read(dir, inferencex.DefaultLimit)
		require.NoError(t, err)
		requireSame(t, want, p.Power)
	})
}

// Rows of this package are lines that InferenceX counts; a cut line is refused, as there.
func TestLinesVectors(t *testing.T) {
	type in struct{ Text string }
	fixtures.EachCase(t, "export_lines", fixtures.Counts{4, 4, 4}, func(t *testing.T, _ fixtures.Case, in in, want map[string]any) {
		dir, again := t.TempDir(), t.TempDir()
		put(t, dir, "profile_export.jsonl", []byte(in.Text))
		var text bytes.Buffer
		err := EachRow(filepath.Join(dir, "profile_export.jsonl"), func(row *Row) error { return row.appendTo(&text) })
		if want["raises"] != nil {
			require.ErrorContains(t, err, "profile_export.jsonl: line 2: cut off after 40 bytes")
			return
		}
		require.NoError(t, err)
		put(t, again, "profile_export.jsonl", text.Bytes())
		r, err := inferencex.Read(again, inferencex.DefaultLimit)
		require.NoError(t, err)
		requireSame(t, want, r.Accounting)
	})
}
