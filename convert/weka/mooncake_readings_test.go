package weka

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// with returns the default rules with some set: NAME, VALUE and so on.
func with(t *testing.T, set ...string) Rules {
	r := Default()
	for k := 0; k < len(set); k += 2 {
		require.NoError(t, r.Set(set[k], set[k+1]))
	}
	return r
}

// oneRow returns a row with a timestamp.
func oneRow(timestamp string) string {
	return `{"timestamp":` + timestamp + `,"input_length":600,"output_length":4,"hash_ids":[1,2]}`
}

// The first timestamp of a file tells its unit where it is a date since 1970. One in another unit than milliseconds is refused, unless the
// unit was asked for.
//
// Covers D22.
func TestUnitOfMooncakeTimestamps(t *testing.T) {
	for _, c := range []struct{ timestamp, unit, name string }{
		{"1753780607.55", "s", "seconds"}, {"1e9", "s", "seconds"}, {"2099999999", "s", "seconds"},
		{"1753780607550000", "us", "microseconds"}, {"1000000000000000", "us", "microseconds"},
		{"1753780607550000000", "ns", "nanoseconds"},
	} {
		var e *Error
		require.ErrorAs(t, NewMooncake(0, Default()).Add([]byte(oneRow(c.timestamp))), &e)
		assert.Equal(t, Unclear, e.Kind)
		assert.Equal(t, "timestamp: "+c.timestamp+", the first of the file, looks like "+c.name+" since 1970: timestamps of Mooncake rows are milliseconds", e.Error())
		assert.Contains(t, e.Hint, "--set timestamps="+c.unit+" ")
		starts := recordedStarts(t, with(t, "timestamps", c.unit), oneRow(c.timestamp))
		assert.InDelta(t, 1.5e12, starts["row-000001"], 0.6e12, "milliseconds since 1970")
	}
	for _, timestamp := range []string{"0", "1753780607550", "1e12", "999999999", "2.1e9", "5000"} {
		assert.NoError(t, NewMooncake(0, Default()).Add([]byte(oneRow(timestamp))), timestamp)
	}
	assert.NoError(t, NewMooncake(0, AIPerf()).Add([]byte(`{"timestamp":1753780607.55,"input_length":64,"output_length":4,"hash_ids":[1]}`)), "AIPerf has milliseconds alone")
	assert.Equal(t, map[string]float64{"row-000001": 0, "row-000002": 1753780607}, recordedStarts(t, Default(), oneRow("0"), oneRow("1753780607")), "the first decides")
	assert.Equal(t, map[string]float64{"row-000001": 1753780607.5}, recordedStarts(t, with(t, "timestamps", "ms"), oneRow("1753780607.5")))
}

// A delay has the unit of the timestamps, delay_ms its own.
func TestUnitOfMooncakeDelays(t *testing.T) {
	for field, want := range map[string]float64{`"delay":2`: 3, `"delay_ms":2`: 1.002} {
		m := NewMooncake(0, with(t, "timestamps", "s"))
		require.NoError(t, m.Add([]byte(`{"timestamp":7,"output_length":1,"hash_ids":[0]}`)))
		require.NoError(t, m.Add([]byte(`{"timestamp":8,"output_length":1,"hash_ids":[0],"session_id":"s"}`)))
		require.NoError(t, m.Add([]byte(`{`+field+`,"output_length":1,"hash_ids":[0],"session_id":"s"}`)))
		assert.InDelta(t, want, m.Traces()[1].Entries[1].T, 1e-9, field)
	}
}

// Fractions alone are a warning, unless the unit was asked for.
func TestFractionsOfMooncakeTimestamps(t *testing.T) {
	odd := func(r Rules) []mmapcache.Oddity {
		m := NewMooncake(0, r)
		require.NoError(t, m.Add([]byte(oneRow("12.5"))))
		_, notes, err := MakePlan(m.Traces()[0], r)
		require.NoError(t, err)
		return notes.Oddities
	}
	assert.Equal(t, []mmapcache.Oddity{{Kind: oddFraction, Count: 1, First: "requests[0]: timestamp 12.5"}}, odd(Default()))
	assert.Empty(t, odd(with(t, "timestamps", "ms")))
}

// Rows of formats that look like Mooncake's, and mean something else, are refused by name.
func TestFormatsLikeMooncake(t *testing.T) {
	for row, name := range map[string]string{
		`{"chat_id":55,"parent_chat_id":-1,"timestamp":61.114,"input_length":49,"output_length":12,"type":"text","turn":1,"hash_ids":[1089,1090,1091,6326]}`: "Bailian",
	} {
		var e *Error
		require.True(t, errors.As(NewMooncake(0, Default()).Add([]byte(row)), &e), row)
		assert.Contains(t, e.Error(), "this is "+name)
		assert.NotEmpty(t, e.Hint)
	}
}
