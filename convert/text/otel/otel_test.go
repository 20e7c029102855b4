package otel

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
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

// attrs are attributes of a span.
type attrs map[string]any

// entry is a span of a test, of trace t. Instants are milliseconds.
type entry struct {
	id, parent string
	at, end    int64
	attributes attrs
	more       map[string]any // other members
}

// chat returns attributes of a request with a prompt and, if it is not empty, an answer.
func chat(prompt, answer string, more attrs) attrs {
	a := attrs{"gen_ai.operation.name": "chat", "gen_ai.input.messages": prompt, "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}
	if answer != "" {
		a["gen_ai.output.messages"] = "[" + answer + "]"
	}
	maps.Copy(a, more)
	return a
}

func invoked(more attrs) attrs {
	a := attrs{"gen_ai.operation.name": "invoke_agent"}
	maps.Copy(a, more)
	return a
}

// messages returns a list of messages: u hi, a ho, t done.
func messages(words ...string) string {
	var list []string
	for _, w := range words {
		role, said, _ := strings.Cut(w, " ")
		switch role {
		case "t":
			list = append(list, fmt.Sprintf(`{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":%q}]}`, said))
		default:
			role = map[string]string{"u": "user", "a": "assistant", "s": "system"}[role]
			list = append(list, fmt.Sprintf(`{"role":%q,"parts":[{"type":"text","content":%q}]}`, role, said))
		}
	}
	return strings.Join(list, ",")
}

func prompt(words ...string) string { return "[" + messages(words...) + "]" }

// wrapped returns a value as OTLP has it.
func wrapped(v any) map[string]any {
	switch v := v.(type) {
	case int:
		return map[string]any{"intValue": fmt.Sprint(v)}
	case float64:
		if v == float64(int64(v)) {
			return map[string]any{"intValue": fmt.Sprint(int64(v))}
		}
		return map[string]any{"doubleValue": v}
	case bool:
		return map[string]any{"boolValue": v}
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, wrapped(e))
		}
		return map[string]any{"arrayValue": map[string]any{"values": list}}
	case map[string]any:
		list := []any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, map[string]any{"key": key, "value": wrapped(v[key])})
		}
		return map[string]any{"kvlistValue": map[string]any{"values": list}}
	case nil:
		return map[string]any{}
	}
	return map[string]any{"stringValue": v}
}

// otlp returns a row of the collector's exporter.
func otlp(list ...entry) string {
	spans := []any{}
	for _, e := range list {
		a := []any{}
		for _, key := range slices.Sorted(maps.Keys(e.attributes)) {
			a = append(a, map[string]any{"key": key, "value": wrapped(e.attributes[key])})
		}
		s := map[string]any{"traceId": "t", "spanId": e.id, "parentSpanId": e.parent, "attributes": a,
			"startTimeUnixNano": fmt.Sprintf("%d000000", 1e12+e.at), "endTimeUnixNano": fmt.Sprintf("%d000000", 1e12+e.end)}
		maps.Copy(s, e.more)
		spans = append(spans, s)
	}
	return row(map[string]any{"resourceSpans": []any{map[string]any{"resource": map[string]any{}, "scopeSpans": []any{map[string]any{"spans": spans}}}}})
}

// flat returns a row that is a span.
func flat(e entry) string {
	s := map[string]any{"trace_id": "t", "span_id": e.id, "attributes": e.attributes, "start_time": 1e12 + e.at, "end_time": 1e12 + e.end}
	if e.parent != "" {
		s["parent_span_id"] = e.parent
	}
	maps.Copy(s, e.more)
	return row(s)
}

func row(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// read returns what rows become: a line for each session and for the warnings.
func read(t *testing.T, rows ...string) string {
	t.Helper()
	d, a := answer(t, rows...)
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
			fmt.Fprintf(&b, "; %s", u.Roles)
			if u.T != nil {
				fmt.Fprintf(&b, " %d-%d", *u.T, *u.End)
			}
			if u.Gap != nil {
				fmt.Fprintf(&b, " after %d", *u.Gap)
				if *u.Tool > 0 {
					fmt.Fprintf(&b, " of tools %d", *u.Tool)
				}
			}
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(d.Warnings)) {
		fmt.Fprintf(&b, "%s=%d ", name, d.Warnings[name])
	}
	return strings.TrimSpace(b.String())
}

func answer(t *testing.T, rows ...string) (*text.Dataset, *text.Answer) {
	t.Helper()
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := New(d)
	for k, row := range rows {
		require.NoError(t, r.Row([]byte(row), text.Place{Line: k + 1}))
	}
	require.NoError(t, r.End())
	require.NoError(t, d.Finish())
	sizes := text.NewSizes(d, byteTokens{})
	require.NoError(t, sizes.Complete())
	a, err := sizes.Answer(64, true)
	require.NoError(t, err)
	return d, a
}

// shuffled is what rows become in their order, and in others.
func shuffled(t *testing.T, rows ...string) string {
	t.Helper()
	want := read(t, rows...)
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		require.Equal(t, want, read(t, rows...), "in another order")
	}
	return want
}

func TestForms(t *testing.T) {
	one := entry{id: "1", at: 100, end: 200, attributes: chat(prompt("u hi"), messages("a ho"), attrs{"gen_ai.usage.cost": 0.5})}
	two := entry{id: "2", at: 300, end: 400, attributes: chat(prompt("u hi", "a ho", "u more"), messages("a yes"), nil)}
	const want = "t main; u 0-100; uau 200-300 after 100"
	assert.Equal(t, want, shuffled(t, otlp(one), otlp(two)))
	assert.Equal(t, want, read(t, otlp(one, two)))
	assert.Equal(t, want, shuffled(t, flat(one), flat(two)))
	assert.Equal(t, want, shuffled(t, flat(one), otlp(two)), "two forms")
	assert.Equal(t, "s main; u 0-100; uau 200-300 after 100", read(t, `{"session_id":"s","harness":"x","spans":[`+flat(two)+`,`+flat(one)+`,7,null]}`))
	assert.Equal(t, "7 main; u 0-100", read(t, `{"spans":[`+flat(one)+`],"session_id":7}`))

	structured := one
	structured.attributes = maps.Clone(one.attributes)
	require.NoError(t, json.Unmarshal([]byte(prompt("u hi")), ptr(structured.attributes, "gen_ai.input.messages")))
	_, plain := answer(t, otlp(one))
	for _, r := range []string{flat(structured), otlp(structured)} {
		_, a := answer(t, r)
		assert.Equal(t, plain, a, "JSON, not a string of it")
	}
	list := one
	list.attributes = nil
	list.more = map[string]any{"attributes": []any{map[string]any{"value": wrapped(prompt("u hi")), "key": "gen_ai.input.messages"}, map[string]any{"key": "gen_ai.operation.name", "value": "chat"}}}
	assert.Equal(t, "t main; u 0-100\nno_usage=1", read(t, flat(list)), "a list in a span, values without types, and keys behind them")
}

// ptr decodes into a member of attributes.
func ptr(a attrs, key string) *anyMember { return &anyMember{a, key} }

type anyMember struct {
	of  attrs
	key string
}

func (m *anyMember) UnmarshalJSON(b []byte) error {
	var v any
	err := json.Unmarshal(b, &v)
	m.of[m.key] = v
	return err
}

func TestRowsWithoutSpans(t *testing.T) {
	one := otlp(entry{id: "1", end: 9, attributes: chat(prompt("u hi"), "", nil)})
	assert.Equal(t, "t main; u 0-9\nignored:logs=1 ignored:metrics=1 not_object=2 unknown_type:line=3",
		read(t, `{"resourceLogs":[{"scopeLogs":[]}]}`, `{"resourceMetrics":[]}`, `{"canary":1}`, `{}`, `{"attributes":{}}`, `[1]`, `null`, one))
	assert.Equal(t, "t main; u 0-9", read(t, one, `{"resourceSpans":[]}`, `{"resourceSpans":{"a":1}}`, `{"spans":null}`, `{"resourceSpans":[{"scopeSpans":[{"spans":[]},5,{}]},"x"]}`))
	const bare = `{"attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":"[]"},"attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":[{"role":"user","role":"system","parts":[]}]},"span_id":"x","start_time":5,"start_time":1e12}`
	assert.Equal(t, "main; s 0-0\nno_usage=1", read(t, bare), "the last of a key counts")
}

func TestOperations(t *testing.T) {
	of := func(id, name string, more attrs) string {
		a := chat(prompt("u "+id), "", more)
		a["gen_ai.operation.name"] = name
		if name == "" {
			delete(a, "gen_ai.operation.name")
		}
		return otlp(entry{id: id, attributes: a})
	}
	assert.Equal(t, "t main; u 0-0; u 0-0 after 0; u 0-0 after 0; u 0-0 after 0\n"+
		"ignored:create_memory=1 ignored:embeddings=1 ignored:other=2 ignored:retrieval=1 ignored:span=1",
		shuffled(t, of("1", "chat", nil), of("2", "text_completion", nil), of("3", "generate_content", nil), of("4", "", nil), of("5", "embeddings", nil),
			of("6", "/home/canary", nil), of("7", "Chat", nil), of("8", "retrieval", nil), of("9", "create_memory", nil),
			otlp(entry{id: "10", attributes: attrs{"http.method": "GET"}})))
}

func TestCopies(t *testing.T) {
	few := otlp(entry{id: "1", end: 9, attributes: chat(prompt("u few"), "", nil)})
	more := otlp(entry{id: "1", end: 9, attributes: chat(prompt("s more", "u more"), "", attrs{"x": 1})})
	failed := otlp(entry{id: "2", at: 4, end: 9, attributes: chat(prompt("u more"), "", nil), more: map[string]any{"status": map[string]any{"code": 2}}})
	assert.Equal(t, "t main; su 0-9\ncopied_span=3 failed_span=1", shuffled(t, few, more, few, failed, failed))
	other := strings.Replace(few, `"traceId":"t"`, `"traceId":"u"`, 1)
	assert.Equal(t, "t main; u 0-9\nu main; u 0-9", read(t, few, other), "an id is of its trace")
	none := strings.Replace(few, `"spanId":"1"`, `"spanId":null`, 1)
	assert.Equal(t, "t main; u 0-9; u 0-9", read(t, none, none), "spans without an id are all")
}

func TestFailures(t *testing.T) {
	for status, failed := range map[string]bool{
		`{"code":2}`: true, `{"code":"2"}`: true, `{"code":"STATUS_CODE_ERROR"}`: true, `{"status_code":"ERROR"}`: true, `"ERROR"`: true, `2`: true, `{"code":2.0,"message":"canary"}`: true,
		`{"code":1}`: false, `{}`: false, `null`: false, `{"code":"STATUS_CODE_OK"}`: false, `{"status_code":"UNSET"}`: false, `[2]`: false, `true`: false, `{"code":{"code":1}}`: false,
	} {
		e := entry{id: "1", end: 9, attributes: chat(prompt("u a"), "", attrs{"error.type": "429"}), more: map[string]any{"status": json.RawMessage(status)}}
		want := "t main; u 0-9; u 5-6"
		if failed {
			want = "t main; u 0-1\nfailed_span=1"
		}
		got := read(t, otlp(e), otlp(entry{id: "2", at: 5, end: 6, attributes: chat(prompt("u a"), "", nil)}))
		assert.Equal(t, want, got, status)
	}
}

func TestSessions(t *testing.T) {
	of := func(id, parent string, at int64, more attrs) entry {
		return entry{id: id, parent: parent, at: at, end: at + 10, attributes: chat(prompt("u "+id), "", more)}
	}
	named := func(id string) attrs { return attrs{"gen_ai.conversation.id": id} }
	assert.Equal(t, "c main; u 0-10; u 30-40 after 20\nd main; u 0-10\nt main; u 0-10", shuffled(t,
		otlp(of("1", "", 0, named("c"))), otlp(of("2", "", 10, attrs{"session.id": "d"})), otlp(of("3", "", 20, nil)),
		otlp(of("4", "", 30, attrs{"gen_ai.conversation.id": "c", "session.id": "d"}))))

	// Of the agents around it the innermost that names one; agents below the outermost are others.
	assert.Equal(t, "c main; u 0-10; u 400-410 after 390\nc/A subagent of c spawn 0 join 1; u 100-110\nd main; u 0-10\nignored:execute_tool=1 ignored:invoke_agent=3",
		shuffled(t,
			otlp(entry{id: "R", attributes: invoked(named("c"))}), otlp(of("1", "R", 0, nil)), otlp(of("2", "R", 400, nil)), otlp(of("3", "R", 500, attrs{"session.id": "d"})),
			otlp(entry{id: "T", parent: "R", attributes: attrs{"gen_ai.operation.name": "execute_tool"}}), otlp(entry{id: "A", parent: "T", attributes: invoked(nil)}),
			otlp(of("4", "A", 100, nil)), otlp(entry{id: "Z", parent: "gone", attributes: invoked(named("z"))})))
	assert.Equal(t, "s main; u 0-10\nt2 main; u 0-10", read(t, `{"session_id":"s","spans":[`+flat(of("1", "", 0, nil))+`]}`,
		`{"spans":[`+strings.Replace(flat(of("1", "", 5, nil)), `"trace_id":"t"`, `"trace_id":"t2"`, 1)+`]}`), "the row's, else the trace")
}

func TestSubagents(t *testing.T) {
	of := func(id, parent string, at, end int64) string {
		return otlp(entry{id: id, parent: parent, at: at, end: end, attributes: chat(prompt("u "+id), "", nil)})
	}
	in := func(id, parent string) string { return otlp(entry{id: id, parent: parent, attributes: invoked(nil)}) }
	assert.Equal(t, "t main; u 0-10; u 20-30 after 10; u 90-95 after 60\n"+
		"t/A subagent of t spawn 1 join 2; u 31-40; u 60-70 after 20\n"+
		"t/B subagent of t/A spawn 0 join 1; u 45-50\n"+
		"t/C subagent of t spawn 1; u 85-99\nignored:invoke_agent=4",
		shuffled(t, in("R", ""), of("1", "R", 0, 10), of("2", "R", 20, 30), of("3", "R", 90, 95), in("A", "R"), of("4", "A", 31, 40), of("5", "A", 60, 70),
			in("B", "A"), of("6", "B", 45, 50), in("C", "R"), of("7", "C", 85, 99)))

	// An agent without turns of its own stands between; the first agent is the root where the outermost has none.
	assert.Equal(t, "t main; u 0-10\nt/B subagent of t spawn 0; u 20-30\nt/C subagent of t spawn 0; u 40-50\nignored:invoke_agent=5 parent_missing=1",
		shuffled(t, in("R", ""), in("A", "R"), of("1", "A", 0, 10), in("M", "A"), in("B", "R"), of("2", "B", 20, 30), in("C", "M"), of("3", "C", 40, 50)))
}

func TestCircles(t *testing.T) {
	one := otlp(entry{id: "1", parent: "A", end: 9, attributes: chat(prompt("u hi"), "", nil)})
	loop := otlp(entry{id: "A", parent: "B", attributes: invoked(nil)}, entry{id: "B", parent: "A", attributes: invoked(nil)})
	assert.Contains(t, read(t, one, loop), "t main; u 0-9\n")
	self := otlp(entry{id: "A", parent: "A", attributes: attrs{}})
	assert.Equal(t, "t main; u 0-9\ncycle=1 ignored:span=1", read(t, one, self))
}

func TestReplies(t *testing.T) {
	of := func(id string, at, end int64, p, a string) string {
		return otlp(entry{id: id, at: at, end: end, attributes: chat(p, a, nil)})
	}
	assert.Equal(t, "t main; u 0-100; uat 200-300 after 100 of tools 100; uatatu 400-500 after 100; u 900-950 after 400; uau 1000-1100 after 900", shuffled(t,
		of("1", 0, 100, prompt("u hi"), messages("a ho")),
		of("2", 200, 300, prompt("u hi", "a ho", "t x"), messages("a he")),
		of("3", 400, 500, prompt("u hi", "a ho", "t x", "a he", "t y", "u z"), messages("a yes")),
		of("4", 900, 950, prompt("u summary"), messages("a fine")), // a compaction
		of("5", 1000, 1100, prompt("u hi", "a ho", "u rewound"), ""),
	))
	// Of two answers to one prompt the one that the next prompt has, else the latest.
	assert.Equal(t, "t main; u 0-100; u 10-50; uau 200-210 after 100; uau 300-310 after 250", read(t,
		of("1", 0, 100, prompt("u hi"), messages("a one")), of("2", 10, 50, prompt("u hi"), messages("a two")),
		of("3", 200, 210, prompt("u hi", "a one", "u x"), ""), of("4", 300, 310, prompt("u hi", "a other", "u x"), "")))
}

func TestContent(t *testing.T) {
	of := func(more attrs) string {
		return otlp(entry{id: "1", end: 9, attributes: chat(prompt("u hi"), messages("a ho"), more)})
	}
	for name, system := range map[string]any{"list": `[{"type":"text","content":"Be terse."}]`, "text": "Be terse.", "structured": []any{map[string]any{"type": "text", "content": "Be terse."}}, "of text": `["Be terse."]`} {
		d, a := answer(t, of(attrs{"gen_ai.system_instructions": system}))
		assert.Equal(t, "su", a.List[0].Turns[0].Roles, name)
		assert.Equal(t, "Be terse.", d.Store.String(d.Messages[d.Traces[0].Nodes[0].Message].Parts[0].Text), name)
	}
	for _, system := range []any{"[]", nil, []any{}} {
		assert.Equal(t, "t main; u 0-9", read(t, of(attrs{"gen_ai.system_instructions": system})))
	}
	for _, v := range []any{nil, "canary", `[{"role":"user","parts":[{"type":"text","content":"cut`, `{"role":"user"}`, `[1`, `[{}] 1`, "", 5, true, map[string]any{"role": "user"}} {
		assert.Equal(t, "t main;  0-9\nno_content=1", read(t, of(attrs{"gen_ai.input.messages": v})), "%v", v)
	}
	assert.Equal(t, "t main; u 0-9\nempty_prompt=1", read(t, of(nil), otlp(entry{id: "2", attributes: chat("[]", "", nil)})))
	assert.Equal(t, "t main; u 0-9\nchoices=1", read(t, of(attrs{"gen_ai.output.messages": prompt("a ho", "a he")})))
	for _, v := range []any{nil, "canary", `[{"role":"assistant"`, `[{}]`, `[]`, `[5]`, `{}`} {
		_, a := answer(t, of(attrs{"gen_ai.output.messages": v}))
		assert.Empty(t, a.List[0].Turns[0].Output, "%v", v)
	}
	err := New(text.NewDataset(text.NewStore(t.TempDir()))).Row([]byte(of(attrs{"gen_ai.input.messages": `[{"parts":[{"type":"text","content":"canary"}]}]`})), text.Place{})
	require.ErrorIs(t, err, content.ErrNoRole)
	assert.NotContains(t, err.Error(), "canary")
}

func TestContentIsNeeded(t *testing.T) {
	sized := otlp(entry{id: "1", end: 9, attributes: attrs{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}})
	full := otlp(entry{id: "2", at: 20, end: 29, attributes: chat(prompt("u hi"), "", nil)})
	for rows, fails := range map[string]bool{sized: true, sized + "\n" + full: false, full: false} {
		d := text.NewDataset(text.NewStore(t.TempDir()))
		d.NeedText = true
		r := New(d)
		for _, row := range strings.Split(rows, "\n") {
			require.NoError(t, r.Row([]byte(row), text.Place{}))
		}
		if err := r.End(); fails {
			require.ErrorContains(t, err, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
		} else {
			require.NoError(t, err)
			require.NoError(t, d.Finish())
			require.Len(t, d.Traces[0].Sessions[0].Turns, 1)
		}
	}
}

func TestNumbers(t *testing.T) {
	turn := func(more attrs, members map[string]any) (text.AnswerTurn, map[string]int) {
		a := attrs{"gen_ai.operation.name": "chat", "gen_ai.input.messages": prompt("u hi"), "gen_ai.output.messages": prompt("a twelve bytes")}
		maps.Copy(a, more)
		e := entry{id: "1", at: 100, end: 350, attributes: a, more: members}
		d, all := answer(t, flat(e))
		_, same := answer(t, otlp(e))
		if members == nil {
			require.Equal(t, same, all)
		}
		return all.List[0].Turns[0], d.Warnings
	}
	u, w := turn(attrs{"gen_ai.usage.input_tokens": 9, "gen_ai.usage.prompt_tokens": 8, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 0, "gen_ai.response.time_to_first_chunk": 0.0425,
		"gen_ai.response.finish_reasons": []any{"stop", "length"}, "gen_ai.request.model": "asked", "gen_ai.response.model": "given"}, nil)
	assert.Equal(t, []any{int32(9), int32(0), int32(7), int64(42), "stop", "given"}, []any{*u.In, *u.Cached, *u.Out, *u.First, u.Stop, u.Model})
	assert.Empty(t, w)
	u, w = turn(attrs{"gen_ai.usage.prompt_tokens": 8, "gen_ai.usage.completion_tokens": 6, "gen_ai.usage.cache_read_input_tokens": 3, "gen_ai.request.model": "asked", "gen_ai.response.finish_reasons": "stop"}, nil)
	assert.Equal(t, []any{int32(8), int32(3), int32(6), "stop", "asked"}, []any{*u.In, *u.Cached, *u.Out, u.Stop, u.Model})
	assert.Empty(t, w)
	u, w = turn(attrs{"gen_ai.usage.input_tokens": "canary", "gen_ai.usage.output_tokens": 1.5, "gen_ai.response.time_to_first_chunk": "x", "gen_ai.response.finish_reasons": `["stop"]`}, nil)
	assert.Equal(t, []any{int32(1 + 2 + 2), int32(1 + 2 + 12), (*int64)(nil), "stop"}, []any{*u.In, *u.Out, u.First, u.Stop})
	assert.Equal(t, map[string]int{"no_usage": 1, "out_counted": 1}, w)
	u, _ = turn(attrs{"gen_ai.usage.input_tokens": 1 << 40, "gen_ai.usage.output_tokens": -4}, nil)
	assert.Equal(t, []any{int32(1 << 24), int32(0)}, []any{*u.In, *u.Out})

	for v, ms := range map[string]int64{
		`"2026-01-02T15:00:00.1239Z"`: 123, `"2026-01-02T15:00:00.123"`: 123, `"2026-01-02 16:00:00.123+01:00"`: 123,
		`"1767366000123999999"`: 123, `1767366000123999999`: 123, `1767366000123999`: 123, `1767366000123`: 123, `1767366000.123`: 123, `1767366001`: 1000,
	} {
		d, _ := answer(t, flat(entry{id: "1", attributes: chat(prompt("u hi"), "", nil), more: map[string]any{"start_time": json.RawMessage(v), "end_time": nil}}))
		assert.Equal(t, 1767366000000+ms, d.Traces[0].Start, v)
	}
	for _, v := range []string{`null`, `"canary"`, `0`, `"0"`, `-5`, `1e300`, `"1e300"`, `{}`, `[]`, `true`, `"0001-01-01T00:00:00Z"`} {
		_, w := turn(nil, map[string]any{"start_time": json.RawMessage(v), "end_time": json.RawMessage(v)})
		assert.Equal(t, map[string]int{"no_usage": 1, "no_timestamp": 1, "out_counted": 1}, w, v)
	}
	_, w = turn(attrs{"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 7}, map[string]any{"end_time": "1000000000099"})
	assert.Equal(t, map[string]int{"clock": 1}, w, "an end before its start")
}

func TestTools(t *testing.T) {
	of := func(id string, at int64, tools any) string {
		return otlp(entry{id: id, at: at, end: at + 1, attributes: chat(prompt("u "+id), "", attrs{"gen_ai.tool.definitions": tools})})
	}
	const a, b = `[ {"name": "a", "cache_control": {}}, {"name":"b"}]`, `[{"name":"b"}]`
	d, _ := answer(t, of("0", 0, nil), of("1", 1, a), of("2", 2, `[{"name":"a"},{"name":"b"}]`), of("3", 3, nil), of("4", 4, b), of("5", 5, b), of("6", 6, "canary"), of("7", 7, "[]"), of("8", 8, a))
	s := &d.Traces[0].Sessions[0]
	require.Len(t, s.Tools, 2)
	assert.Equal(t, `{"name":"a"}`, d.Store.String(s.Tools[0]))
	assert.Equal(t, map[string]int{"tools_changed": 2}, d.Warnings)
}

// wrongTypes puts a value at each key of a row, one after the other.
func wrongTypes(t *testing.T, row string, with string, yield func(row string)) {
	var v any
	require.NoError(t, json.Unmarshal([]byte(row), &v))
	var walk func(v any)
	emit := func() {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		yield(strings.ReplaceAll(string(b), `"@"`, with))
	}
	walk = func(of any) {
		switch of := of.(type) {
		case map[string]any:
			for key, old := range of {
				of[key] = "@"
				emit()
				of[key] = old
				walk(old)
			}
		case []any:
			for k, old := range of {
				of[k] = "@"
				emit()
				of[k] = old
				walk(old)
			}
		}
	}
	walk(v)
}

// corpus are rows that use every key.
func corpus() []string {
	parts := []any{map[string]any{"role": "user", "parts": []any{
		map[string]any{"type": "text", "content": "canary"}, map[string]any{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
		map[string]any{"type": "uri", "modality": "audio", "uri": "data:audio/wav;base64,AAAA"}, map[string]any{"type": "file", "file_id": "canary"}, map[string]any{"type": "canary"}}},
		map[string]any{"role": "assistant", "parts": []any{map[string]any{"type": "reasoning", "content": "canary"}, map[string]any{"type": "tool_call", "id": "canary", "name": "canary", "arguments": map[string]any{"canary": 1}}}},
		map[string]any{"role": "tool", "parts": []any{map[string]any{"type": "tool_call_response", "id": "canary", "response": "canary"}, map[string]any{"type": "tool_call_response", "result": []any{1}}}},
		map[string]any{"role": "canary", "content": "canary"}}
	e := entry{id: "canary1", parent: "canary2", at: 5, end: 9, attributes: attrs{"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "canary", "session.id": "canary",
		"gen_ai.request.model": "canary", "gen_ai.response.model": "canary", "gen_ai.response.finish_reasons": []any{"canary"}, "gen_ai.response.time_to_first_chunk": 0.5,
		"gen_ai.usage.input_tokens": 5, "gen_ai.usage.prompt_tokens": 5, "gen_ai.usage.cache_read.input_tokens": 5, "gen_ai.usage.cache_read_input_tokens": 5,
		"gen_ai.usage.output_tokens": 5, "gen_ai.usage.completion_tokens": 5, "gen_ai.system_instructions": []any{map[string]any{"type": "text", "content": "canary"}},
		"gen_ai.tool.definitions": []any{map[string]any{"name": "canary"}}, "gen_ai.output.messages": parts[1:2], "gen_ai.input.messages": parts}}
	e.attributes["canary"] = "canary"
	quoted := e
	quoted.attributes = maps.Clone(e.attributes)
	for _, key := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions"} {
		quoted.attributes[key] = row(e.attributes[key])
	}
	around := entry{id: "canary2", attributes: invoked(attrs{"gen_ai.conversation.id": "canary"})}
	return []string{otlp(e, around), otlp(quoted, around), flat(e), flat(quoted), `{"session_id":"canary","spans":[` + flat(quoted) + `,` + flat(around) + `]}`}
}

// safe reads rows, and checks that no error has a word of them.
func safe(t *testing.T, rows ...string) {
	d := text.NewDataset(text.NewStore(""))
	r := New(d)
	for _, row := range rows {
		if err := r.Row([]byte(row), text.Place{}); err != nil {
			require.NotContains(t, err.Error(), "canary")
			require.True(t, !json.Valid([]byte(row)) || strings.Contains(err.Error(), "role"), "%v", err)
		}
	}
	require.NoError(t, r.End())
	_ = d.Finish() // there may be no turn
	for name := range d.Warnings {
		require.NotContains(t, name, "canary")
	}
	sizes := text.NewSizes(d, byteTokens{})
	require.NoError(t, sizes.Complete())
	_, err := sizes.Answer(64, false)
	require.NoError(t, err)
	require.NoError(t, d.Store.Close())
}

func TestCutAnywhere(t *testing.T) {
	for _, row := range corpus() {
		for n := range len(row) {
			safe(t, row[:n])
		}
	}
}

func TestWrongTypes(t *testing.T) {
	deep := strings.Repeat(`[`, 400) + strings.Repeat(`]`, 400)
	for _, row := range corpus()[1:4] {
		for _, with := range []string{`null`, `true`, `"canary"`, `1e999`, `123456789012345678901234567890`, `[{"canary":[null]}]`, `"[{]"`, deep} {
			wrongTypes(t, row, with, func(row string) { safe(t, row) })
		}
	}
	for _, row := range []string{strings.Repeat(`[`, 2000), strings.Repeat(`{"spans":[`, 700), `{"span_id":"x","attributes":` + strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000) + `}`} {
		err := New(text.NewDataset(text.NewStore(""))).Row([]byte(row), text.Place{})
		require.ErrorIs(t, err, content.ErrMalformed)
	}
}

// White space, line ends of Windows and the order of keys change nothing.
func TestSpelling(t *testing.T) {
	for _, row := range corpus() {
		_, want := answer(t, row)
		var v any
		require.NoError(t, json.Unmarshal([]byte(row), &v))
		spaced, err := json.MarshalIndent(v, "", "\t")
		require.NoError(t, err)
		_, got := answer(t, strings.ReplaceAll(string(spaced), "\n", "\r\n"))
		assert.Equal(t, want, got)
		_, got = answer(t, reversed(v))
		assert.Equal(t, want, got, "keys in another order")
	}
}

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

func FuzzRow(f *testing.F) {
	for _, row := range corpus() {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, row string) {
		d := text.NewDataset(text.NewStore(""))
		r := New(d)
		_ = r.Row([]byte(row), text.Place{})
		_ = r.Row([]byte(row), text.Place{})
		require.NoError(t, r.End())
		_ = d.Finish()
		sizes := text.NewSizes(d, byteTokens{})
		require.NoError(t, sizes.Complete())
		_, err := sizes.Answer(64, true)
		require.NoError(t, err)
	})
}
