package weka

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/trace"
)

// idsOfRange is the list FROM to TO-1, and then more ids.
func idsOfRange(from, to int64, more ...int64) (l trace.IDs) {
	for id := from; id < to; id++ {
		l.Append(id)
	}
	for _, id := range more {
		l.Append(id)
	}
	return l
}

// recording is the trace of doc/spec/capture.md 9.3: two requests, and a subagent.
func recording() *Recording {
	return &Recording{ID: "cap-3f9a1c20", BlockSize: 4, SystemTokens: 9, Entries: []RecordedEntry{
		{RecordedRequest: RecordedRequest{Streamed: true, Model: "m-large", In: 22, Out: 9, IDs: idsOfRange(0, 5), InputTypes: []string{"text"},
			OutputTypes: []string{"text", "tool_use"}, Stop: "tool_use", APITime: 2000, TTFT: 610, ThinkTime: Unknown}},
		{RecordedRequest: RecordedRequest{T: 5100, Streamed: true, Model: "m-large", In: 50, Out: 31, IDs: idsOfRange(0, 12),
			InputTypes: []string{"tool_result"}, OutputTypes: []string{"tool_use"}, Stop: "tool_use", APITime: 2900, TTFT: 500, ThinkTime: 3100}},
		{Subagent: &RecordedSubagent{T: 8310, AgentID: "agent_001", Type: "Explore", Status: "completed", Duration: 1210, TotalTokens: 25,
			SystemTokens: 9, Requests: []RecordedRequest{{T: 8310, Model: "m-small", In: 18, Out: 7, IDs: idsOfRange(0, 2, 12, 13),
				InputTypes: []string{"text"}, OutputTypes: []string{"text"}, Stop: "end_turn", APITime: 1210, TTFT: Unknown, ThinkTime: Unknown}}}},
	}}
}

// The request and the subagent of the specification, byte for byte, in a trace that Check takes.
func TestRecordingOfTheSpecification(t *testing.T) {
	text := string(recording().AppendJSON(nil))
	assert.True(t, strings.HasPrefix(text, `{"id":"cap-3f9a1c20","models":["m-large","m-small"],"block_size":4,"hash_id_scope":"local","tool_tokens":0,"system_tokens":9,"requests":[{"t":0,`), text)
	assert.Contains(t, text, `,{"t":5.1,"type":"s","model":"m-large","in":50,"out":31,"hash_ids":[0,1,2,3,4,5,6,7,8,9,10,11],"input_types":["tool_result"],"output_types":["tool_use"],"stop":"tool_use","api_time":2.9,"ttft":0.5,"think_time":3.1},`)
	assert.Contains(t, text, `,{"t":8.31,"type":"subagent","agent_id":"agent_001","subagent_type":"Explore","duration_ms":1210,"total_tokens":25,"tool_use_count":0,"status":"completed","models":["m-small"],"tool_tokens":0,"system_tokens":9,"requests":[{"t":8.31,"type":"n","model":"m-small","in":18,"out":7,"hash_ids":[0,1,12,13],"input_types":["text"],"output_types":["text"],"stop":"end_turn","api_time":1.21}]}]`)
	assert.True(t, strings.HasSuffix(text, `],"totals":{"parent_tokens":{"input":72,"output":40},"subagent_tokens":{"input":18,"output":7},"combined_tokens":{"input":90,"output":47},"subagent_count":1}}`+"\n"), text)
	c := Check([]byte(text))
	assert.Empty(t, c.Problems)
	assert.Empty(t, c.Alarms)
	assert.Equal(t, 3, c.Requests)

	empty := (&Recording{ID: "x", BlockSize: 1}).AppendJSON(nil)
	assert.Equal(t, []string(nil), Check(empty).Problems, "%s", empty)
}

// Numbers of milliseconds are written with at most three decimals and no trailing zeros.
func TestMillisecondsAsSeconds(t *testing.T) {
	for ms, want := range map[Millis]string{0: "0", 1: "0.001", 10: "0.01", 120: "0.12", 1000: "1", 60_001: "60.001", 1<<40 + 500: "1099511628.276"} {
		w := recordingWriter{text: []byte("{")}
		w.seconds("t", ms)
		assert.Equal(t, `{"t":`+want, string(w.text))
		back, err := strconv.ParseFloat(want, 64)
		require.NoError(t, err)
		assert.Equal(t, int64(ms), inMillis(back))
	}
}

// What Check refuses: a change of a good trace, and where the problem is.
//
// Covers C-44.
func TestCheckRefuses(t *testing.T) {
	good := string(recording().AppendJSON(nil))
	for _, c := range []struct{ from, to, problem string }{
		{`"t":5.1,`, `"t":5.1,"seen":1,`, `requests[1]: unknown key "seen"`},
		{`"t":8.31,"type":"n",`, `"t":8.31,"ttft":1,"type":"n",`, `requests[2].requests[0]: unknown key "ttft"`},
		{`"in":50`, `"input_length":50`, `unknown field "input_length"`},
		{`"id":`, `"extra":{},"id":`, `unknown key "extra"`},
		{`"t":8.31,"type":"n"`, `"t":8.31,"type":"subagent","agent_id":"agent_002","requests":[]`, `a subagent inside a subagent`},
		{`"in":50`, `"in":48.5`, `requests[1].in: want a whole number`},
		{`"in":50`, `"in":52`, `requests[1].hash_ids: 12 ids: want 13, for 52 tokens in blocks of 4`},
		{`[0,1,12,13]`, `[0,1,12]`, `requests[2].requests[0].hash_ids: 3 ids: want 4`},
		{`[0,1,12,13]`, `[0,1,13,12]`, `id 13 at 2: want 12 for the next new block`},
		{`[0,1,12,13]`, `[0,2,12,13]`, `id 2 at 1: it follows 0 here, and 1 before`},
		{`[0,1,12,13]`, `[1,0,12,13]`, `id 1 at 0: it follows -1 here, and 0 before`},
		{`[0,1,12,13]`, `[0,1,-12,13]`, `id -12 at 2`},
		{`"in":22,"out":9,"hash_ids":[0,1,2,3,4]`, `"in":0,"out":9,"hash_ids":[]`, `requests[0].in: 0: want at least 1`},
		{`"out":9`, `"out":-1`, `requests[0].out: -1: want at least 0`},
		{`"t":5.1,`, `"t":9,`, `requests[2].t: 8.31: before that of the entry before, 9`},
		{`"t":0,`, `"t":-1,`, `requests[0].t: -1: want at least 0`},
		{`"t":8.31,"type":"n"`, `"t":8.3,"type":"n"`, `requests[2].requests[0].t: 8.3: before that of the subagent, 8.31`},
		{`"ttft":0.5`, `"ttft":2.91`, `requests[1].ttft: 2.91: want 0 to api_time, 2.9`},
		{`"ttft":0.5`, `"ttft":-0.5`, `requests[1].ttft: -0.5`},
		{`"api_time":2.9`, `"api_time":-2.9`, `requests[1].api_time: -2.9`},
		{`"api_time":2.9,`, ``, `requests[1].api_time: it is missing`},
		{`"think_time":3.1`, `"think_time":3.101`, `requests[1].think_time: 3.101: want 0 to the gap behind the request before, 3.1`},
		{`"ttft":0.61`, `"ttft":0.61,"think_time":0`, `requests[0].think_time: 0: its request continues no other request, so no think time stands before it`},
		{`"input_types":["tool_result"]`, `"input_types":["image"]`, `requests[1].input_types[0]: "image": want one of`},
		{`"output_types":["text","tool_use"]`, `"output_types":["tool_use","text"]`, `requests[0].output_types: ["tool_use" "text"]: want each once, and sorted`},
		{`"output_types":["text","tool_use"],`, ``, `requests[0].output_types: it is missing`},
		{`"stop":"end_turn"`, `"stop":"length"`, `requests[2].requests[0].stop: "length": want one of`},
		{`"status":"completed"`, `"status":"done"`, `requests[2].status: "done": want one of`},
		{`"Explore"`, `"explore"`, `requests[2].subagent_type: "explore": want one of`},
		{`"duration_ms":1210`, `"duration_ms":-1`, `requests[2].duration_ms: -1`},
		{`agent_001`, `secret`, `requests[2].agent_id: "secret": want`},
		{`"cap-3f9a1c20"`, `"../up"`, `id: "../up": want`},
		{`"model":"m-small"`, `"model":"m small"`, `requests[2].requests[0].model: "m small": want`},
		{`"models":["m-small"]`, `"models":[]`, `requests[2].models: []: its requests have ["m-small"]`},
		{`"models":["m-large","m-small"]`, `"models":["m-small","m-large"]`, `models: ["m-small" "m-large"]: its requests have ["m-large" "m-small"]`},
		{`"input":90`, `"input":91`, `totals.combined_tokens: input 91, output 47: its requests have 90 and 47`},
		{`"subagent_count":1`, `"subagent_count":2`, `totals.subagent_count: 2: it has 1`},
		{`"subagent_count":1`, `"subagent_count":1,"more":1`, `totals: json: unknown field "more"`},
		{`"totals":{`, `"totals":null,"old":{`, `unknown key "old"`},
		{`"tool_tokens":0,"system_tokens":9,"requests":[{"t":0,`, `"system_tokens":9,"requests":[{"t":0,`, `tool_tokens: it is missing`},
		{`"local"`, `"all"`, `hash_id_scope`},
		{`}` + "\n", ``, `not JSON`},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		require.NotEqual(t, good, bad, c.from)
		assert.Contains(t, strings.Join(Check([]byte(bad)).Problems, "\n"), c.problem, "%s instead of %s", c.to, c.from)
	}
	none := regexp.MustCompile(`,"totals":.*}}`).ReplaceAllString(good, "}")
	assert.Equal(t, []string{"totals: it is missing"}, Check([]byte(none)).Problems)
	twice := recording()
	twice.Entries = append(twice.Entries, twice.Entries[2])
	assert.Equal(t, []string{`requests[3].agent_id: "agent_001" is that of requests[2]`}, Check(twice.AppendJSON(nil)).Problems)
}

// Ids of the scope global have any numbers, and one predecessor.
func TestCheckOfScopeGlobal(t *testing.T) {
	r := recording()
	r.Global = true
	text := string(r.AppendJSON(nil))
	require.Contains(t, text, `"hash_id_scope":"global"`)
	for list, problems := range map[string][]string{
		"[0,1,12,13]":     nil,
		"[900,901,17,30]": nil,
		"[0,1,5,13]":      {"requests[2].requests[0].hash_ids: id 5 at 2: it follows 1 here, and 4 before"},
	} {
		assert.Equal(t, problems, Check([]byte(strings.Replace(text, "[0,1,12,13]", list, 1))).Problems, list)
	}
}

// A trace with many problems tells the first ones, and how many more there are.
func TestProblemsAreBounded(t *testing.T) {
	r := recording()
	r.Entries[2].Subagent.Requests[0].Stop = "odd"
	for range 40 {
		r.Entries = append(r.Entries, r.Entries[2])
	}
	c := Check(r.AppendJSON(nil))
	assert.Len(t, c.Problems, maxProblems)
	assert.Equal(t, 41+40-maxProblems, c.More)
}

// Alarms: prompts that lack the last block of the one before, and prompts that begin anew.
func TestAlarms(t *testing.T) {
	request := func(k int, ids trace.IDs) RecordedEntry {
		return RecordedEntry{RecordedRequest: RecordedRequest{T: Millis(k) * 1000, Model: "m", In: ids.Len, Out: 1, IDs: ids, TTFT: Unknown, ThinkTime: Unknown}}
	}
	r := &Recording{ID: "x", BlockSize: 1}
	for k := range 10 {
		ids := idsOfRange(0, 100)
		for more := range k {
			ids.Append(int64(100 + more))
		}
		r.Entries = append(r.Entries, request(k, ids))
	}
	assert.Empty(t, checkAlarms(t, r))
	r.Entries = append(r.Entries, request(10, idsOfRange(0, 108, 109)))
	assert.Equal(t, []string{"1 of 10 requests lack the last block of the request before, and that alone: something after each prompt is hashed with it"}, checkAlarms(t, r))

	r.Entries = nil
	for k := range int64(9) {
		r.Entries = append(r.Entries, request(int(k), idsOfRange(10*k, 10*k+10)))
	}
	assert.Equal(t, []string{"9 of 9 chains of prompts share no block with another: something near the beginning of each prompt differs"}, checkAlarms(t, r))
	r.Entries = r.Entries[:7]
	assert.Empty(t, checkAlarms(t, r))
}

func checkAlarms(t *testing.T, r *Recording) []string {
	c := Check(r.AppendJSON(nil))
	require.Empty(t, c.Problems)
	return c.Alarms
}

// Predecessors are those of a search over all pairs, of random requests of several agents on a random tree.
func TestPredecessorsAgainstAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 7))
	for range 300 {
		parents := []int32{-1}
		for range 30 {
			parents = append(parents, int32(random.IntN(len(parents))))
		}
		path := func(block int32) (list []int32) {
			for ; block > 0; block = parents[block] {
				list = append([]int32{block}, list...)
			}
			return list
		}
		found := NewPredecessors(parents, 0)
		for range 3 {
			var requests []Stay
			now := int64(0)
			for range random.IntN(12) {
				now += random.Int64N(4)
				requests = append(requests, Stay{now, now + random.Int64N(8), int32(random.IntN(len(parents)))})
			}
			got := found.Of(requests)
			for k, r := range requests {
				want := Predecessor{Index: -1}
				for j, s := range requests[:k] {
					shared := 0
					a, b := path(r.Last), path(s.Last)
					for shared < min(len(a), len(b)) && a[shared] == b[shared] {
						shared++
					}
					better := shared > want.Shared || shared > 0 && shared == want.Shared && s.End >= requests[want.Index].End
					if s.End <= r.Begin && shared > 0 && better {
						want = Predecessor{j, shared}
					}
				}
				require.Equal(t, want, got[k], "%v", requests)
			}
		}
	}
}

// Lists are written id by id, wherever their runs lie: at the first ids, across widths, and beyond those of which the writer keeps
// the digits.
func TestIDsAreWrittenOneByOne(t *testing.T) {
	var w recordingWriter
	for _, runs := range [][]trace.Run{
		{{First: 0, N: 1}}, {{First: 5, N: 12}, {First: 3, N: 1}}, {{First: 95, N: 10}, {First: 998, N: 5}}, {{First: 0, N: 3000}}, {{First: maxDigits - 3, N: 3}}, {{First: maxDigits - 3, N: 4}}, {{First: maxDigits, N: 2}, {First: 7, N: 2}}, {{First: 1 << 40, N: 3}}, nil,
	} {
		want, list := []byte{}, trace.IDs{}
		for _, r := range runs {
			for k := range r.N {
				list.Append(r.First + int64(k))
				want = strconv.AppendInt(append(want, ','), r.First+int64(k), 10)
			}
		}
		w.text = append(w.text[:0], '{')
		w.ids(list)
		require.True(t, `{"hash_ids":[`+strings.TrimPrefix(string(want), ",")+`]` == string(w.text), "%v", runs)
	}
}
