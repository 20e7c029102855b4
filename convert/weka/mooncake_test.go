package weka

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

func TestMooncakeRows(t *testing.T) {
	m := NewMooncake(0, Default())
	for _, row := range []string{
		`{"timestamp":3000,"input_length":1100,"output_length":5,"hash_ids":[0,1,2]}`,
		`{"timestamp":4000,"input_length":1024,"output_length":5,"hash_ids":[0,1],"session_id":"s"}`,
		`{"delay":250,"input_tokens":1500,"output_tokens":7,"hash_ids":[0,1,9],"session_id":"s","later":1,"priority":2}`,
		`{"created_time":9000,"output_length":0,"hash_ids":[0,1,9,4],"session_id":"s"}`,
	} {
		require.True(t, IsMooncake([]byte(row)))
		require.NoError(t, m.Add([]byte(row)))
	}
	traces := m.Traces()
	require.Len(t, traces, 2)
	assert.Equal(t, "row-000001", traces[0].ID)
	assert.Equal(t, map[string]int{"later": 1}, traces[1].Unknown)
	var at []float64
	for _, e := range traces[1].Entries {
		at = append(at, e.T)
	}
	assert.Equal(t, []float64{1, 1.25, 6}, at, "from the earliest arrival on; a delay counts from the turn before")

	plan, notes, err := MakePlan(traces[1], Default())
	require.NoError(t, err)
	assert.Equal(t, FormatMooncake, notes.Format)
	assert.EqualValues(t, 2048, plan.Turns[2].In, "a block per id where no length is given")
	last := plan.Segments[plan.Turns[1].Last]
	assert.Equal(t, mmapcache.Head, last.Flags&mmapcache.Head)
	assert.EqualValues(t, 1500-1024, last.Count)
	assert.EqualValues(t, 2, last.First, "the head of the block of the last id")
}

func TestInvalidMooncakeRows(t *testing.T) {
	for row, fault := range map[string]ErrorKind{
		`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0]}`:                  Conflict,
		`{"timestamp":0,"input_length":-1,"output_length":5,"hash_ids":[0]}`:                   NegativeIn,
		`{"timestamp":0,"input_length":5,"hash_ids":[0]}`:                                      MissingField,
		`{"timestamp":0,"input_length":5,"output_length":5}`:                                   MissingField,
		`{"input_length":5,"output_length":5,"hash_ids":[0]}`:                                  MissingField,
		`{"timestamp":0,"delay":5,"input_length":5,"output_length":5,"hash_ids":[0]}`:          Conflict,
		`{"timestamp":0,"delay":-5,"input_length":5,"output_length":5,"hash_ids":[0]}`:         TooLarge,
		`{"timestamp":1e999,"input_length":5,"output_length":5,"hash_ids":[0]}`:                NotFinite,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0],"wait_for":[]}`:      UnknownKey,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[18446744073709551616]}`: IDRange,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0]`:                     NotJSON,
		`{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[0]} {}`:                 NotJSON,
		`{"timestamp":0,"input_length":99999999999,"output_length":5,"hash_ids":[0]}`:          TooLarge,
		`{"timestamp":"0","input_length":5,"output_length":5,"hash_ids":[0]}`:                  WrongType,
		`[1]`: WrongType,
	} {
		var e *Error
		require.True(t, errors.As(NewMooncake(0, Default()).Add([]byte(row)), &e), row)
		assert.Equal(t, fault, e.Kind, "%s: %v", row, e)
	}
	assert.False(t, IsMooncake([]byte(`{"id":"t","requests":[],"hash_ids":[]}`)))
	assert.False(t, IsMooncake([]byte(`[]`)))
	assert.False(t, IsMooncake(nil))
}

// Null counts as a field left out, where a row may leave it out. Strict rules refuse it.
func TestNullInMooncakeRows(t *testing.T) {
	traces := func(rules Rules, rows ...string) ([]*Trace, error) {
		m := NewMooncake(0, rules)
		for _, row := range rows {
			if err := m.Add([]byte(row)); err != nil {
				return nil, err
			}
		}
		return m.Traces(), nil
	}
	first := `{"timestamp":3000,"output_length":5,"hash_ids":[0,1],"session_id":"s"`
	rows := []string{first + `}`, `{"output_length":7,"hash_ids":[0],"session_id":"s"}`, `{"timestamp":1,"output_length":7,"hash_ids":[2]}`}
	nulls := []string{first + `,"input_length":7,"input_length":null,"delay":null}`, `{"output_length":7,"hash_ids":[0],"session_id":"s","timestamp":9,"timestamp":null}`,
		`{"timestamp":1,"output_length":7,"hash_ids":[2],"session_id":null}`}
	want, err := traces(Default(), rows...)
	require.NoError(t, err)
	got, err := traces(Default(), nulls...)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for k, row := range nulls {
		_, err = traces(AIPerf(), append(rows[:k:k], row)...)
		assert.ErrorContains(t, err, "found null", row)
	}
	_, err = traces(Default(), `{"timestamp":1763805600000000,"output_length":5,"hash_ids":[0]}`)
	assert.ErrorContains(t, err, "looks like microseconds since 1970: want milliseconds")
}

// Any rows are either accepted, and then planned, or refused with an *Error.
func FuzzMooncake(f *testing.F) {
	f.Add([]byte(`{"timestamp":3000,"input_length":1100,"output_length":5,"hash_ids":[0,1,2]}`), []byte(`{"delay":250,"input_length":5,"output_length":7,"hash_ids":[0],"session_id":"s"}`))
	f.Add([]byte(`{"timestamp":0,"output_length":5,"hash_ids":[],"session_id":"s"}`), []byte(`{"timestamp":-1.5e3,"input_length":512,"output_length":-7,"hash_ids":[-1],"session_id":"s"}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		m := NewMooncake(1, Default())
		for _, row := range [][]byte{first, second, first} {
			if err := m.Add(row); err != nil {
				var e *Error
				require.ErrorAs(t, err, &e)
			}
		}
		for _, tr := range m.Traces() {
			if _, _, err := MakePlan(tr, Default()); err != nil {
				var e *Error
				require.ErrorAs(t, err, &e)
			}
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
		tr, err := Scan([]byte(text), Default())
		require.NoError(t, err)
		assert.Equal(t, want, tr.Format(), text)
	}
}
