package aiperf

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/report"
)

// scalar is a block with one number.
func scalar(tag, name, unit string, n report.Number) report.Block {
	return report.Block{Tag: tag, Name: name, Unit: unit, Kind: report.Scalar, Stats: []report.Stat{{Name: "avg", Value: n}}}
}

// csvLine returns the line of the CSV that begins with a name.
func csvLine(t *testing.T, table report.Table, name string) string {
	text, err := csvOf(table, "\n", false)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name+",") {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// A number is written alike in JSON and CSV: integers digit by digit, also those that no float64 holds.
//
// Covers T-61.
func TestNumbersVectors(t *testing.T) {
	type in struct {
		Tag, Unit string
		Value     json.RawMessage
	}
	type want struct{ JSON, CSV string }
	names := map[string]string{
		"request_count": "Request Count", "context_overflow_count": "Context Overflow Count", "error_request_count": "Error Request Count",
	}
	fixtures.EachCaseOf(t, "export_numbers", "T-61", fixtures.Counts{4, 4, 4}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		var n report.Number
		require.NoError(t, json.Unmarshal([]byte(strings.Trim(string(in.Value), `"`)), &n))
		require.True(t, n.IsInt())
		if in.Unit == "" {
			data, err := compact(object{{in.Tag, n}})
			require.NoError(t, err)
			require.Equal(t, `{"`+in.Tag+`":`+want.JSON+`}`, string(data))
			data, err = json.Marshal(Metadata{RequestStart: n.Int64()})
			require.NoError(t, err)
			require.Contains(t, string(data), `"`+in.Tag+`":`+want.JSON+`,`)
			return
		}
		b := scalar(in.Tag, names[in.Tag], in.Unit, n)
		data, err := compact(blockObject(&b))
		require.NoError(t, err)
		require.Equal(t, want.JSON, string(data))
		require.Equal(t, want.CSV, csvLine(t, report.Table{b}, b.Name))
	})
}

// The CSV that this package writes for the numbers of the vector is the text of the vector, and reads back as the same table. No
// table can be written whose names have a comma.
func TestCSVVectors(t *testing.T) {
	type in struct{ Text string }
	fixtures.EachCase(t, "export_csv", fixtures.Counts{2, 2, 2}, func(t *testing.T, c fixtures.Case, in in, want map[string]any) {
		if c.Name == "comma-in-a-row" {
			_, err := csvOf(report.Table{scalar("x", "Latency, end to end", "ms", report.Int(1))}, "\n", false)
			require.EqualError(t, err, "metric \"Latency, end to end (ms)\": want a name without comma, quote or line end")
			return
		}
		table, err := readCSV([]byte(in.Text))
		require.NoError(t, err)
		text, err := csvOf(table, "\n", false)
		require.NoError(t, err)
		require.Equal(t, in.Text, string(text))
		requireSame(t, want, inferencex.SweepTable(text))
	})
}
