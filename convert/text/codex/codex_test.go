package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// byteTokens is a tokenizer whose tokens are bytes.
type byteTokens struct{}

func (byteTokens) AppendIDs(ids []uint32, s string) []uint32 {
	return append(ids, make([]uint32, len(s))...)
}

// rollout returns the rows of a file that words describe, each at an instant in milliseconds: 1000 u hi.
//
//	meta ID [subagent|fork|parent|base PARENT]   u TEXT   d TEXT   a TEXT   think TEXT   call ID [NAME]   result ID TEXT   item TYPE
//	in IN [TOTAL]   total TOTAL   null   model NAME   compact u TEXT, a TEXT   rebuild TEXT   back N   abort
func rollout(lines string) (rows []string) {
	for n, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, payload := payloadOf(rest)
		r := map[string]any{"type": kind, "payload": payload, "ordinal": n}
		if at != "-" {
			var ms int
			_, _ = fmt.Sscan(at, &ms)
			r["timestamp"] = fmt.Sprintf("2026-01-02T15:%02d:%02d.%03dZ", ms/60000, ms/1000%60, ms%1000)
		}
		rows = append(rows, row(r))
	}
	return rows
}

type object = map[string]any

func message(role, said string) object {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	return object{"type": "message", "role": role, "content": []any{object{"type": kind, "text": said}}}
}

var roles = map[string]string{"u": "user", "d": "developer", "a": "assistant", "s": "system"}

// payloadOf returns the type and the payload of a row.
func payloadOf(words string) (string, object) {
	word, rest, _ := strings.Cut(words, " ")
	first, second, _ := strings.Cut(rest, " ")
	event := func(o object) (string, object) { return "event_msg", o }
	item := func(o object) (string, object) { return "response_item", o }
	switch word {
	case "meta":
		o := object{"id": first, "base_instructions": object{"text": "S"}}
		switch how, parent, _ := strings.Cut(second, " "); how {
		case "subagent":
			o["source"] = object{"subagent": object{"thread_spawn": object{"parent_thread_id": parent, "depth": 1}}}
		case "fork":
			o["forked_from_id"] = parent
		case "parent":
			o["parent_thread_id"], o["source"] = parent, "cli"
		case "base":
			of, end, _ := strings.Cut(parent, " ")
			var n int
			_, _ = fmt.Sscan(end, &n)
			o["history_base"] = object{"thread_id": of, "end_ordinal_exclusive": n}
		}
		return "session_meta", o
	case "u", "d", "a", "s":
		return item(message(roles[word], rest))
	case "think":
		return item(object{"type": "reasoning", "summary": []any{object{"type": "summary_text", "text": rest}}})
	case "call":
		if second == "" {
			second = "sh"
		}
		return item(object{"type": "function_call", "call_id": first, "name": second, "arguments": "{}"})
	case "result":
		return item(object{"type": "function_call_output", "call_id": first, "output": second})
	case "item":
		return item(object{"type": first, "id": "x", "status": "y", "call_id": "z", "v": 1})
	case "in", "total":
		var in, total int
		_, _ = fmt.Sscan(rest, &in, &total)
		info := object{"last_token_usage": object{"input_tokens": in, "cached_input_tokens": in / 2, "output_tokens": 3}}
		if total > 0 {
			info["total_token_usage"] = object{"input_tokens": total, "cached_input_tokens": total / 2, "output_tokens": total / 10, "total_tokens": total + total/10}
		}
		if word == "total" {
			info = object{"total_token_usage": object{"input_tokens": in, "cached_input_tokens": in / 2, "output_tokens": in / 10, "total_tokens": in + in/10}}
		}
		return event(object{"type": "token_count", "info": info})
	case "null":
		return event(object{"type": "token_count", "info": nil, "rate_limits": object{}})
	case "model":
		return "turn_context", object{"model": rest}
	case "compact":
		var list []any
		for _, of := range strings.Split(rest, ", ") {
			_, i := payloadOf(of)
			list = append(list, i)
		}
		return "compacted", object{"message": "", "replacement_history": list}
	case "rebuild":
		return "compacted", object{"message": rest}
	case "back":
		var n int
		_, _ = fmt.Sscan(rest, &n)
		return event(object{"type": "thread_rolled_back", "num_turns": n})
	case "abort":
		return event(object{"type": "turn_aborted", "reason": "interrupted"})
	}
	return word, object{"message": rest}
}

func row(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// read returns what files become: a line for each session and for the warnings. Of a turn it says the roles of the prompt and the kinds of
// the answer, when it was, and its tokens.
func read(t *testing.T, files ...string) string {
	t.Helper()
	d, a := answer(t, files...)
	var b strings.Builder
	for _, s := range a.List {
		fmt.Fprintf(&b, "%s %s", s.ID, s.Kind)
		if s.Parent != "" {
			fmt.Fprintf(&b, " of %s", s.Parent)
		}
		for _, of := range [...]struct {
			name string
			turn *int32
		}{{"spawn", s.Spawn}, {"join", s.Join}} {
			if of.turn != nil {
				fmt.Fprintf(&b, " %s %d", of.name, *of.turn)
			}
		}
		for _, u := range s.Turns {
			fmt.Fprintf(&b, "; %s>%s %d-%d", u.Roles, u.Output, *u.T, *u.End)
			if u.Gap != nil {
				fmt.Fprintf(&b, " after %d", *u.Gap)
				if *u.Tool > 0 {
					fmt.Fprintf(&b, " of tools %d", *u.Tool)
				}
			}
			if u.In != nil {
				fmt.Fprintf(&b, " in %d", *u.In)
			}
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(d.Warnings)) {
		fmt.Fprintf(&b, "%s=%d ", name, d.Warnings[name])
	}
	return strings.TrimSpace(b.String())
}

func answer(t *testing.T, files ...string) (*text.Dataset, *text.Answer) {
	t.Helper()
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := New(d)
	for n, file := range files {
		for k, row := range rollout(file) {
			require.NoError(t, r.Row([]byte(row), text.Place{File: n, Path: fmt.Sprintf("2026/01/02/rollout-%d.jsonl", n), Line: k + 1}))
		}
	}
	require.NoError(t, r.End())
	require.NoError(t, d.Finish())
	sizes := text.NewSizes(d, byteTokens{})
	require.NoError(t, sizes.Complete())
	a, err := sizes.Answer(64, true)
	require.NoError(t, err)
	return d, a
}

// A reply is what the model gives behind an input. Usage stands behind it, or in old files before it.
func TestReplies(t *testing.T) {
	assert.Equal(t, "A main; sdu>thinking call call 0-310 in 50; sduaaatt>text 890-1150 after 580 of tools 580 in 60; sduaaattau>text 3000-3100 after 1850 in 70", read(t, `
		0 meta A
		10 d rules
		20 model m
		110 u hi
		120 null
		300 think hm
		310 call 1
		320 call 2
		420 in 50 50
		500 result 1 x
		1000 result 2 y
		1100 a done
		1260 in 60 110
		3110 u more
		3200 a yes
		3210 in 70 180`))
	assert.Equal(t, "A main; su>call 0-100 in 50; suat>text 300-400 after 200 of tools 200 in 60; suatau>text 1000-1100 after 600 in 70", read(t, `
		0 meta A
		100 u hi
		150 in 50 50
		200 call 1
		400 result 1 x
		450 in 60 110
		500 a done
		1100 u more
		1150 in 70 180
		1200 a yes`), "usage before the reply")
	assert.Equal(t, "A main; su>text text 0-250 in 60", read(t, "0 meta A\n100 u hi\n150 in 50 50\n200 a a\n350 in 60 110\n340 a b"), "that of a request without items, and then its own")
	assert.Equal(t, "A main; su>text 0-150 in 50; suau>text 200-200 after 50 in 60\nrepeated_usage=2",
		read(t, "0 meta A\n100 u hi\n200 a a\n250 in 50 50\n260 in 50 50\n270 in 60 110\n300 u b\n300 a b\n310 in 9 110"), "further usage is of the next")
}

func TestMergedReplies(t *testing.T) {
	assert.Equal(t, "A main; su>call call text 0-500 in 50\nmerged_reply=2", read(t, "0 meta A\n100 u hi\n200 call 1\n300 result 1 x\n400 call 2\n500 result 2 x\n550 a done\n600 in 50 50"))
	assert.Equal(t, "A main; su>call 0-100; suat>text 200-300 after 100 of tools 100\nno_usage=2 out_counted=2", read(t, "0 meta A\n100 u hi\n200 call 1\n300 result 1 x\n400 a done"), "no usage at all")
	assert.Equal(t, "A main; su>call 0-100; suatu>text 250-300 after 150 of tools 100 in 50\nno_usage=1 out_counted=1", read(t, "0 meta A\n100 u hi\n200 call 1\n300 result 1 x\n350 u b\n400 a done\n400 in 50 50"))
}

func TestUsage(t *testing.T) {
	_, a := answer(t, "0 meta A\n100 u hi\n200 a a\n250 total 50\n300 u b\n400 a b\n410 total 120\n420 u c\n500 a c\n500 total 30")
	var got []int32
	for _, u := range a.List[0].Turns {
		got = append(got, *u.In, *u.Cached, *u.Out)
	}
	assert.Equal(t, []int32{50, 25, 5, 70, 35, 7, 30, 15, 3}, got)
	assert.Equal(t, map[string]int{"usage_from_totals": 3}, a.Warnings)

	d, a := answer(t, "0 meta A\n50 model one\n100 u hi\n200 a a\n250 in 99999999 50\n300 model two\n300 u b\n400 call 1")
	turns := a.List[0].Turns
	assert.Equal(t, []any{"one", "two", "end_turn", "tool_use", int32(1 << 24)}, []any{turns[0].Model, turns[1].Model, turns[0].Stop, turns[1].Stop, *turns[0].In})
	assert.Equal(t, int32(1<<24-(1+2+1)-(1+2+2)), *turns[1].Filler)
	assert.Equal(t, int32(1+3+2+2), *turns[1].Out, "the call as the next prompt has it")
	assert.Equal(t, map[string]int{"no_usage": 1, "out_counted": 1}, d.Warnings)
}

func TestCompaction(t *testing.T) {
	assert.Equal(t, "A main; sdu>text 0-150 in 50; suuau>text 900-1200 after 750 in 30; suuauau>text 1300-1400 after 100 in 40", read(t, `
		0 meta A
		10 d rules
		100 u hi
		200 a a
		250 in 50 50
		1000 compact u hi, u summary, a kept
		1000 u more
		1200 a b
		1300 in 30 80
		1400 u again
		1500 a c
		1500 in 40 120`), "the second prompt has nothing of the first but the system prompt")
	assert.Equal(t, "A main; sdu>text 0-10; sduau>text 100-400 after 90; sduuuu>text 500-600 after 100\ncompaction_rebuilt=1 no_usage=3 out_counted=3", read(t, `
		0 meta A
		10 d rules
		100 u hi
		110 a x
		200 u there
		500 a a
		600 rebuild summary
		600 u more
		700 a b`))
	d, _ := answer(t, "0 meta A\n10 u hi\n20 call 1\n30 result 1 x\n40 a y\n50 rebuild summary\n60 u more\n70 a b")
	assert.Equal(t, "S hi summary more", prompt(d, 0, 2), "what the model and tools said is gone")
	d, _ = answer(t, "0 meta A\n10 u hi\n20 call 1\n30 compact a one, item function_call, call 2\n70 think b")
	assert.Equal(t, "S one z 2", prompt(d, 0, 1))
	m := d.Messages[d.Traces[0].Sessions[0].Turns[1].Output[0]]
	assert.True(t, m.Continues, "behind an item of the assistant")
	assert.Equal(t, []bool{false, false, true, true}, continues(d, 0, 1))
}

// prompt returns the texts of a prompt, and the ids of its calls.
func prompt(d *text.Dataset, session, turn int) string {
	t := d.Traces[0]
	var list []string
	for _, n := range t.Path(nil, t.Sessions[session].Turns[turn].Last) {
		p := d.Messages[t.Nodes[n].Message].Parts[0]
		if p.Kind == text.Call {
			p.Text = p.ID
		}
		list = append(list, d.Store.String(p.Text))
	}
	return strings.Join(list, " ")
}

func continues(d *text.Dataset, session, turn int) (list []bool) {
	t := d.Traces[0]
	for _, n := range t.Path(nil, t.Sessions[session].Turns[turn].Last) {
		list = append(list, d.Messages[t.Nodes[n].Message].Continues)
	}
	return list
}

func TestRollback(t *testing.T) {
	const begin = "0 meta A\n10 d rules\n100 u one\n200 a a\n300 u two\n400 call 1\n500 result 1 x\n600 a b\n"
	for n, want := range map[int]string{
		0: "S rules one a two 1  b more", 1: "S rules one a more", 2: "S rules more", 9: "S more",
	} {
		d, _ := answer(t, begin+fmt.Sprintf("700 back %d\n800 u more\n900 a c", n))
		assert.Equal(t, want, prompt(d, 0, 3))
		turn := d.Traces[0].Sessions[0].Turns[3]
		assert.Equal(t, map[int]int64{0: 200, 1: 600, 2: 200, 9: 200}[n], turn.Gap, "back %d", n)
		assert.Equal(t, map[int]int32{0: 2, 1: 0, 2: 2, 9: 2}[n], turn.Before, "back %d: the last reply on the path, else the last", n)
		assert.Equal(t, 1, d.Warnings["rolled_back"])
	}
	assert.Contains(t, read(t, begin+"700 abort\n800 u more\n900 a c"), "aborted=1")
}

func TestItems(t *testing.T) {
	d, a := answer(t, "0 meta A\n100 u hi\n150 item hologram\n160 item /home/x\n170 item a b\n180 item ghost_snapshot\n200 item web_search_call\n210 item tool_search_output\n220 a b")
	assert.Equal(t, map[string]int{"unknown_item:hologram": 1, "unknown_item:/home/x": 1, "unknown_item:a": 1, "unknown_item:ghost_snapshot": 1, "no_usage": 2, "out_counted": 2}, d.Warnings)
	assert.Equal(t, "other", a.List[0].Turns[0].Output)
	assert.Equal(t, "end_turn", a.List[0].Turns[0].Stop)
	assert.Equal(t, `S hi {"type":"web_search_call","v":1} {"type":"tool_search_output","v":1}`, prompt(d, 0, 1))
	assert.Equal(t, "suat", a.List[0].Turns[1].Roles)
}

func TestRows(t *testing.T) {
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := New(d)
	for _, row := range []string{
		`{"id":"B","timestamp":"2026-01-02T15:00:00.000Z","instructions":null}`, `{"record_type":"state"}`, `{"record_type":5}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`, `{"type":"message","role":"assistant","content":"a"}`, `{"type":"message"}`, `{"type":"hologram"}`,
		`[1]`, `7`, `{}`, `{"type":5,"payload":{}}`, `{"type":"quantum_state","payload":{}}`, `{"type":"/ x","payload":{}}`, `{"type":"world_state","payload":{"state":{}}}`, `{"type":"realtime_item"}`,
		`{"type":"response_item","payload":[]}`, `{"type":"response_item"}`, `{"type":"event_msg"}`, `{"type":"event_msg","payload":{"type":"agent_message","message":"x"}}`, `{"type":"compacted","payload":7}`, ` {"type":"turn_context","payload":{"model":5}}`,
	} {
		require.NoError(t, r.Row([]byte(row), text.Place{Path: "x.jsonl"}), row)
	}
	require.NoError(t, r.End())
	require.NoError(t, d.Finish())
	assert.Equal(t, map[string]int{"ignored:state": 1, "ignored:other": 1, "no_timestamp": 2, "no_usage": 1, "unknown_item:message": 1, "unknown_item:hologram": 1, "not_object": 2, "unknown_type:line": 2,
		"unknown_type:quantum_state": 1, "unknown_type:other": 1, "ignored:world_state": 1, "ignored:realtime_item": 1, "unknown_item:other": 2}, d.Warnings)
	require.Len(t, d.Traces, 1)
	assert.Equal(t, "B", d.Traces[0].Sessions[0].ID)
}

func TestThreads(t *testing.T) {
	root := "0 meta A\n100 u hi\n200 call 1 spawn_agent\n250 in 50 50\n300 result 1 x\n400 call 2 wait\n450 in 60 110\n9000 result 2 y\n9100 a done\n9200 in 70 180"
	child := "2000 meta B subagent A\n2010 u task\n4000 a found\n4050 in 40 40"
	const want = "A main; su>call 0-150 in 50; suat>call 200-350 after 50 of tools 50 in 60; suatat>text 8900-9100 after 8550 of tools 8550 in 70\n" +
		"B subagent of A spawn 0 join 2; su>text 1910-3950 in 40"
	assert.Equal(t, want, read(t, root, child))
	assert.Equal(t, want, read(t, child, root), "files in any order")
	assert.Equal(t, want+"\ncopied_thread=2", read(t, child, root, child, root))
	assert.Equal(t, strings.ReplaceAll(want, "subagent of A spawn 0 join 2", "branch of A spawn 0 join 2"), read(t, root, strings.Replace(child, "subagent", "fork", 1)))
	assert.Equal(t, want, read(t, root, strings.Replace(child, "subagent", "parent", 1)))
	assert.Equal(t, "B main; su>text 0-2040 in 40\nparent_missing=1", read(t, child))
	grandchild := "2500 meta C subagent B\n2510 u deeper\n3900 a x\n3950 in 9 9"
	assert.Equal(t, want+"\nC subagent of B; su>text 2410-3850 in 9", read(t, grandchild, root, child))
	assert.Equal(t, "C main; su>text 0-1440 in 9\nno_turn=1 parent_missing=1", read(t, grandchild, "0 meta B subagent A\n10 u x"))
	assert.Contains(t, read(t, "0 meta A subagent B\n10 u x\n2000 a y", "0 meta B subagent A\n10 u x\n2000 a y"), "cycle=1")
	assert.Contains(t, read(t, "0 meta A subagent A\n10 u x\n2000 a y"), "A main")
}

func TestCopies(t *testing.T) {
	root := "0 meta A\n100 u hi\n200 call 1\n250 in 50 50\n300 result 1 x\n400 a done\n450 in 60 110"
	fork := "5000 meta B fork A\n5001 meta A\n5001 u hi\n5002 call 1\n5003 in 50 50\n5003 result 1 x\n5004 a done\n5005 in 60 110\n8000 u else\n9000 a that\n9100 in 99 209"
	want := "A main; su>call 0-150 in 50; suat>text 200-350 after 50 of tools 50 in 60\nB branch of A; suatau>text 7900-9000 in 99"
	assert.Equal(t, want, read(t, root, fork))
	assert.Equal(t, want, read(t, root, strings.Replace(fork, "5001 meta A\n", "", 1)), "items that a model made are enough")
	assert.Equal(t, strings.Replace(want, "7900-9000 in 99", "7900-9000 in 49", 1)+"\nusage_from_totals=1", read(t, root, strings.Replace(fork, "in 99 209", "total 159", 1)), "totals go on from those of the copy")
	assert.Equal(t, "A main; su>call 0-150 in 50; suat>text 200-350 after 50 of tools 50 in 60\nno_turn=1", read(t, root, "5000 meta B fork A\n5001 u hi\n6001 a x\n6001 in 7 7"),
		"a pause of a second is none: all is a copy")
	assert.Contains(t, read(t, root, "5000 meta B fork A\n5001 u hi\n6002 a x\n6002 in 7 7"), "B branch of A; su>text 4901-5902 in 7", "a head without copies")
	assert.Contains(t, read(t, root, "5000 meta B subagent A\n5001 meta A\n5002 u task\n8000 a x\n8000 in 7 7"), "B subagent of A; su>text 4902-7900 in 7", "a task among the copies")
	assert.Contains(t, read(t, strings.Replace(fork, "fork A", "", 1)), "B main; su>call", "no fork: all is its own")
}

func TestBases(t *testing.T) {
	root := "0 meta A\n100 u hi\n200 call 1\n250 in 50 50\n300 result 1 x\n400 a done\n450 in 60 110"
	based := func(end int) string {
		return fmt.Sprintf("5000 meta B base A %d\n8000 u else\n9000 a that\n9100 in 99 99", end)
	}
	for end, roles := range map[int]string{0: "su", 2: "suu", 5: "suatu", 6: "suatau", 99: "suatau"} {
		_, a := answer(t, based(end), root)
		assert.Equal(t, roles, a.List[1].Turns[0].Roles)
	}
	_, a := answer(t, root, based(3), "9500 meta C base B 2\n9600 u third\n9700 a x")
	assert.Equal(t, "suauu", a.List[2].Turns[0].Roles, "of a thread that begins with another's")
	assert.Contains(t, read(t, root, strings.Replace(based(3), "base A", "base Z", 1)), "parent_missing=1")
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := New(d)
	for n, file := range []string{"0 meta A base B 9\n10 u x\n20 a y", "0 meta B base A 9\n10 u x\n20 a y"} {
		for _, row := range rollout(file) {
			require.NoError(t, r.Row([]byte(row), text.Place{File: n, Path: "x.jsonl"}))
		}
	}
	require.NoError(t, r.End())
	require.Error(t, d.Finish(), "two threads that begin with each other")
}

func TestTimes(t *testing.T) {
	assert.Equal(t, "A main; su>text 0-0 in 50", read(t, "0 meta A\n1000 u hi\n500 a x\n550 in 50 50"), "a clock that goes back")
	assert.Equal(t, "A main; su>text 0-50 in 50; suau>text 60-60 after 10\naborted=1 no_timestamp=2 no_usage=1 out_counted=1",
		read(t, "0 meta A\n10 u hi\n60 a x\n60 in 50 50\n70 u b\n- null\n- a y\n- abort\n- u z"))
	assert.Equal(t, "A main; s>text 0-0 in 50", read(t, "0 meta A\n10 a hi\n10 in 50 50"), "without an input, at the first output")
}

// corpus are rows that use every key.
func corpus() []string {
	rows := rollout("0 meta canary1 subagent canary2\n1 meta canary3 base canary 7\n2 meta canary4 fork canary\n2 meta canary4 parent canary\n10 model canary\n20 u canary\n30 d canary\n40 think canary\n50 call canary canary\n60 result canary canary\n70 a canary\n" +
		"80 in 50 50\n90 total 90\n100 compact u canary, call canary\n110 rebuild canary\n120 back 1\n130 abort\n140 item compaction\n150 item canary_call\n160 item canary_output\n170 world_state canary\n180 canary canary\n190 u canary\n200 a canary")
	return append(rows, `{"id":"canary","timestamp":"canary","instructions":"canary"}`, `{"type":"function_call_output","call_id":"canary","output":{"content":[{"type":"input_image","image_url":"canary"},{"type":"input_text","text":"canary"}],"success":false}}`,
		`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"canary"}],"encrypted_content":"canary"}`, `{"record_type":"state"}`)
}

// safe reads rows, and checks that no error has a word of them.
func safe(t *testing.T, rows ...string) {
	d := text.NewDataset(text.NewStore(""))
	r := New(d)
	for k, row := range rows {
		if err := r.Row([]byte(row), text.Place{File: k / 7, Path: "x.jsonl"}); err != nil {
			require.ErrorIs(t, err, content.ErrMalformed)
			require.NotContains(t, err.Error(), "canary")
			require.False(t, json.Valid([]byte(row)) && strings.Count(row, "[") < 900, row)
		}
	}
	require.NoError(t, r.End())
	_ = d.Finish() // there may be no turn
	sizes := text.NewSizes(d, byteTokens{})
	require.NoError(t, sizes.Complete())
	_, err := sizes.Answer(64, false)
	require.NoError(t, err)
	require.NoError(t, d.Store.Close())
}

func TestCutAnywhere(t *testing.T) {
	rows := corpus()
	for k, row := range rows {
		for n := range len(row) {
			safe(t, row[:n])
		}
		safe(t, rows[:k]...)
		safe(t, rows[k:]...)
	}
}

func TestWrongTypes(t *testing.T) {
	deep := strings.Repeat(`[`, 950) + strings.Repeat(`]`, 950)
	for k, row := range corpus() {
		var v any
		require.NoError(t, json.Unmarshal([]byte(row), &v))
		for _, with := range []string{`null`, `true`, `"canary"`, `1e999`, `-1`, `99999999999999999999`, `{"canary":[null]}`, `[{"type":"canary"},7]`, deep} {
			rows := corpus()
			emit := func() { rows[k] = strings.ReplaceAll(mustJSON(t, v), `"@"`, with); safe(t, rows...) }
			each(v, emit)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// each puts "@" at each place of a value, one after the other.
func each(v any, emit func()) {
	switch v := v.(type) {
	case map[string]any:
		for key, old := range v {
			v[key] = "@"
			emit()
			v[key] = old
			each(old, emit)
		}
	case []any:
		for k, old := range v {
			v[k] = "@"
			emit()
			v[k] = old
			each(old, emit)
		}
	}
}

// White space, the order of keys and keys that are given twice change nothing.
func TestSpelling(t *testing.T) {
	_, want := answer(t, sessionText)
	for _, spelled := range []func(v any) string{
		func(v any) string {
			b, _ := json.MarshalIndent(v, "", "\t")
			return strings.ReplaceAll(string(b), "\n", "\r\n")
		},
		reversed,
		func(v any) string {
			return `{"type":"compacted","payload":{"message":"no"},"timestamp":"no",` + mustJSON(t, v)[1:]
		},
	} {
		d := text.NewDataset(text.NewStore(t.TempDir()))
		r := New(d)
		for _, row := range rollout(sessionText) {
			var v any
			require.NoError(t, json.Unmarshal([]byte(row), &v))
			require.NoError(t, r.Row([]byte(spelled(v)), text.Place{Path: "rollout-0.jsonl"}))
		}
		require.NoError(t, r.End())
		require.NoError(t, d.Finish())
		sizes := text.NewSizes(d, byteTokens{})
		require.NoError(t, sizes.Complete())
		got, err := sizes.Answer(64, true)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

const sessionText = "0 meta A\n10 model m\n100 u hi\n200 think hm\n210 call 1\n250 in 50 50\n300 result 1 x\n400 a done\n450 in 60 110\n1500 compact u hi, a done\n1600 u more\n1700 a yes\n1700 in 70 180"

// reversed returns JSON with keys from last to first.
func reversed(v any) string {
	var list []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Backward(slices.Sorted(maps.Keys(v))) {
			list = append(list, row(key)+":"+reversed(v[key]))
		}
		return "{" + strings.Join(list, ",") + "}"
	case []any:
		for _, e := range v {
			list = append(list, reversed(e))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	return row(v)
}

func TestIs(t *testing.T) {
	for row, is := range map[string]bool{
		`{"timestamp":"x","type":"session_meta","payload":{}}`: true, `{"payload":{},"type":"event_msg"}`: true, `{"record_type":"state"}`: true, `{"id":"x","timestamp":"y","instructions":null}`: true,
		`{"type":"response_item","payload":{"cut`: true, `{"type":"message","payload":{}}`: false, `{"type":"session_meta"}`: false, `{"id":"x","timestamp":"y"}`: false, `{"messages":[]}`: false, ``: false, `[`: false,
	} {
		assert.Equal(t, is, Is(content.Raw(row)), row)
	}
}

func FuzzRows(f *testing.F) {
	f.Add(strings.Join(corpus(), "\n"))
	f.Add(strings.Join(rollout(sessionText), "\n"))
	f.Fuzz(func(t *testing.T, rows string) {
		d := text.NewDataset(text.NewStore(""))
		r := New(d)
		for k, row := range strings.Split(rows, "\n") {
			_ = r.Row([]byte(row), text.Place{File: k / 20, Path: "x.jsonl"})
		}
		require.NoError(t, r.End())
		_ = d.Finish()
		sizes := text.NewSizes(d, byteTokens{})
		require.NoError(t, sizes.Complete())
		_, err := sizes.Answer(64, true)
		require.NoError(t, err)
	})
}
