package weka

import (
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

func TestMooncakeRows(t *testing.T) {
	m := NewMooncake(0, rules.Default())
	for _, row := range []string{
		`{"timestamp":3000,"input_length":1100,"output_length":5,"hash_ids":[0,1,2]}`,
		`{"timestamp":4000,"input_length":1024,"output_length":5,"hash_ids":[0,1],"session_id":"s"}`,
		`{"delay":250,"input_tokens":1500,"output_tokens":7,"hash_ids":[0,1,9],"session_id":"s","later":1,"priority":2}`,
		`{"created_time":9000,"output_length":0,"hash_ids":[0,1,9,4],"session_id":"s"}`,
	} {
		require.True(t, IsMooncake([]byte(row)))
		require.NoError(t, m.Add([]byte(row)))
	}
	traces := settled(t, m)
	require.Len(t, traces, 2)
	assert.Equal(t, "row-000001", traces[0].ID)
	assert.Equal(t, map[string]int{"later": 1}, traces[1].Unknown)
	var at []float64
	for _, e := range traces[1].Entries {
		at = append(at, e.T)
	}
	assert.Equal(t, []float64{1, 1.25, 6}, at, "from the earliest arrival on; a delay counts from the turn before")

	plan, notes, err := reconstruct.MakePlan(traces[1], rules.Default())
	require.NoError(t, err)
	assert.Equal(t, mmapcache.FormatMooncake, notes.Format)
	assert.EqualValues(t, 2048, plan.Turns[2].In, "a block per id where no length is given")
	last := plan.Segments[plan.Turns[1].Last]
	assert.Equal(t, mmapcache.Head, last.Flags&mmapcache.Head)
	assert.EqualValues(t, 1500-1024, last.Count)
	assert.EqualValues(t, 2, last.First, "the head of the block of the last id")
}

func TestInvalidMooncakeRows(t *testing.T) {
	for row, fault := range map[string]trace.ErrorKind{
		`{"timestamp":0,"input_length":-1,"output_length":5,"hash_ids":[0]}`:                   trace.NegativeIn,
		`{"timestamp":0,"input_length":5,"hash_ids":[0]}`:                                      trace.MissingField,
		`{"timestamp":0,"input_length":5,"output_length":5}`:                                   trace.MissingField,
		`{"input_length":5,"output_length":5,"hash_ids":[0]}`:                                  trace.MissingField,
		`{"timestamp":0,"delay":5,"input_length":5,"output_length":5,"hash_ids":[0]}`:          trace.Conflict,
		`{"timestamp":0,"delay":-5,"input_length":5,"output_length":5,"hash_ids":[0]}`:         trace.TooLarge,
		`{"timestamp":1e999,"input_length":5,"output_length":5,"hash_ids":[0]}`:                trace.NotFinite,
		`{"timestamp":NaN,"input_length":5,"output_length":5,"hash_ids":[0]}`:                  trace.NotJSON,
		`{"timestamp":-0.5,"input_length":5,"output_length":5,"hash_ids":[0]}`:                 trace.TooLarge,
		`{"timestamp":1e300,"input_length":5,"output_length":5,"hash_ids":[0]}`:                trace.TooLarge,
		`{"timestamp":9200000000001,"input_length":5,"output_length":5,"hash_ids":[0]}`:        trace.TooLarge,
		`{"created_time":-1,"input_length":5,"output_length":5,"hash_ids":[0]}`:                trace.TooLarge,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0],"wait_for":[]}`:      trace.UnknownKey,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[18446744073709551616]}`: trace.IDRange,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0]`:                     trace.NotJSON,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0]} {}`:                 trace.NotJSON,
		`{"timestamp":0,"input_length":99999999999,"output_length":5,"hash_ids":[0]}`:          trace.TooLarge,
		`{"timestamp":"0","input_length":5,"output_length":5,"hash_ids":[0]}`:                  trace.WrongType,
		`[1]`: trace.WrongType,
	} {
		var e *trace.Error
		require.True(t, errors.As(NewMooncake(0, rules.Default()).Add([]byte(row)), &e), row)
		assert.Equal(t, fault, e.Kind, "%s: %v", row, e)
	}
	assert.True(t, IsTrace([]byte(`{"id":"t","hash_ids":[],"requests":[`)))
	assert.False(t, IsTrace([]byte(`{"id":"requests","hash_ids":[{"requests":[]}]}`)))
	assert.False(t, IsMooncake([]byte(`[]`)))
	assert.False(t, IsMooncake(nil))
}

// recordedStarts returns the recorded starts of the traces of some rows, by id.
func recordedStarts(t *testing.T, r rules.Rules, rows ...string) map[string]float64 {
	m := NewMooncake(0, r)
	for _, row := range rows {
		require.NoError(t, m.Add([]byte(row)), row)
	}
	starts := map[string]float64{}
	for _, tr := range settled(t, m) {
		_, notes, err := reconstruct.MakePlan(tr, r)
		require.NoError(t, err)
		starts[tr.ID] = notes.Start
	}
	return starts
}

// The recorded start is the timestamp of a session's first row, bit for bit, also where rows are out of order.
func TestRecordedStartOfMooncakeSessions(t *testing.T) {
	row := func(fields string) string { return `{"output_length":1,"hash_ids":[0],` + fields + `}` }
	rows := []string{row(`"timestamp":9000.123`), row(`"timestamp":0.1,"session_id":"a"`), row(`"created_time":1732312345678`), row(`"timestamp":-0.0,"session_id":"b"`),
		row(`"timestamp":5,"session_id":"a"`), row(`"timestamp":3e3,"delay":0`), row(`"session_id":"b"`), row(`"delay":9e14,"session_id":"b"`), row(`"timestamp":9200000000000`)}
	got := recordedStarts(t, rules.Default(), rows...)
	assert.Equal(t, map[string]float64{"row-000001": 9000.123, "a": 0.1, "row-000003": 1732312345678, "b": 0, "row-000006": 3000, "row-000009": 9.2e12}, got)
	assert.False(t, math.Signbit(got["b"]), "-0")
}

// A filter that drops the first rows of a session moves its start to that of its first turn. One row keeps its own.
func TestRecordedStartOfFilteredSessions(t *testing.T) {
	row := func(fields string) string { return `{"output_length":1,"hash_ids":[0],` + fields + `}` }
	rows := []string{row(`"timestamp":500`), row(`"timestamp":1500,"session_id":"s"`), row(`"timestamp":2000,"session_id":"s"`), row(`"delay":250,"session_id":"s"`), row(`"timestamp":4500`)}
	for offset, want := range map[string]float64{"0": 1500, "1000": 1500, "1001": 2000, "1500": 2000, "1501": 2250, "2000": 1500} {
		r := rules.Default()
		require.NoError(t, r.Set("start_offset", offset))
		got := recordedStarts(t, r, rows...)
		assert.InDelta(t, want, got["s"], 1e-9, "start_offset=%s; 2000 drops all turns", offset)
		assert.Equal(t, 4500.0, got["row-000005"])
	}
	r := rules.Default()
	require.NoError(t, r.Set("start_offset", "1"))
	m := NewMooncake(0, r)
	for _, fields := range []string{`"timestamp":9200000000000,"session_id":"s"`, `"delay":1e14,"session_id":"s"`, `"timestamp":9199999999999`} {
		require.NoError(t, m.Add([]byte(row(fields))))
	}
	require.NoError(t, r.Set("start_offset", "10"))
	_, _, err := reconstruct.MakePlan(settled(t, m)[0], r)
	assert.EqualError(t, err, `trace "s": requests[1]: starts 1.092e+14 ms after 0: beyond 9.2e+12 ms, which are 292 years`)
}

// Weka traces have no recorded start.
func TestWekaTracesHaveNoRecordedStart(t *testing.T) {
	tr, err := Scan([]byte(`{"id":"t","models":["m"],"block_size":64,"_start_ts":1732312345.5,"requests":[{"t":7,"type":"n","model":"m","in":70,"out":1,"hash_ids":[1]}]}`), rules.Default())
	require.NoError(t, err)
	_, notes, err := reconstruct.MakePlan(tr, rules.Default())
	require.NoError(t, err)
	assert.True(t, math.IsNaN(notes.Start))
	assert.Equal(t, map[string]int{"_start_ts": 1}, notes.Unknown)
}

// Null counts as a field left out, where a row may leave it out. Strict rules refuse it.
func TestNullInMooncakeRows(t *testing.T) {
	traces := func(rules rules.Rules, rows ...string) ([]*trace.Trace, error) {
		m := NewMooncake(0, rules)
		for _, row := range rows {
			if err := m.Add([]byte(row)); err != nil {
				return nil, err
			}
		}
		return m.Traces()
	}
	first := `{"timestamp":3000,"output_length":5,"hash_ids":[0,1],"session_id":"s"`
	rows := []string{first + `}`, `{"output_length":7,"hash_ids":[0],"session_id":"s"}`, `{"timestamp":1,"output_length":7,"hash_ids":[2]}`}
	nulls := []string{first + `,"input_length":7,"input_length":null,"delay":null}`, `{"output_length":7,"hash_ids":[0],"session_id":"s","timestamp":9,"timestamp":null}`,
		`{"timestamp":1,"output_length":7,"hash_ids":[2],"session_id":null}`}
	want, err := traces(rules.Default(), rows...)
	require.NoError(t, err)
	got, err := traces(rules.Default(), nulls...)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for k, row := range nulls {
		_, err = traces(rules.AIPerf(), append(rows[:k:k], row)...)
		assert.ErrorContains(t, err, "found null", row)
	}
}

// Any rows are either accepted, and then planned, or refused with an *Error.
func FuzzMooncake(f *testing.F) {
	f.Add([]byte(`{"timestamp":3000,"input_length":1100,"output_length":5,"hash_ids":[0,1,2]}`), []byte(`{"delay":250,"input_length":5,"output_length":7,"hash_ids":[0],"session_id":"s"}`))
	f.Add([]byte(`{"timestamp":0,"output_length":5,"hash_ids":[],"session_id":"s"}`), []byte(`{"timestamp":-1.5e3,"input_length":512,"output_length":-7,"hash_ids":[-1],"session_id":"s"}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		m := NewMooncake(1, rules.Default())
		for _, row := range [][]byte{first, second, first} {
			if err := m.Add(row); err != nil {
				var e *trace.Error
				require.ErrorAs(t, err, &e)
			}
		}
		traces, err := m.Traces()
		if err != nil {
			var e *trace.Error
			require.ErrorAs(t, err, &e)
		}
		for _, tr := range traces {
			_, notes, err := reconstruct.MakePlan(tr, rules.Default())
			if err != nil {
				var e *trace.Error
				require.ErrorAs(t, err, &e)
				continue
			}
			require.True(t, notes.Start >= 0 && notes.Start <= mmapcache.MaxRecordedStart, notes.Start)
		}
	})
}

func TestFormats(t *testing.T) {
	request := func(ids string, in int) string {
		return `{"t":0,"type":"n","model":"m","out":1,"hash_ids":` + ids + `,"in":` + strconv.Itoa(in) + `}`
	}
	trace := func(scope, more, requests string) string {
		return `{"id":"t","models":[],"block_size":64` + scope + more + `,"requests":[` + requests + `]}`
	}
	const local, global = `,"hash_id_scope":"local"`, `,"hash_id_scope":"global"`
	for text, want := range map[string]string{
		trace("", "", request("[1,2]", 130)):                  FormatV1,
		trace(global, "", request("[7,8]", 130)):              FormatV6,
		trace(global, "", request("[7,8]", 9000)):             FormatNeon,
		trace(local, `,"totals":{}`, request("[1,2]", 130)):   FormatV8,
		trace(local, "", request("[0,1,2]", 130)):             FormatAgentX,
		trace(local, `,"totals":{}`, request("[0,1,2]", 130)): FormatLocal,
		trace(local, `,"totals":null`, request("[0]", 64)):    FormatAgentX,
		trace(local, "", ""):                                  FormatLocal,
	} {
		tr, err := Scan([]byte(text), rules.Default())
		require.NoError(t, err)
		assert.Equal(t, want, tr.Format, text)
	}
}
