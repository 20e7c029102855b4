package weka

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// with returns the default rules with some set: NAME, VALUE and so on.
func with(t *testing.T, set ...string) rules.Rules {
	r := rules.Default()
	for k := 0; k < len(set); k += 2 {
		require.NoError(t, r.Set(set[k], set[k+1]))
	}
	return r
}

// settled returns the traces of rows that have one reading.
func settled(t *testing.T, m *Mooncake) []*trace.Trace {
	traces, err := m.Traces()
	require.NoError(t, err)
	require.Empty(t, m.Invalid())
	return traces
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
		var e *trace.Error
		require.ErrorAs(t, NewMooncake(0, rules.Default()).Add([]byte(oneRow(c.timestamp))), &e)
		assert.Equal(t, trace.Unclear, e.Kind)
		assert.Equal(t, "timestamp: "+c.timestamp+", the first of the file, looks like "+c.name+" since 1970: timestamps of Mooncake rows are milliseconds", e.Error())
		assert.Contains(t, e.Hint, "the rule timestamps="+c.unit+" ")
		starts := recordedStarts(t, with(t, "timestamps", c.unit), oneRow(c.timestamp))
		assert.InDelta(t, 1.5e12, starts["row-000001"], 0.6e12, "milliseconds since 1970")
	}
	for _, timestamp := range []string{"0", "1753780607550", "1e12", "999999999", "2.1e9", "5000"} {
		assert.NoError(t, NewMooncake(0, rules.Default()).Add([]byte(oneRow(timestamp))), timestamp)
	}
	assert.NoError(t, NewMooncake(0, rules.AIPerf()).Add([]byte(`{"timestamp":1753780607.55,"input_length":64,"output_length":4,"hash_ids":[1]}`)), "AIPerf has milliseconds alone")
	assert.Equal(t, map[string]float64{"row-000001": 0, "row-000002": 1753780607}, recordedStarts(t, rules.Default(), oneRow("0"), oneRow("1753780607")), "the first decides")
	assert.Equal(t, map[string]float64{"row-000001": 1753780607.5}, recordedStarts(t, with(t, "timestamps", "ms"), oneRow("1753780607.5")))
}

// A delay has the unit of the timestamps, delay_ms its own.
func TestUnitOfMooncakeDelays(t *testing.T) {
	for field, want := range map[string]float64{`"delay":2`: 3, `"delay_ms":2`: 1.002} {
		m := NewMooncake(0, with(t, "timestamps", "s"))
		require.NoError(t, m.Add([]byte(`{"timestamp":7,"output_length":1,"hash_ids":[0]}`)))
		require.NoError(t, m.Add([]byte(`{"timestamp":8,"output_length":1,"hash_ids":[0],"session_id":"s"}`)))
		require.NoError(t, m.Add([]byte(`{`+field+`,"output_length":1,"hash_ids":[0],"session_id":"s"}`)))
		assert.InDelta(t, want, settled(t, m)[1].Entries[1].T, 1e-9, field)
	}
}

// Fractions alone are a warning, unless the unit was asked for.
func TestFractionsOfMooncakeTimestamps(t *testing.T) {
	odd := func(r rules.Rules) trace.Oddities {
		m := NewMooncake(0, r)
		require.NoError(t, m.Add([]byte(oneRow("12.5"))))
		_, notes, err := reconstruct.MakePlan(settled(t, m)[0], r)
		require.NoError(t, err)
		return notes.Oddities
	}
	assert.Equal(t, trace.Oddities{{Kind: trace.OddityFraction, Count: 1, First: "requests[0]: timestamp 12.5"}}, odd(rules.Default()))
	assert.Empty(t, odd(with(t, "timestamps", "ms")))
}

// A row of agentic_mooncake behind a plain one, by which the file is recognized, is refused by name.
func TestRowsThatWait(t *testing.T) {
	m := rowsOf(t, rules.Default(), sized(600, 2, ""))
	assert.EqualError(t, m.Add([]byte(sized(600, 2, `,"wait_for":["r0"]`))), "wait_for: this is agentic_mooncake of Dynamo, in a file whose first row is a plain Mooncake row")
}

// rowsOf returns a file of rows.
func rowsOf(t *testing.T, r rules.Rules, rows ...string) *Mooncake {
	m := NewMooncake(0, r)
	for _, row := range rows {
		require.NoError(t, m.Add([]byte(row)), row)
	}
	return m
}

// sized returns a row with a prompt of so many tokens, of which so many blocks have ids, and further fields.
func sized(in, ids int, fields string) string {
	list := make([]int, ids)
	for k := range list {
		list[k] = k
	}
	text, _ := json.Marshal(list)
	return fmt.Sprintf(`{"timestamp":0,"input_length":%d,"output_length":4,"hash_ids":%s%s}`, in, text, fields)
}

// The block size of a file is what its rows say, else what was asked for, else 512, else what all lengths tell.
func TestBlockSizeOfMooncakeRows(t *testing.T) {
	for name, c := range map[string]struct {
		rules rules.Rules
		rows  []string
		want  int64
		odd   bool
	}{
		"in a row":                  {rules.Default(), []string{sized(600, 10, `,"block_size":64`)}, 64, false},
		"in one row of two":         {rules.Default(), []string{sized(600, 10, ``), sized(64, 1, `,"block_size":64`)}, 64, false},
		"null in a row":             {rules.Default(), []string{sized(600, 2, `,"block_size":null`)}, 512, false},
		"asked for":                 {with(t, "block_size", "64"), []string{sized(600, 10, ``)}, 64, false},
		"asked for, and in a row":   {with(t, "block_size", "64"), []string{sized(600, 10, `,"block_size":64`)}, 64, false},
		"asked for, whole blocks":   {with(t, "block_size", "64"), []string{sized(600, 9, ``), sized(64, 1, ``)}, 64, false},
		"in a row, whole blocks":    {rules.Default(), []string{sized(600, 9, `,"block_size":64`)}, 64, false},
		"asked for, more ids":       {with(t, "block_size", "512"), []string{sized(600, 10, ``)}, 512, false},
		"the usual one":             {rules.Default(), []string{sized(600, 2, ``), sized(512, 1, ``)}, 512, false},
		"no lengths":                {rules.Default(), []string{`{"timestamp":0,"output_length":4,"hash_ids":[1]}`}, 512, false},
		"rounded up":                {rules.Default(), []string{sized(600, 10, ``), sized(1000, 16, ``)}, 64, true},
		"rounded down":              {rules.Default(), []string{sized(600, 9, ``), sized(1000, 15, ``), sized(100, 1, ``)}, 64, true},
		"whole blocks alone":        {rules.Default(), []string{sized(640, 10, ``)}, 64, true},
		"a short row tells nothing": {rules.Default(), []string{sized(10, 0, ``), sized(600, 9, ``), sized(1000, 15, ``)}, 64, true},
	} {
		t.Run(name, func(t *testing.T) {
			traces := settled(t, rowsOf(t, c.rules, c.rows...))
			for _, tr := range traces {
				assert.Equal(t, c.want, tr.BlockSize)
			}
			_, notes, err := reconstruct.MakePlan(traces[0], c.rules)
			require.NoError(t, err)
			said := slices.ContainsFunc(notes.Oddities, func(o trace.Oddity) bool { return o.Kind == trace.OddityGuessedBlock })
			assert.Equal(t, c.odd, said, "%v", notes.Oddities)
		})
	}
}

// A file whose block size is not settled is refused, with the sizes that fit.
func TestUnclearBlockSizes(t *testing.T) {
	for name, c := range map[string]struct {
		rules rules.Rules
		rows  []string
		kind  trace.ErrorKind
		want  string
	}{
		"several": {rules.Default(), []string{sized(600, 2, ``), sized(600, 1, ``)}[1:], trace.Unclear,
			"input_length 600 and 1 hash_ids do not fit blocks of 512 tokens, and several block sizes fit all rows of the file: 512 tokens, whole blocks alone; 1024 tokens, the partial last block included"},
		"none": {rules.Default(), []string{sized(600, 2, ``), sized(600, 10, ``), sized(600, 3, ``)}, trace.Unclear,
			"input_length 600 and 10 hash_ids do not fit blocks of 512 tokens, and no block size fits all rows of the file: tried 16 32 64 128 256 512 1024, rounded up and down"},
		"contradiction": {with(t, "block_size", "128"), []string{sized(600, 10, `,"block_size":64`)}, trace.Contradiction, "rows have block_size 64, and the rule block_size says 128"},
	} {
		_, err := rowsOf(t, c.rules, c.rows...).Traces()
		var e *trace.Error
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, c.kind, e.Kind, name)
		assert.EqualError(t, err, c.want, name)
		assert.NotEmpty(t, e.Hint)
	}
	m := rowsOf(t, rules.Default(), sized(600, 10, `,"block_size":64`))
	assert.EqualError(t, m.Add([]byte(sized(600, 5, `,"block_size":128`))), "block_size 128: rows before it have 64")
	assert.EqualError(t, NewMooncake(0, rules.AIPerf()).Add([]byte(sized(600, 10, `,"block_size":64`))), `block_size: unknown key "block_size"`)
	assert.ErrorContains(t, NewMooncake(0, rules.Default()).Add([]byte(sized(600, 10, `,"block_size":0`))), "block size 0: want 1 to 1048576 tokens")
}

// A row with too few ids is invalid where the block size is known, and its whole session is left out. So is the session of a row that
// Add refuses.
func TestInvalidRowsSpoilTheirSessions(t *testing.T) {
	few := `{"session_id":"s","delay":5,"input_length":1300,"output_length":4,"hash_ids":[1,2]}`
	m := rowsOf(t, with(t, "block_size", "512"), sized(600, 2, `,"session_id":"s"`), few, sized(600, 2, ``))
	traces, err := m.Traces()
	require.NoError(t, err)
	require.Len(t, traces, 1)
	assert.Equal(t, "row-000003", traces[0].ID)
	require.Len(t, m.Invalid(), 1)
	assert.Equal(t, 2, m.Invalid()[0].Row)
	assert.EqualError(t, m.Invalid()[0], "input_length 1300 needs 3 blocks of 512 tokens, hash_ids has 2")

	m = rowsOf(t, rules.Default(), sized(600, 2, `,"session_id":"s"`), sized(600, 2, ``))
	require.Error(t, m.Add([]byte(`{"session_id":"s","delay":5,"input_length":1300,"output_length":4}`)))
	require.NoError(t, m.Add([]byte(`{"session_id":"s","delay":5,"input_length":600,"output_length":4,"hash_ids":[0,1]}`)))
	traces = settled(t, m)
	require.Len(t, traces, 1)
	assert.Equal(t, "row-000002", traces[0].ID)
	huge := rowsOf(t, with(t, "block_size", "1048576"), `{"timestamp":0,"output_length":4,"hash_ids":[`+strings.Repeat("0,", 20)+`0]}`)
	_, err = huge.Traces()
	require.NoError(t, err)
	assert.ErrorContains(t, huge.Invalid()[0], "21 hash_ids of 1048576 tokens: larger than 16777216 tokens")
}

// deltas are rows of a session that hold what is new.
var deltas = []string{
	`{"session_id":"s1","input_length":4190,"output_length":592,"hash_ids":[0,1,2,3,4,5,6,7,8],"timestamp":0}`,
	`{"session_id":"s1","input_length":592,"output_length":16,"hash_ids":[9,10],"delay":100}`,
	`{"session_id":"s1","input_length":300,"output_length":16,"hash_ids":[11],"delay":100}`,
}

// Rows of a session that share no first block with the row before have two readings, and somebody must say which is meant.
func TestSessionRowsWithTwoReadings(t *testing.T) {
	_, err := rowsOf(t, rules.Default(), deltas...).Traces()
	var e *trace.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, []any{trace.Unclear, 2}, []any{e.Kind, e.Row})
	assert.EqualError(t, e, `trace "s1": rows of this session share no first block with the row before: either each has its whole prompt (4190, 592, 300 tokens), `+
		`or what is new in it, behind all before and the answers (4190, 5374, 5690 tokens)`)
	assert.Contains(t, e.Hint, "the rule session_rows=new")
	for rule, want := range map[string][]int64{"whole": {4190, 592, 300}, "new": {4190, 5374, 5690}} {
		var in []int64
		for _, r := range settled(t, rowsOf(t, with(t, "session_rows", rule), deltas...))[0].Entries {
			in = append(in, r.In)
		}
		assert.Equal(t, want, in, rule)
	}
}

// Rows of a session whose ids continue are whole, whatever the rule, and so are the others of that session.
func TestSessionRowsThatContinueAreWhole(t *testing.T) {
	row := func(ids, more string) string {
		return `{"session_id":"s","output_length":5,"hash_ids":` + ids + more + `}`
	}
	for _, rows := range [][]string{
		{row("[1,2]", `,"timestamp":0`), row("[1,2,3]", ``)},
		{row("[1,2]", `,"timestamp":0`), row("[1]", ``)},
		{row("[1,2]", `,"timestamp":0`), row("[7,8]", ``), row("[7,8,9]", ``)},
		{row("[1,2]", `,"timestamp":0`), row("[1,2,3]", ``), row("[7,8]", ``)},
		{row("[]", `,"timestamp":0`), row("[7]", ``)},
		{row("[1,2]", `,"timestamp":0`)},
	} {
		want := settled(t, rowsOf(t, with(t, "session_rows", "whole"), rows...))
		assert.Equal(t, want, settled(t, rowsOf(t, rules.Default(), rows...)))
		assert.Equal(t, want, settled(t, rowsOf(t, with(t, "session_rows", "new"), rows...)))
	}
	_, err := rowsOf(t, rules.Default(), row("[1,2]", `,"timestamp":0`), row("[]", ``)).Traces()
	assert.Error(t, err)
}

// What is new stands behind all of the turn before and as many tokens as its answer had: each prompt begins with the one before, block by
// block, and blocks behind the first row are the session's own.
func TestSessionRowsThatHoldWhatIsNew(t *testing.T) {
	r := with(t, "session_rows", "new")
	other := strings.ReplaceAll(strings.Join(deltas, "\n"), "s1", "s2")
	traces := settled(t, rowsOf(t, r, append(deltas[:3:3], strings.Split(other, "\n")...)...))
	for n, tr := range traces {
		before := trace.IDs{}
		for k := range tr.Entries {
			q := tr.Entries[k].Request
			assert.EqualValues(t, (q.In+511)/512, q.IDs.Len)
			assert.Equal(t, before.Len, trace.CommonPrefix(before, q.IDs))
			before = q.IDs
		}
		assert.Equal(t, 8, trace.CommonPrefix(before, traces[1-n].Entries[2].IDs), "4,190 tokens have 8 whole blocks")
		assert.Equal(t, []float64{0, 0.1, 0.2}, []float64{tr.Entries[0].T, tr.Entries[1].T, tr.Entries[2].T})
	}
	plan, notes, err := reconstruct.MakePlan(traces[0], r)
	require.NoError(t, err)
	require.Len(t, plan.Sessions, 1)
	assert.Equal(t, trace.Oddities{{Kind: trace.OddityAnswers, Count: 2, First: "requests[1]: 4782 tokens stand before its 592"}}, notes.Oddities)

	traces = settled(t, rowsOf(t, with(t, "session_rows", "new", "block_size", "64"), `{"session_id":"s","timestamp":0,"input_length":100,"output_length":-5,"hash_ids":[1]}`, `{"session_id":"s","input_length":30,"output_length":1,"hash_ids":[]}`))
	assert.Equal(t, trace.IDs{Runs: []trace.Run{{First: 1, N: 1}}, Len: 1}, traces[0].Entries[0].IDs, "whole blocks alone")
	assert.Equal(t, []int64{130, 2}, []int64{traces[0].Entries[1].In, int64(traces[0].Entries[1].IDs.Len)})

	long := `{"session_id":"s","timestamp":0,"input_length":16000000,"output_length":1000000,"hash_ids":[1]}`
	m := rowsOf(t, with(t, "session_rows", "new", "block_size", "1048576"), strings.Replace(long, "[1]", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 1), strings.Replace(strings.Replace(long, "[1]", "[17]", 1), "16000000", "1000000", 1))
	left, err := m.Traces()
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.EqualError(t, m.Invalid()[0], `trace "s": the prompt of this row has 18000000 tokens with all rows and answers before it: more than 16777216: split the session`)
}

// Rows that a replay puts behind answers are messages of their own, whether their ids go on or not, in one session.
func TestSessionRowsBehindAnswers(t *testing.T) {
	row := func(in int, ids string) string {
		return fmt.Sprintf(`{"session_id":"s1","timestamp":0,"input_length":%d,"output_length":4,"hash_ids":[%s]}`, in, ids)
	}
	for _, r := range []rules.Rules{rules.Default(), rules.AIPerf()} {
		require.NoError(t, r.Set("session_rows", "live"))
		require.NoError(t, r.Set("block_size", "512"))
		for _, rows := range [][]string{deltas[:3], {row(1024, "1,2"), row(1536, "1,2,3"), row(1600, "1,2,3,4"), row(600, "1,9")}} {
			tr := settled(t, rowsOf(t, r, rows...))[0]
			plan, notes, err := reconstruct.MakePlan(tr, r)
			require.NoError(t, err)
			assert.True(t, notes.Live)
			require.Len(t, plan.Sessions, 1)
			require.Len(t, plan.Turns, len(rows))
			for k, turn := range plan.Turns {
				tokens, messages := 0, 0
				for at := turn.Last; at != mmapcache.None; at = plan.Segments[at].Parent {
					s := plan.Segments[at]
					assert.Equal(t, mmapcache.User, s.Role)
					n := int(s.Count)
					if s.Flags&(mmapcache.Filler|mmapcache.Head) == 0 {
						n *= 512
					}
					if tokens += n; s.Flags&mmapcache.Continues == 0 {
						messages++
					}
				}
				assert.Equal(t, []int{int(tr.Entries[k].In), 1}, []int{tokens, messages})
			}
		}
	}
}

// AIPerf takes a row with any member, and sends what some of them say: agentx refuses these.
func TestMembersOfRowsOfAIPerf(t *testing.T) {
	row := func(member string) error {
		return NewMooncake(0, rules.AIPerf()).Add([]byte(`{"timestamp":0,"input_length":5,"output_length":4,"hash_ids":[1],` + member + `}`))
	}
	for _, taken := range []string{`"group_id":3`, `"type":"mooncake_trace"`, `"is_resume":true`, `"messages":null`, `"extra":null`} {
		assert.NoError(t, row(taken))
	}
	for _, name := range mooncakePrompts {
		assert.ErrorContains(t, row(`"`+name+`":{"a":"secret"}`), ": AIPerf sends the text of this key, and agentx makes prompts from hash_ids: rows with this key are not played")
	}
}

// Ids may be digits in strings, and have all of 64 bits without a sign.
func TestIDsOfMooncakeRows(t *testing.T) {
	row := func(ids string) string { return `{"timestamp":0,"output_length":4,"hash_ids":` + ids + `}` }
	ids := func(list string) trace.IDs {
		return settled(t, rowsOf(t, rules.Default(), row(list)))[0].Entries[0].IDs
	}
	assert.Equal(t, ids("[101,102]"), ids(`["101","102"]`))
	assert.Equal(t, ids("[101, 102, 1000]"), ids(`[101,"102",1e3]`))
	assert.Equal(t, trace.IDs{Runs: []trace.Run{{First: math.MaxInt64, N: 2}, {First: -1, N: 1}}, Len: 3}, ids(`[9223372036854775807,9223372036854775808,"18446744073709551615"]`))
	assert.Equal(t, trace.IDs{Runs: []trace.Run{{First: -2, N: 2}}, Len: 2}, ids(`[-2,-1]`))
	for list, want := range map[string]string{
		`[18446744073709551616]`:   "hash_ids[0]: 18446744073709551616 is outside -2^63 to 2^64 - 1",
		`["18446744073709551616"]`: "hash_ids[0]: 18446744073709551616 is outside -2^63 to 2^64 - 1",
		`[1,"-1"]`:                 `hash_ids[1]: want a whole number or a string of its digits, found "-1"`,
		`[""]`:                     `hash_ids[0]: want a whole number or a string of its digits, found ""`,
		`[1.5]`:                    "hash_ids[0]: want a whole number, found 1.5",
		`[-9223372036854775809]`:   "hash_ids[0]: -9223372036854775809 is outside -2^63 to 2^64 - 1",
		`[null]`:                   "hash_ids[0]: want number, found null",
	} {
		assert.EqualError(t, NewMooncake(0, rules.Default()).Add([]byte(row(list))), want)
	}
	_, err := rowsOf(t, rules.Default(), row("[-1]"), row("[9223372036854775808]")).Traces()
	assert.ErrorContains(t, err, "numbers from 2^63 on and negative ones")
	for _, list := range []string{`["1"]`, `[9223372036854775808]`} {
		assert.Error(t, NewMooncake(0, rules.AIPerf()).Add([]byte(row(list))), list)
		_, err := Scan([]byte(`{"id":"t","models":[],"block_size":64,"requests":[{"t":0,"type":"n","model":"m","in":64,"out":1,"hash_ids":`+list+`}]}`), rules.Default())
		assert.Error(t, err, "traces of other formats have int64: %s", list)
	}
}
