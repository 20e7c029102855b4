package inferencex

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// files are the files of a directory in a vector.
type files struct {
	Rows      []json.RawMessage `json:"profile_export.jsonl"`
	Aggregate json.RawMessage   `json:"profile_export_aiperf.json"`
}

// write writes the files to a new directory.
func (f files) write(t *testing.T) (dir string) {
	dir = t.TempDir()
	write(t, dir, rowsFile, append(bytes.Join(rawBytes(f.Rows), []byte("\n")), '\n'))
	write(t, dir, aggregateFile, f.Aggregate)
	return dir
}

func rawBytes(list []json.RawMessage) (out [][]byte) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

func write(t *testing.T, dir, name string, data []byte) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

// plain turns a value into what JSON makes of it.
func plain(t *testing.T, v any) (out any) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

// contains requires every key of want in got, with an equal value.
func contains(t *testing.T, want, got any, at string) {
	if object, ok := want.(map[string]any); ok {
		in, ok := got.(map[string]any)
		require.True(t, ok, at)
		assert.Len(t, in, len(object), at)
		for key, v := range object {
			if assert.Contains(t, in, key, at) {
				contains(t, v, in[key], at+"."+key)
			}
		}
		return
	}
	assert.Equal(t, want, got, at)
}

var all = func(n int) fixtures.Counts { return fixtures.Counts{n, n, n} }

// The aggregation gives the numbers that InferenceX gives for the same files, and fails where it fails.
func TestConsumerVectors(t *testing.T) {
	type want struct {
		Raises     string
		Accounting any `json:"request_accounting"`
		Metrics    any `json:"request_metrics"`
	}
	fixtures.EachCase(t, "export_consumer", all(14), func(t *testing.T, _ fixtures.Case, in files, want want) {
		r, err := Read(in.write(t), DefaultLimit)
		if want.Raises != "" {
			require.ErrorContains(t, err, "profile_export.jsonl: line 1: ")
			return
		}
		require.NoError(t, err)
		contains(t, want.Accounting, plain(t, r.Accounting), "request_accounting")
		contains(t, want.Metrics, plain(t, r.Metrics), "request_metrics")
		require.Equal(t, r.Accounting.Total, r.Total)
		require.Equal(t, r.Accounting.Profiled, r.Successful)
	})
}

func TestLinesVectors(t *testing.T) {
	type in struct{ Text string }
	fixtures.EachCase(t, "export_lines", all(4), func(t *testing.T, _ fixtures.Case, in in, want map[string]any) {
		dir := t.TempDir()
		write(t, dir, rowsFile, []byte(in.Text))
		r, err := Read(dir, DefaultLimit)
		if want["raises"] != nil {
			require.ErrorContains(t, err, "profile_export.jsonl: line 2: cut off after 40 bytes: ")
			return
		}
		require.NoError(t, err)
		contains(t, want, plain(t, r.Accounting), "")
	})
}

func TestValidatorVectors(t *testing.T) {
	type in struct {
		Aggregate json.RawMessage `json:"profile_export_aiperf.json"`
		Limit     float64
	}
	type want struct{ Accepted bool }
	fixtures.EachCase(t, "export_validator", all(10), func(t *testing.T, _ fixtures.Case, in in, want want) {
		dir := t.TempDir()
		write(t, dir, aggregateFile, in.Aggregate)
		accepted, no := Gate(dir, in.Limit)
		require.Equal(t, want.Accepted, no == nil)
		require.Equal(t, want.Accepted, accepted != "", "it says why")
	})
}

func TestPowerWindowVectors(t *testing.T) {
	fixtures.EachCase(t, "export_power_window", all(6), func(t *testing.T, _ fixtures.Case, in files, want any) {
		p, err := Read(in.write(t), DefaultLimit)
		require.NoError(t, err)
		contains(t, want, plain(t, p.Power), "")
	})
}

func TestCSVVectors(t *testing.T) {
	type in struct{ Text string }
	fixtures.EachCase(t, "export_csv", all(2), func(t *testing.T, _ fixtures.Case, in in, want any) {
		p := SweepTable([]byte(in.Text))
		contains(t, want, plain(t, p), "")
		crlf := bytes.ReplaceAll([]byte(in.Text), []byte("\n"), []byte("\r\n"))
		require.Equal(t, p, SweepTable(crlf), "the line ends of the release")
	})
}
