package weka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/trace"
)

// modes are the rules of the two ways to read: tolerant and strict.
func modes() map[string]rules.Rules {
	strict := rules.Default()
	strict.UnknownKeys = "reject"
	return map[string]rules.Rules{"tolerant": rules.Default(), "strict": strict}
}

// compareScans compares Scan with the oracle.
func compareScans(t require.TestingT, data []byte) {
	odd := oddity(data)
	for mode, rules := range modes() {
		tr, err := Scan(data, rules)
		if err != nil {
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Kind)
		}
		if odd != "" {
			continue
		}
		want, slowErr := scanSlowly(data, rules.Strict())
		require.Equal(t, slowErr == nil, err == nil, "%s: Scan: %v; oracle: %v\n%s", mode, err, slowErr, data)
		if err == nil {
			require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", plainOf(tr)), "%s\n%s", mode, data)
		}
	}
}

// writer writes traces as JSON, in all ways that JSON allows.
type writer struct {
	t    *rapid.T
	last []string // the ids of the list before
}

func (w *writer) pick(list ...string) string { return rapid.SampledFrom(list).Draw(w.t, "pick") }

func (w *writer) chance(n int) bool { return rapid.IntRange(0, n-1).Draw(w.t, "chance") == 0 }

func (w *writer) space() string {
	if w.chance(12) {
		return w.pick(" ", "\n", "\r\n", "\t", "  ")
	}
	return ""
}

// number writes a whole number.
func (w *writer) number(v int64) string {
	text := strconv.FormatInt(v, 10)
	if !w.chance(12) {
		return text
	}
	switch {
	case v == 0:
		return w.pick("-0", "0.0", "0e7", "-0.0e-3", "0E+99999999999999999999")
	case v%1000 == 0:
		return fmt.Sprintf("%de3", v/1000)
	}
	return w.pick(text+".0", text+"e0", text+"E+0", text+".000e+000", text+"000e-3")
}

func (w *writer) time() string {
	return w.pick("0", "1.5", "-3", "1e3", "79.224", "1e-400", "12.0", "0.1", "1e15", "-0.0")
}

func (w *writer) text(s string) string {
	if w.chance(8) {
		return w.pick(`"\u0061\n"`, `"é\u00e9"`, `"\ud83d\ude00"`, `"\\\/\""`, `"\u2028"`, `""`)
	}
	return strconv.Quote(s)
}

// ids writes a hash_ids list: often the one before, extended, cut or changed in the middle.
func (w *writer) ids() string {
	list := append([]string{}, w.last...)
	fresh := func() {
		start := rapid.SampledFrom([]int64{0, 1, 8, 95, 997, 9_999_998, -3, 999_999_999_999_999_996, 9_223_372_036_854_775_800}).Draw(w.t, "start")
		for k := range rapid.Int64Range(0, 6).Draw(w.t, "run") {
			list = append(list, strconv.FormatInt(start+k, 10))
		}
	}
	switch w.pick("again", "more", "more", "less", "other", "digits", "new") {
	case "more":
		fresh()
	case "less":
		list = list[:rapid.IntRange(0, len(list)).Draw(w.t, "cut")]
		if w.chance(2) {
			fresh()
		}
	case "other":
		if len(list) > 0 {
			list[rapid.IntRange(0, len(list)-1).Draw(w.t, "at")] = w.pick("7", "123456", "0", "-1", "42")
		}
	case "digits": // a last id that begins as the one before
		if len(list) > 0 && list[len(list)-1] != "0" && len(list[len(list)-1]) < 16 {
			list[len(list)-1] += w.pick("0", "7", "12")
		}
	case "new":
		list = nil
		fresh()
		fresh()
	}
	w.last = list
	if !w.chance(6) {
		return "[" + strings.Join(list, ",") + "]"
	}
	var out strings.Builder // with white space and other numbers
	out.WriteString("[" + w.space())
	for k, id := range list {
		if k > 0 {
			out.WriteString(w.space() + "," + w.space())
		}
		v, err := strconv.ParseInt(id, 10, 64)
		require.NoError(w.t, err)
		out.WriteString(w.number(v))
	}
	return out.String() + w.space() + "]"
}

// object writes members in any order.
func (w *writer) object(members ...[2]string) string {
	if w.chance(5) {
		members = append(members, [2]string{w.pick("extra", "ID", "Type", "nested_marker"), w.pick("1", `{"a":[1,{"b":null}]}`, `"x"`, "[[],{}]", "true", "-1.5e-7")})
	}
	if w.chance(10) && len(members) > 0 { // the last value counts
		members = append([][2]string{members[rapid.IntRange(0, len(members)-1).Draw(w.t, "twice")]}, members...)
	} else if w.chance(2) {
		members = rapid.Permutation(members).Draw(w.t, "order")
	}
	var out strings.Builder
	out.WriteString("{" + w.space())
	for k, m := range members {
		if k > 0 {
			out.WriteString(",")
		}
		out.WriteString(w.space() + strconv.Quote(m[0]) + w.space() + ":" + w.space() + m[1] + w.space())
	}
	return out.String() + "}"
}

func (w *writer) list(n int, element func() string) string {
	var parts []string
	for range n {
		parts = append(parts, w.space()+element()+w.space())
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (w *writer) names() string {
	return w.list(rapid.IntRange(0, 2).Draw(w.t, "names"), func() string { return w.text(w.pick("a", "text", "tool_result")) })
}

// maybe appends a member in one of three cases, null at times.
func (w *writer) maybe(to [][2]string, name, value string) [][2]string {
	if w.chance(3) {
		to = append(to, [2]string{name, w.pick(value, value, value, "null")})
	}
	return to
}

func (w *writer) count() string {
	return w.number(rapid.SampledFrom([]int64{0, 1, 63, 64, 1000, 130_000, trace.MaxTokens}).Draw(w.t, "count"))
}

func (w *writer) request() string {
	m := [][2]string{{"t", w.time()}, {"type", w.pick(`"n"`, `"n"`, `"s"`, `"s"`, `"?"`)}, {"model", w.text(w.pick("m", "o"))},
		{w.pick("in", "in", "input_length"), w.count()}, {w.pick("out", "output_length"), w.pick(w.count(), "-5")}, {"hash_ids", w.ids()}}
	m = w.maybe(m, "api_time", w.pick("null", w.time()))
	m = w.maybe(m, "think_time", w.pick("null", w.time()))
	m = w.maybe(m, "ttft", w.pick("null", w.time()))
	m = w.maybe(m, "input_types", w.names())
	m = w.maybe(m, "output_types", w.names())
	m = w.maybe(m, "stop", w.text(w.pick("", "tool_use", "end_turn")))
	if w.chance(20) {
		m = append(m, [2]string{"status", w.pick("17", "null")}) // of a subagent: unknown here, whatever its value, if it has one
	}
	return w.object(m...)
}

func (w *writer) subagent() string {
	m := [][2]string{{"t", w.time()}, {"type", `"subagent"`}, {"agent_id", w.text("a")}, {"subagent_type", w.pick(`"x"`, `"x"`, "null")},
		{"status", w.pick(`"completed"`, `"async_launched"`, "null")}, {"models", w.names()},
		{"requests", w.list(rapid.IntRange(0, 3).Draw(w.t, "inner"), w.request)}}
	m = w.maybe(m, "duration_ms", w.pick("null", "-3", w.count(), "9223372036854775807"))
	m = w.maybe(m, "total_tokens", w.pick("null", "5"))
	m = w.maybe(m, "tool_use_count", w.pick("null", "5.0"))
	m = w.maybe(m, "tool_tokens", w.pick("-2", w.count()))
	m = w.maybe(m, "system_tokens", w.count())
	if w.chance(20) {
		m = append(m, [2]string{"in", `"many"`})
	}
	return w.object(m...)
}

func (w *writer) trace() string {
	m := [][2]string{{"id", w.text("t")}, {"models", w.names()}, {"block_size", w.number(64)},
		{"requests", w.list(rapid.IntRange(0, 5).Draw(w.t, "requests"), func() string {
			if w.chance(4) {
				return w.subagent()
			}
			return w.request()
		})}}
	if !w.chance(6) {
		m = append(m, [2]string{"hash_id_scope", w.pick(`"local"`, `"local"`, `"global"`)})
	}
	m = w.maybe(m, "tool_tokens", w.count())
	m = w.maybe(m, "system_tokens", w.pick("-7", w.count()))
	m = w.maybe(m, "totals", w.pick("null", `{"a":1}`))
	return w.space() + w.object(m...) + w.space()
}

// indented returns the same JSON with indentation and CRLF.
func indented(t require.TestingT, data string) []byte {
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, []byte(data), "", "  "))
	return bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte("\r\n"))
}

func TestScanAgreesWithTheOracle(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		w := writer{t: t}
		data := w.trace()
		require.True(t, json.Valid([]byte(data)), data)
		compareScans(t, []byte(data))
		compareScans(t, indented(t, data))
		if tr, err := Scan([]byte(data), rules.Default()); err == nil {
			accepted++
			again, err := Scan(indented(t, data), rules.Default())
			require.NoError(t, err)
			require.Equal(t, plainOf(tr), plainOf(again))
		}
	})
	assert.Positive(t, accepted)
}

// small is a trace with every kind of entry.
const small = `{"id":"tr\u0061ce","models":["m","n"],"block_size":64,"hash_id_scope":"local","tool_tokens":10,"system_tokens":5,"totals":{"a":[null,true,false]},"requests":[` +
	`{"t":0.5,"type":"n","model":"m","in":130,"out":30,"hash_ids":[1,2,99,100],"api_time":2.0,"think_time":null,"input_types":["text"],"output_types":[],"stop":"tool_use"},` +
	`{"t":3e0,"agent_id":"a1","subagent_type":"x","status":"completed","duration_ms":4000,"total_tokens":1,"tool_use_count":null,"models":["m"],"tool_tokens":1,"system_tokens":0,"requests":[` +
	`{"t":-3.0,"type":"s","model":"n","in":70,"out":5,"hash_ids":[ 9 ],"ttft":0.5}],"type":"subagent"},` +
	`{"t":10,"type":"n","model":"m","in":262,"out":8,"hash_ids":[1,2,99,100,101],"stop":""},` +
	`{"t":11,"type":"n","model":"m","in":262,"out":8,"hash_ids":[1,2,99,100,101]}]}`

func TestScanOfCutTraces(t *testing.T) {
	for _, rules := range modes() {
		_, err := Scan([]byte(small), rules)
		require.NoError(t, err)
		for k := range len(small) {
			_, err := Scan([]byte(small[:k]), rules)
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, trace.NotJSON, e.Kind, "%s", small[:k])
		}
	}
}

func TestScanOfFlippedTraces(t *testing.T) {
	for k := range len(small) {
		for bit := range 8 {
			data := []byte(small)
			data[k] ^= 1 << bit
			compareScans(t, data)
		}
	}
}

// Each byte in turn is replaced, doubled, or deleted.
func TestScanOfEditedTraces(t *testing.T) {
	for k := range len(small) {
		for _, c := range []byte("\"\\,:[]{} 019-e.tn\x00\xff") {
			data := []byte(small)
			data[k] = c
			compareScans(t, data)
			compareScans(t, []byte(small[:k]+string(c)+small[k:]))
		}
		compareScans(t, []byte(small[:k]+small[k+1:]))
	}
}

// Each value in turn is replaced by another.
func TestScanOfReplacedValues(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(small))
	for {
		from := d.InputOffset()
		tok, err := d.Token()
		if err != nil {
			return
		}
		to := d.InputOffset()
		if _, delim := tok.(json.Delim); delim {
			continue
		}
		head, tail := strings.TrimRight(small[:to], `"`), small[to:]
		if _, word := tok.(string); word {
			head = head[:strings.LastIndexByte(head, '"')]
		} else {
			head = small[:from+int64(strings.IndexFunc(small[from:to], func(r rune) bool { return !strings.ContainsRune(" ,:", r) }))]
		}
		for _, v := range []string{"null", "true", "0", "-1", "1.5", "1e400", "1e15", "1.1e15", "9223372036854775807", "9223372036854775808", `""`, `"1"`, `"n"`, `"local"`,
			`"subagent"`, "[]", "{}", "[1]", `["a"]`, "16777216", "16777217", "1e-1", "100e-2", "", "1,", "[1,]", `{"a":1,}`} {
			compareScans(t, []byte(head+v+tail))
		}
	}
}

func TestScanOfDeepNesting(t *testing.T) {
	for _, depth := range []int{10, maxDepth - 1, maxDepth + 10, 200_000} {
		nested := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
		for _, where := range []string{`"x":`, `"totals":`} {
			_, err := Scan([]byte(strings.Replace(small, `"totals":`, where+nested+`,"totals":`, 1)), rules.Default())
			if depth < maxDepth && where == `"x":` {
				assert.NoError(t, err)
			} else {
				assert.Error(t, err)
			}
		}
	}
}

func TestScanSaysWhere(t *testing.T) {
	for change, want := range map[string]string{
		`"in":130>"in":-1`:                            `trace "trace": requests[0]: in = -1: a prompt cannot have a negative length`,
		`99,100]>99,x]`:                               `trace "trace": requests[0].hash_ids[3]: not JSON: byte 227: want a value, found 'x'`,
		`[ 9 ]>[ 9, 1.5 ]`:                            `trace "trace": requests[1].requests[0].hash_ids[1]: want a whole number, found 1.5`,
		`"duration_ms":4000>"duration_ms":"4"`:        `trace "trace": requests[1].duration_ms: want number, found "4"`,
		`"agent_id":"a1",>`:                           `trace "trace": requests[1]: required field "agent_id" is missing`,
		`"stop":"">"stop":7`:                          `trace "trace": requests[2].stop: want string, found 7`,
		`"model":"m">"model":null`:                    `trace "trace": requests[0]: required field "model" is null`,
		`"in":130>"in":null`:                          `trace "trace": requests[0]: required field "in" is null`,
		`"in":130>"input_length":null`:                `trace "trace": requests[0]: required field "input_length" is null`,
		`"agent_id":"a1">"agent_id":null`:             `trace "trace": requests[1]: required field "agent_id" is null`,
		`"block_size":64>"block_size":null`:           `trace "trace": block_size: want number, found null`,
		`"hash_id_scope":"local">"hash_id_scope":"l"`: `trace "trace": hash_id_scope: hash_id_scope "l": want "local" or "global"`,
		`"t":-3.0>"t":1e16`:                           `trace "trace": requests[1].requests[0].t: 1e16 seconds: beyond 1e+15`,
		`"t":-3.0>"t":1763805600000000`:               `trace "trace": requests[1].requests[0].t: 1763805600000000 looks like microseconds since 1970: want seconds`,
		`"t":-3.0>"t":1763805600000000000.5`:          `trace "trace": requests[1].requests[0].t: 1763805600000000000.5 looks like nanoseconds since 1970: want seconds`,
		`"id":"tr\u0061ce",>`:                         `required field "id" is missing`,
	} {
		old, now, _ := strings.Cut(change, ">")
		require.Contains(t, small, old)
		_, err := Scan([]byte(strings.Replace(small, old, now, 1)), rules.Default())
		assert.EqualError(t, err, want)
	}
}

// AIPerf reads one scope only. The error about another says so, and which rules read it.
func TestStrictRulesSayWhichScopeTheyTake(t *testing.T) {
	for scope, want := range map[string]string{
		"global": `trace "trace": hash_id_scope: hash_id_scope "global": strict rules (profile aiperf, unknown_keys=reject) take "local" only`,
		"odd":    `trace "trace": hash_id_scope: hash_id_scope "odd": want "local"`,
	} {
		_, err := Scan([]byte(strings.Replace(small, `"hash_id_scope":"local"`, `"hash_id_scope":"`+scope+`"`, 1)), rules.AIPerf())
		require.EqualError(t, err, want)
		assert.Equal(t, scope == "global", err.(*trace.Error).Hint == hintDefault)
	}
}

// The scanner compares a list with the one before as text, whatever is between them, and however they are written.
func TestRepeatedLists(t *testing.T) {
	for _, c := range [][2]string{
		{"1,2,3", "1,2,3"}, {"1,2,3", "1,2,3,4"}, {"1,2,3", "1,2"}, {"1,2,3", "1,2,34"}, {"1,2,3", "1,2,3 ,4"}, {"1,2,34", "1,2,3"},
		{"9,10,11", "9,10"}, {"9,10,11", "9,10,12"}, {"9,10,11", "9,1"}, {"98,99,100", "98,99,1000"}, {"", "1"}, {"1", ""}, {"1 ,2", "1 ,2"}, {"1,2", "1 ,2"},
		{"1,2,3", "1,2,3,"}, {"1,2,3", "1,2,"}, {"1,2,3", "1,2,3]"}, {"1,2,3", "1,2,3.0"}, {"1,2,3", "1,2,3e1"}, {"1,2", "1,2,-3"}, {"-1,2", "-1,2"}, {"1,2", "01,2"},
		{"999999999999999999", "999999999999999999,1000000000000000000"}, {"999999999999999998,999999999999999999", "999999999999999998,99"},
		{"1000000000000000000,1", "1000000000000000000,1,2"}, {"9223372036854775807,-9223372036854775808", "9223372036854775807"},
		{"7,8,9,10,11,12,12,13", "8,9,9,10,20,21"}, {"9999997,9999998,9999999,10000000,10000001,10000002", "99999998,99999999,100000000"},
		{"18,19,1:,21", ""}, {"3,4,5 ,6,7", "3,4,05,6"}, {"3,4,5.0,6", "3,4,5e0,6"}, {"3,4,5;6", ""}, {"3,4,,6", ""}, {"998,999,1000,1001,1003", "4,5,6,7"},
	} {
		element := func(ids string) string {
			return `{"t":0,"type":"n","model":"m","in":1,"out":1,"hash_ids":[` + ids + `]}`
		}
		inner := func(ids string) string {
			return `{"t":0,"type":"subagent","agent_id":"a","requests":[` + element(ids) + `]}`
		}
		for _, requests := range []string{
			element(c[0]) + "," + element(c[1]), element(c[0]) + "," + inner(c[1]) + "," + element(c[1]),
			inner(c[0]) + "," + element(c[1]), element(c[0]) + "," + inner(c[1]) + "," + element(c[0]),
			strings.Replace(element(c[0]), `"hash_ids"`, `"hash_ids":[1,2],"hash_ids"`, 1) + "," + element(c[1]),
		} {
			data := `{"id":"t","models":[],"block_size":1,"requests":[` + requests + `]}`
			want, slowErr := scanSlowly([]byte(data), false)
			tr, err := Scan([]byte(data), rules.Default())
			require.Equal(t, slowErr == nil, err == nil, "%s: %v", data, err)
			if err == nil {
				require.Equal(t, want, plainOf(tr), data)
			}
		}
	}
}

// Inside a request or subagent a wrong first value is no error.
func TestLastValueOfAKeyCounts(t *testing.T) {
	for _, twice := range []string{
		`"in":1,"in":130>"in":130`, `"in":"x","in":130>"in":130`, `"hash_ids":[1,2],"hash_ids":[1,2,99,100]>"hash_ids":[1,2,99,100]`,
		`"hash_ids":[1,2,99,100,7,"x"],"hash_ids":[1,2,99,100]>"hash_ids":[1,2,99,100]`, `"api_time":7,"api_time":2.0>"api_time":2.0`,
		`"input_types":["tool_result"],"input_types":["text"]>"input_types":["text"]`, `"stop":"","stop":"tool_use">"stop":"tool_use"`,
		`"status":"x","status":"completed">"status":"completed"`, `"duration_ms":1,"duration_ms":4000>"duration_ms":4000`,
		`"requests":[{}],"requests":[>"requests":[`, `"tool_tokens":9,"tool_tokens":1,>"tool_tokens":1,`, `"id":"x","id":"tr\u0061ce">"id":"tr\u0061ce"`,
		`"hash_id_scope":"global","hash_id_scope":"local">"hash_id_scope":"local"`, `"type":"s","type":"n">"type":"n"`, `"model":"x","model":"m">"model":"m"`,
	} {
		now, once, _ := strings.Cut(twice, ">")
		require.Contains(t, small, once)
		at := strings.LastIndex(small, once)
		data := small[:at] + now + small[at+len(once):]
		require.Equal(t, "key twice", oddity([]byte(data)), now)
		want, err := scanSlowly([]byte(data), false)
		require.NoError(t, err, now)
		tr, err := Scan([]byte(data), rules.Default())
		require.NoError(t, err, now)
		assert.Equal(t, want, plainOf(tr), now)
	}
}

func TestInputTypes(t *testing.T) {
	for list, want := range map[string]trace.InputTypes{
		`[]`: trace.InputUnknown, `["text"]`: trace.InputUser, `["tool_result"]`: trace.InputTool, `["tool_result","text"]`: trace.InputTool, `["","tool_result"]`: trace.InputTool, `["Tool_Result"]`: trace.InputUser,
	} {
		tr, err := Scan([]byte(strings.Replace(small, `["text"]`, list, 1)), rules.Default())
		require.NoError(t, err)
		assert.Equal(t, want, tr.Entries[0].Input, list)
	}
}

// A request has no requests of its own: the key is unknown, and its value does not count.
func TestRequestsOfARequestAreAnUnknownKey(t *testing.T) {
	for _, inner := range []string{`[{"t":0,"type":"n","model":"other","in":1,"out":1,"odd":1}]`, `[{"t":0,"type":"?","model":"other","in":1,"out":1},{}]`, `7`} {
		data := strings.Replace(small, `"stop":""`, `"requests":`+inner, 1)
		compareScans(t, []byte(data))
		tr, err := Scan([]byte(data), rules.Default())
		require.NoError(t, err)
		assert.Equal(t, []string{"m", "n"}, tr.Models)
		assert.Equal(t, map[string]int{"requests": 1}, tr.Unknown)
	}
}

// The result of Scan does not refer to its input, which callers reuse.
func TestScanKeepsNothingOfItsInput(t *testing.T) {
	data := []byte(small)
	tr, err := Scan(data, rules.Default())
	require.NoError(t, err)
	want := fmt.Sprintf("%+v", plainOf(tr))
	for k := range data {
		data[k] = 'x'
	}
	assert.Equal(t, want, fmt.Sprintf("%+v", plainOf(tr)))
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(small))
	list, err := fixtures.Weka("validation")
	require.NoError(f, err)
	for _, v := range list {
		var in struct{ Trace json.RawMessage }
		require.NoError(f, json.Unmarshal(v.In, &in))
		f.Add([]byte(in.Trace))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareScans(t, data) })
}

// Writers of tables give every request the keys of subagents, and subagents those of requests, as null. Such a null counts as no
// key, except under strict rules.
func TestNullsOfKeysOfAnotherType(t *testing.T) {
	nulls := `"agent_id":null,"subagent_type":null,"duration_ms":null,"status":null,"requests":null,"models":null,"tool_tokens":null,"system_tokens":null,"ttft":null`
	for was, now := range map[string]string{
		`"stop":""`:                `"stop":"",` + nulls,
		`"agent_id":"a1"`:          `"agent_id":"a1","model":null,"in":null,"out":null,"hash_ids":null,"input_types":null,"stop":null,"api_time":null,"ttft":null`,
		`"stop":"tool_use"`:        `"stop":"tool_use","agent_id":"x","agent_id":null`,
		`"output_types":[],"stop"`: `"output_types":[],"requests":[{}],"requests":null,"stop"`,
	} {
		require.Contains(t, small, was)
		data := []byte(strings.Replace(small, was, now, 1))
		tr, err := Scan(data, rules.Default())
		require.NoError(t, err, now)
		assert.Empty(t, tr.Unknown, now)
		if oddity(data) == "" {
			compareScans(t, data)
		}
		r := rules.Default()
		r.UnknownKeys = "reject"
		_, err = Scan(data, r)
		assert.ErrorContains(t, err, "unknown key", now)
	}
	tr, err := Scan([]byte(strings.Replace(small, `"stop":""`, `"stop":"","agent_id":null,"agent_id":"x","odd":null`, 1)), rules.Default())
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"agent_id": 1, "odd": 1}, tr.Unknown)
}

// Null counts as a field left out, where the field may be. AIPerf refuses it with a hint, except in fields that have null as a
// value.
func TestNullCountsAsAFieldLeftOut(t *testing.T) {
	for field, value := range map[string]string{
		"hash_id_scope": `"local"`, "tool_tokens": "10", "totals": `{"a":[null,true,false]}`, "hash_ids": "[1,2,99,100]", "input_types": `["text"]`,
		"output_types": "[]", "stop": `"tool_use"`, "api_time": "2.0", "status": `"completed"`, "subagent_type": `"x"`, "duration_ms": "4000", "ttft": "0.5",
	} {
		given := `"` + field + `":` + value
		require.Contains(t, small, given)
		without := strings.Replace(strings.Replace(small, given+",", "", 1), ","+given, "", 1)
		want, err := Scan([]byte(without), rules.Default())
		require.NoError(t, err)
		null := `"` + field + `":null`
		for _, now := range []string{null, given + "," + null} {
			got, err := Scan([]byte(strings.Replace(small, given, now, 1)), rules.Default())
			require.NoError(t, err, now)
			assert.Equal(t, plainOf(want), plainOf(got), now)
		}
		_, err = Scan([]byte(strings.Replace(small, given, null, 1)), rules.AIPerf())
		if slices.Contains([]string{"totals", "api_time", "ttft", "duration_ms"}, field) {
			require.NoError(t, err, field)
			continue
		}
		require.Error(t, err, field)
		assert.Equal(t, hintNull, err.(*trace.Error).Hint, field)
	}
	for _, given := range []string{`"id":"tr\u0061ce"`, `"models":["m","n"]`, `"block_size":64`, `"model":"m"`, `"in":130`, `"agent_id":"a1"`} { // required
		require.Contains(t, small, given)
		key, _, _ := strings.Cut(given, ":")
		_, err := Scan([]byte(strings.Replace(small, given, key+":null", 1)), rules.AIPerf())
		require.Error(t, err, given)
		assert.Empty(t, err.(*trace.Error).Hint, given)
	}
}

// An error that other traces of the file are likely to have too comes with a hint.
func TestErrorsOfTheWholeFileHaveHints(t *testing.T) {
	hintCapture := "agentx capture, which records a trace from the requests of a client that sends this to a server"
	for data, want := range map[string]string{
		"[]": hintLines, "[" + small + "]": hintLines, small + small: hintLines, "7": hintForm, `{"messages":[]}`: hintCapture, `{"id":"x","messages":[]}`: hintCapture,
		`[{"id":"x","conversations":[]},7]`: hintCapture, `[{"requests":[],"messages":[]}]`: hintLines, `[{"messages":[]`: hintCapture,
		strings.Replace(small, `[1,2,99,100]`, `[1,null]`, 1):                        "",
		strings.Replace(small, `"in":130`, `"in":-130`, 1):                           "",
		strings.Replace(small, `"models":["m","n"],"block_size"`, `"block_size"`, 1): "",
		`{"id":"x`: "",
	} {
		_, err := Scan([]byte(data), rules.Default())
		var e *trace.Error
		require.ErrorAs(t, err, &e, data)
		assert.Equal(t, want, e.Hint, data)
	}
	m := NewMooncake(0, rules.Default())
	err := m.Add([]byte(`{"timestamp":1,"output_length":1,"hash_ids":[1],"wait_for":"x"}`))
	assert.Equal(t, foreign.OfMember("wait_for").Hint(), err.(*trace.Error).Hint)
	for text, want := range map[string]string{
		`{"timestamp":1,"input_length":3,"output_length":4,"hash_ids":[1,2]}`: "write the rows as JSON lines",
		`{"messages":[{"role":"user"}]}`:                                      hintCapture,
	} {
		row, err := rowOf(ColumnPaths(), []byte(text))
		require.NoError(t, err)
		_, err = ScanColumns(row, rules.Default())
		assert.Equal(t, want, err.(*trace.Error).Hint, text)
	}
	_, err = ScanColumns(columnsOf(t, func(c map[string]*column.Column) {
		c["requests[].t"].Kind, c["requests[].t"].Type = column.Other, "INT64 (a duration in nanoseconds by its Arrow schema)"
	}), rules.Default())
	assert.EqualError(t, err, `trace "trace": requests[0].t: want number, found INT64 (a duration in nanoseconds by its Arrow schema)`)
	assert.Equal(t, "write the column requests[].t again as plain numbers, times in seconds", err.(*trace.Error).Hint)
}
