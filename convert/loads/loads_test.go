package loads

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/trace"
)

// reader is what both readers are.
type reader interface{ Add([]byte) error }

// added adds lines, and returns the errors with the numbers of their lines.
func added(r reader, text string) (errs []string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := r.Add([]byte(line)); err != nil {
			errs = append(errs, fmt.Sprintf("%d: %v", n, err))
		}
	}
	return errs
}

func collected(t *testing.T, table *Table) []*trace.Trace {
	seq, err := table.Traces()
	require.NoError(t, err)
	return slices.Collect(seq)
}

// Rows of one session are a trace in the order of their times, others are traces of their own; failures are left out and counted.
func TestBurstGPTSessions(t *testing.T) {
	table := NewTable(0, false, nil)
	require.Empty(t, added(table, "Elapsed time,Timestamp,Session ID,Model,Request tokens,Response tokens\r\n"+
		"1.5,9,a,ChatGPT,472,18\r\n,7,,GPT-4,10,0\r\n2,5.0004,a,ChatGPT,100,3\r\n,6.25,,GPT-4,417,276"))
	list := collected(t, table)
	require.Len(t, list, 2)
	a, alone := list[0], list[1]
	assert.Equal(t, "a", a.ID)
	assert.Equal(t, 5000.0, a.Start.V)
	require.Len(t, a.Entries, 2)
	assert.Equal(t, trace.Request{T: 0, In: 100, Out: 3, APITime: trace.Seconds{V: 2, OK: true}}, a.Entries[0].Request)
	assert.Equal(t, trace.Request{T: 4, In: 472, Out: 18, APITime: trace.Seconds{V: 1.5, OK: true}}, a.Entries[1].Request)
	assert.Equal(t, []int{4, 2}, a.Rows)
	assert.Equal(t, "row-000004", alone.ID)
	assert.Equal(t, 1.25, alone.Entries[0].T)
	assert.Equal(t, "GPT-4", alone.Models[alone.Entries[0].Model])
	assert.Equal(t, trace.Oddities{{Kind: trace.OddityFailed, Count: 1, First: "row 2: Response tokens = 0"}}, a.Oddities)
	assert.ErrorContains(t, table.Add([]byte("-1,9,a,ChatGPT,1,1")), "Elapsed time = -1 s: want 0 or more")
}

// A failed request can be kept. A file that has no other is refused.
func TestFailedRowsAreKept(t *testing.T) {
	const text = "Timestamp,Model,Request tokens,Response tokens\n1,m,5,0\n2,m,6,0\n"
	table := NewTable(0, true, nil)
	require.Empty(t, added(table, text))
	list := collected(t, table)
	require.Len(t, list, 2)
	assert.Equal(t, trace.Request{T: 1, In: 6}, list[1].Entries[0].Request)
	assert.Empty(t, list[0].Oddities)

	table = NewTable(0, false, nil)
	require.Empty(t, added(table, text))
	_, err := table.Traces()
	assert.EqualError(t, err, "all requests of the file failed: every row has Response tokens = 0")
}

// A row without a session has the name of its row, unless the file calls a session so.
func TestNamesOfRows(t *testing.T) {
	table := NewTable(0, false, nil)
	require.Empty(t, added(table, "Timestamp,Model,Request tokens,Response tokens,Session ID\n1,m,5,1,row-000002\n2,m,6,1,\n"))
	list := collected(t, table)
	assert.Equal(t, "row-000002#2", list[1].ID)

	d := NewDynamo(0, 0, nil)
	require.Empty(t, added(d, fmt.Sprintf(requestEnd, 5, "", "", 1, 1, 4)+fmt.Sprintf(requestEnd, 7, "row-000001", "", 2, 2, 5)))
	seq, err := d.Traces()
	require.NoError(t, err)
	var names []string
	for tr := range seq {
		names = append(names, tr.ID)
	}
	assert.Equal(t, []string{"row-000001#2", "row-000001"}, names)
}

// A line that is no row is refused with the column, and shows nothing of the line.
func TestWrongLines(t *testing.T) {
	table := NewTable(1, false, nil)
	assert.Equal(t, []string{
		"2: 2 fields, and the header has 3",
		"3: TIMESTAMP: want seconds, or a time such as 2023-11-16 18:17:03.9799600",
		"4: ContextTokens: want a whole number of tokens",
		"5: GeneratedTokens: want a whole number of tokens",
		"6: ContextTokens = -1: a prompt cannot have a negative length",
		"7: GeneratedTokens = -1: want 0 or more",
		"8: ContextTokens = 99999999999, GeneratedTokens = 1: larger than 16777216 tokens",
	}, added(table, "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\ncanary,1,1\n1,canary,1\n1,1,1.5\n1,-1,1\n1,1,-1\n1,99999999999,1\n\"2023-11-16 18:17:03\", 1 ,1\n"+
		"2023-11-16T18:17:03.5+01:00,1,1\nTIMESTAMP,ContextTokens,GeneratedTokens\n"))
	list := collected(t, table)
	require.Len(t, list, 2)
	assert.Equal(t, "2/row-000009", list[0].ID, "an hour earlier, by its zone")
	assert.Equal(t, 3599.5, list[1].Entries[0].T)
}

const chats = `{"chat_id":1,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":1,"type":"text","hash_ids":[1]}
{"chat_id":2,"parent_chat_id":1,"timestamp":5,"input_length":32,"output_length":1,"type":"text","hash_ids":[1,2]}
{"chat_id":3,"parent_chat_id":1,"timestamp":4,"input_length":32,"output_length":1,"type":"text","hash_ids":[1,3]}
{"chat_id":4,"parent_chat_id":2,"timestamp":8,"input_length":48,"output_length":1,"type":"text","hash_ids":[1,2,4]}
{"chat_id":5,"parent_chat_id":2,"timestamp":7,"input_length":48,"output_length":1,"type":"text","hash_ids":[1,2,5]}
`

// The earliest of those behind a request goes on in its session; another one begins a branch, and so does one behind a branch.
func TestBailianBranches(t *testing.T) {
	b := NewBailian(0, 3, nil)
	require.Empty(t, added(b, chats))
	seq, err := b.Traces()
	require.NoError(t, err)
	list := slices.Collect(seq)
	require.Len(t, list, 1)
	tr := list[0]
	require.NoError(t, tr.Check())
	require.Len(t, tr.Entries, 4) // 1, 3; branches 2, 5 and 4
	assert.Equal(t, 3.0, tr.Entries[1].T)
	assert.Equal(t, &trace.Links{Branch: true, Parent: none, After: 0, Before: none}, tr.Entries[2].Subagent.Links)
	assert.Equal(t, "2", tr.Entries[2].Subagent.AgentID)
	assert.Len(t, tr.Entries[2].Subagent.Requests, 2)
	assert.Equal(t, &trace.Links{Branch: true, Parent: 2, After: 0, Before: none}, tr.Entries[3].Subagent.Links)
	assert.Equal(t, "4", tr.Entries[3].Subagent.AgentID)
	assert.Equal(t, 3, tr.Namespace)
	assert.Equal(t, 2, tr.Oddities[0].Count)
}

// Parents that are missing, and rings of parents, begin sessions and are counted. No row is lost.
func TestBailianParents(t *testing.T) {
	b := NewBailian(0, 0, nil)
	row := func(id, parent, at int) string {
		return fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":1,"output_length":1,"hash_ids":[1]}`+"\n", id, parent, at)
	}
	// 1 lacks its parent, 2 and 3 are a ring, 4 names itself; 5 and 6, earlier than the ring, hang on it
	require.Empty(t, added(b, row(1, 9, 5)+row(2, 3, 4)+row(3, 2, 3)+row(4, 4, 6)+row(5, 2, 1)+row(6, 5, 2)))
	seq, err := b.Traces()
	require.NoError(t, err)
	list := slices.Collect(seq)
	requests := map[string]int{}
	for _, tr := range list {
		for range tr.Requests() {
			requests[tr.ID]++
		}
	}
	assert.Equal(t, map[string]int{"1": 1, "3": 4, "4": 1}, requests)
	assert.Equal(t, trace.Oddities{{Kind: trace.OddityCycle, Count: 2, First: "chat_id 3"}, {Kind: trace.OddityOrphan, Count: 1, First: "chat_id 1"}}, list[0].Oddities[len(list[0].Oddities)-2:])
}

func TestBailianWrongRows(t *testing.T) {
	b := NewBailian(0, 0, nil)
	assert.Equal(t, []string{
		"2: chat_id 1 twice",
		"3: 1 hash_ids for 17 tokens, which have 2 blocks of 16",
		"4: hash_ids: it is missing",
		"5: chat_id: byte 11: want a digit, found '\"'",
		"6: byte 13: want ',' or '}', found '\"'",
	}, added(b, `{"chat_id":1,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":1,"hash_ids":[1]}
{"chat_id":1,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":1,"hash_ids":[1]}
{"chat_id":2,"parent_chat_id":-1,"timestamp":1,"input_length":17,"output_length":1,"hash_ids":[1]}
{"chat_id":3,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":1}
{"chat_id":"canary"}
{"chat_id":1 "canary"}
`))
}

const requestEnd = `{"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"agent_context":{"session_id":%q,"parent_session_id":%q},"request":{"request_id":"r%d","model":"m","input_tokens":70,"output_tokens":1,"request_received_ms":%d,"total_time_ms":%d,"replay":{"trace_block_size":64,"input_length":70,"input_sequence_hashes":[1,18446744073709551615]}}}}` + "\n"

// Children hang behind the turn that ended before them, and the turn behind their end waits; those of a child hang on that.
func TestDynamoChildren(t *testing.T) {
	d := NewDynamo(1, 2, nil)
	text := ""
	for k, r := range []struct {
		session, parent string
		at, took        int
	}{{"a", "", 0, 100}, {"b", "a", 150, 100}, {"c", "b", 260, 10}, {"a", "", 300, 100}, {"b", "a", 280, 5}, {"x", "y", 10, 1}, {"y", "x", 11, 1}} {
		text += fmt.Sprintf(requestEnd, 1000+r.at+r.took, r.session, r.parent, k, 1000+r.at, r.took)
	}
	require.Empty(t, added(d, text))
	seq, err := d.Traces()
	require.NoError(t, err)
	list := slices.Collect(seq)
	require.Len(t, list, 2)
	a := list[0]
	require.NoError(t, a.Check())
	assert.Equal(t, "2/a", a.ID)
	require.Len(t, a.Entries, 4) // a, a, b, c
	assert.Equal(t, &trace.Links{Parent: trace.None, After: 0, Before: 1}, a.Entries[2].Subagent.Links, "the last of b ends at 285, and a goes on at 300")
	assert.Equal(t, &trace.Links{Parent: 2, After: 0, Before: 1}, a.Entries[3].Subagent.Links)
	assert.Equal(t, trace.IDs{Runs: []trace.Run{{First: 0, N: 2}}, Len: 2}, a.Entries[0].IDs)
	assert.Equal(t, trace.Oddities{{Kind: trace.OddityCycle, Count: 1, First: "row 6"}}, a.Oddities)
}

// Where sessions hang and how long tools ran is what plain loops over all turns and all milliseconds find.
func TestDynamoLinksAndTools(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		d, parent := NewDynamo(0, 0, nil), &session{}
		for range 1 + random.IntN(8) {
			d.rows = append(d.rows, dynamoRow{request: request{at: random.Int64N(40), took: random.Int64N(15)}})
		}
		slices.SortFunc(d.rows, func(a, b dynamoRow) int { return int(a.at - b.at) })
		for k := range d.rows {
			parent.rows = append(parent.rows, int32(k))
		}
		child := request{at: random.Int64N(50), took: random.Int64N(15)}
		d.rows = append(d.rows, dynamoRow{request: child})
		want := trace.Links{Before: none}
		for k := range parent.rows {
			if d.rows[k].end() <= child.at {
				want.After = k
			}
		}
		for k := len(parent.rows) - 1; k > want.After; k-- {
			if d.rows[k].at >= child.end() {
				want.Before = k
			}
		}
		assert.Equal(t, want, d.links(parent, &session{rows: []int32{int32(len(parent.rows))}}, d.ends(parent)))

		var spans []span
		ran := map[int64]bool{}
		for range random.IntN(6) {
			from := random.Int64N(40)
			spans = append(spans, span{from, from + random.Int64N(10)})
			for at := from; at < spans[len(spans)-1].to; at++ {
				ran[at] = true
			}
		}
		sum := int64(0)
		for at := child.at; at < child.end(); at++ {
			if ran[at] {
				sum++
			}
		}
		assert.Equal(t, sum, covered(union(spans), child.at, child.end()))
	}
}

func TestDynamoWrongRows(t *testing.T) {
	d := NewDynamo(0, 0, nil)
	assert.Equal(t, []string{
		"1: schema: want dynamo.request.trace.v1 or dynamo.agent.trace.v1",
		"2: request.input_tokens or request.replay.input_length: it is missing",
		"3: request.replay.input_sequence_hashes: byte 179: want a whole number that is not negative, found '\"'",
		"4: byte 63: want ',' or '}', found 'c'",
	}, added(d, `{"schema":"dynamo.request.trace.v2","event_type":"request_end"}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_id":"canary"}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_id":"r","input_tokens":1,"output_tokens":1,"total_time_ms":1,"replay":{"input_sequence_hashes":["canary"]}}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end" canary
`))
	const begin, end = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1,`, `}}`
	for text, want := range map[string]string{
		`"agent_context":"canary","request":{`:                                                     "1: agent_context: byte 102: want '{', found '\"'",
		`"request":{"input_tokens":1,"output_tokens":1,"total_time_ms":1e400`:                      "1: request.total_time_ms: a number beyond 10^308",
		`"request":{"input_tokens":1,"output_tokens":1`:                                            "1: request.total_time_ms: it is missing",
		`"request":{"input_tokens":-1,"output_tokens":1,"total_time_ms":1`:                         "1: input_tokens = -1: a prompt cannot have a negative length",
		`"request":{"input_tokens":1,"output_tokens":-1,"total_time_ms":1`:                         "1: output_tokens = -1: want 0 or more",
		`"request":{"request_received_ms":-5,"input_tokens":1,"output_tokens":1,"total_time_ms":1`: "1: the time = -0.005 s: want 0 or more",
		`"request":{"input_tokens":1,"output_tokens":1,"total_time_ms":1,"replay":{"trace_block_size":64,"input_length":9223372036854775807,"input_sequence_hashes":[]}`:    "1: replay.input_length = 9223372036854775807, output_tokens = 1: larger than 16777216 tokens",
		`"request":{"input_tokens":1,"output_tokens":1,"total_time_ms":1,"replay":{"trace_block_size":64,"input_sequence_hashes":[]}`:                                       "1: request.replay.input_length: it is missing",
		`"request":{"input_tokens":1,"output_tokens":1,"total_time_ms":1,"replay":{"trace_block_size":64,"input_length":64,"input_sequence_hashes":[18446744073709551616]}`: "1: request.replay.input_sequence_hashes: byte 225: want a number of at most 18446744073709551615",
	} {
		assert.Equal(t, []string{want}, added(NewDynamo(0, 0, nil), begin+text+end), text)
	}
	d = NewDynamo(0, 0, nil)
	require.Empty(t, added(d, `{"schema":"dynamo.request.trace.v1","event_type":"tool_end","tool":{"started_at_unix_ms":1,"ended_at_unix_ms":1e300}}`))
	assert.Empty(t, d.tools)
}

const agenticHeader = `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local"}` + "\n"

// refusal returns why a file of agentic_mooncake is refused, of its rows or as a whole.
func refusal(text string) string {
	a := NewAgentic(0, 0, 0, nil)
	if errs := added(a, text); len(errs) > 0 {
		return strings.Join(errs, "; ")
	}
	_, err := a.Traces()
	var e *trace.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("row %d: %v", e.Row, e)
	}
	return ""
}

func TestAgenticRefusals(t *testing.T) {
	row := func(id, more string) string {
		return fmt.Sprintf(`{"request_id":%q,"play_id":"p","input_length":64,"output_length":1,"hash_ids":[1],"not_before_ms":0%s}`, id, more) + "\n"
	}
	wait := func(id string) string {
		return fmt.Sprintf(`,"dependencies":[{"request_id":%q,"trigger":"completion","delay_ms":0}]`, id)
	}
	for text, want := range map[string]string{
		row("a", ""): "1: rows of version 2 without their header",
		`{"schema":"dynamo.agentic_mooncake","version":3,"block_size":64}`:                                                                             "1: schema: want dynamo.agentic_mooncake, version 2",
		`{"schema":"dynamo.agentic_mooncake","version":2}`:                                                                                             "1: block_size: block size 0: want 1 to 1048576 tokens",
		agenticHeader + row("a", "") + strings.Replace(agenticHeader, "64", "32", 1):                                                                   "3: block_size: rows before this header have another",
		agenticHeader + row("a", wait("a")):                                                                                                            "row 2: it waits for a request that its play does not have, or for itself",
		agenticHeader + row("a", wait("canary")):                                                                                                       "row 2: it waits for a request that its play does not have, or for itself",
		agenticHeader + row("a", wait("b")) + strings.Replace(row("b", ""), `"p"`, `"q"`, 1):                                                           "row 2: it waits for a request that its play does not have, or for itself",
		agenticHeader + row("a", "") + row("b", wait("c")) + row("c", wait("b")):                                                                       "row 3: requests wait for one another in a circle",
		agenticHeader + row("a", "") + row("a", ""):                                                                                                    "3: request_id: it is that of row 2, too",
		agenticHeader + strings.Replace(row("a", ""), "64", "65", 1):                                                                                   "row 2: 1 hash_ids for 65 tokens, which have 2 blocks of 64",
		agenticHeader + strings.Replace(row("a", ""), `"play_id":"p",`, "", 1):                                                                         "2: play_id: it is missing",
		agenticHeader + row("a", `,"recorded_api_time_ms":-1`) + row("b", `,"dependencies":[{"request_id":"a","trigger":"completion","delay_ms":-1}]`): "3: a delay or duration = -0.001 s: want 0 or more",
		agenticHeader + row("b", `,"dependencies":[{"request_id":"a","trigger":"canary"}]`):                                                            "2: dependencies.trigger: want completion or dispatch",
		agenticHeader + row("a", `,"dependencies":{}`):                                                                                                 "2: dependencies: byte 116: want '[', found '{'",
		agenticHeader + strings.Replace(row("a", ""), ":64", ":-1", 1):                                                                                 "2: input_length = -1: a prompt cannot have a negative length",
		`{"request_id":"a","input_length":5,"output_length":1,"hash_ids":[1,2],"wait_for":[]}`:                                                         "row 1: lengths and hash_ids of the file fit 0 block sizes of [16 32 64 128 256 1024] and 512",
	} {
		assert.Equal(t, want, refusal(text), text)
	}
}

func TestAppliedRefusals(t *testing.T) {
	a := NewApplied(0, nil)
	assert.Equal(t, []string{
		"1: num_turns = 1: assistant_response_length has 2 values, tool_call_output_length 1, tool_call_latency 1",
		"2: want num_turns, input_prompt_length and final_assistant_response_length of 0 or more",
		"3: tool_call_latency = -1 s: want 0 or more",
		"4: the prompt = 16777217, assistant_response_length = 1: larger than 16777216 tokens",
		"5: tool_call_output_length: byte 98: want a digit, found '\"'",
	}, added(a, `{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1,2],"tool_call_output_length":[1],"tool_call_latency":[0],"final_assistant_response_length":1}
{"num_turns":1,"assistant_response_length":[1],"tool_call_output_length":[1],"tool_call_latency":[0],"final_assistant_response_length":1}
{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[1],"tool_call_latency":[-1],"final_assistant_response_length":1}
{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[16777215],"tool_call_latency":[0],"final_assistant_response_length":1}
{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":["canary"]}
`))
	seq, err := a.Traces()
	require.NoError(t, err)
	assert.Empty(t, slices.Collect(seq))
}

// Whatever stands in a file, readers return errors of one type and traces that are sound.
func FuzzReaders(f *testing.F) {
	for _, text := range []string{chats, fmt.Sprintf(requestEnd, 5, "a", "b", 1, 1, 4) + fmt.Sprintf(requestEnd, 7, "b", "a", 2, 2, 5), "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n",
		agenticHeader + `{"request_id":"a","play_id":"p","output_length":1,"hash_ids":[1],"dependencies":[{"request_id":"b","trigger":"dispatch","delay_ms":1}]}` + "\n" + `{"request_id":"b","play_id":"p","output_length":1,"hash_ids":[1]}`,
		`{"request_id":"a","output_length":1,"hash_ids":[1],"wait_for":["b"]}` + "\n" + `{"request_id":"b","output_length":1,"hash_ids":[2]}`,
		`{"num_turns":1,"input_prompt_length":1,"assistant_response_length":[1],"tool_call_output_length":[2],"tool_call_latency":[0.5],"final_assistant_response_length":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []interface {
			Add([]byte) error
			Traces() (iter.Seq[*trace.Trace], error)
		}{NewBailian(0, 0, nil), NewDynamo(0, 0, nil), NewTable(0, false, nil), NewAgentic(0, 0, 0, nil), NewApplied(0, nil)} {
			var e *trace.Error
			for line := range strings.Lines(text) {
				if err := r.Add([]byte(line)); err != nil {
					require.ErrorAs(t, err, &e)
				}
			}
			list, err := r.Traces()
			if err != nil {
				require.ErrorAs(t, err, &e)
				continue
			}
			for tr := range list {
				if err := tr.Check(); err != nil {
					require.ErrorAs(t, err, &e)
				}
			}
		}
	})
}
