// Package otel reads spans of OpenTelemetry that have the messages of requests to models: doc/spec/text.md 6.
//
//	{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"4b...","spanId":"01","attributes":[{"key":"gen_ai.operation.name",...}]}]}]}]}
//	{"trace_id":"4b...","span_id":"01","start_time":"2026-01-02T15:00:00Z","attributes":{"gen_ai.operation.name":"chat",...}}
//	{"session_id":"s1","spans":[{"trace_id":"4b...","span_id":"01","attributes":{...}}]}
//
// A span of an operation chat, text_completion or generate_content is a turn; those of invoke_agent around it say which agent it is of.
// Spans come in any order, so sessions are made at the end of the input.
package otel

import (
	"math"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/convert/text/otel/spans"
)

// Is reports whether a row is of this format.
func Is(row content.Raw) bool { return spans.Is(row) }

// The attributes that decide about a span.
const (
	operation = iota
	conversation
	session
	requestModel
	responseModel
	finishReasons
	firstChunk
	inTokens
	oldIn
	cachedTokens
	oldCached
	outTokens
	oldOut
	inputMessages
	outputMessages
	instructions
	definitions
)

var attributes = map[string]int{
	"gen_ai.operation.name": operation, "gen_ai.conversation.id": conversation, "session.id": session,
	"gen_ai.request.model": requestModel, "gen_ai.response.model": responseModel,
	"gen_ai.response.finish_reasons": finishReasons, "gen_ai.response.time_to_first_chunk": firstChunk,
	"gen_ai.usage.input_tokens": inTokens, "gen_ai.usage.prompt_tokens": oldIn,
	"gen_ai.usage.cache_read.input_tokens": cachedTokens, "gen_ai.usage.cache_read_input_tokens": oldCached,
	"gen_ai.usage.output_tokens": outTokens, "gen_ai.usage.completion_tokens": oldOut,
	"gen_ai.input.messages": inputMessages, "gen_ai.output.messages": outputMessages,
	"gen_ai.system_instructions": instructions, "gen_ai.tool.definitions": definitions,
}

// Reader reads rows.
type Reader struct {
	content.Reader
	scanner  spans.Scanner
	spans    []span
	numbers  map[xxh3.Uint128]int32 // of spans
	requests []request
	words    content.Names          // ids, and other words
	tools    [][]text.Text          // definitions of tools
	heads    map[xxh3.Uint128]int32 // of attributes that each request repeats: tools, or a message of the system
	prompts  content.Lists
	tree     *text.Trace // of prompts, whatever their sessions: its nodes alone
}

// New returns a reader that adds to a dataset.
func New(d *text.Dataset) *Reader {
	return &Reader{Reader: content.Reader{Data: d}, scanner: spans.Scanner{Wanted: attributes}, numbers: map[xxh3.Uint128]int32{},
		tools: [][]text.Text{nil}, heads: map[xxh3.Uint128]int32{}, tree: text.NewTree()}
}

// Row reads a row: an object of the exporter, a span, or a session.
func (r *Reader) Row(row []byte, _ text.Place) error {
	counted, err := r.scanner.Scan(row)
	if err != nil {
		return err
	}
	if counted != "" {
		r.Data.Warn(counted)
	}
	for k := range r.scanner.Spans {
		if err := r.add(&r.scanner.Spans[k]); err != nil {
			return err
		}
	}
	return r.Err()
}

// span is a span of the input: a link between others, and perhaps a request.
type span struct {
	parent     xxh3.Uint128 // zero: none
	own        int32        // word: the session that it names
	otherwise  int32        // word: its session where no span around it names one
	attributes int32
	operation  int32 // in operations
	request    int32 // in Reader.requests; None
	id         int32 // word, of an agent alone
}

// operations are those that are counted by their names. The first ones are requests.
var operations = []string{
	"chat", "text_completion", "generate_content", "invoke_agent", "other", "span",
	"create_agent", "create_memory", "create_memory_store", "delete_memory", "delete_memory_store", "embeddings", "execute_tool", "fetch_response",
	"invoke_workflow", "plan", "retrieval", "search_memory", "update_memory", "upsert_memory",
}

// Places in operations.
const (
	invokeAgent = 3 + iota // those before are requests
	otherName              // a name that is not in the list
	noName
)

// request is a span that is a turn.
type request struct {
	turn                   text.Turn // Last is in Reader.tree
	tools                  int32     // in Reader.tools; 0: none
	failed, choices, empty bool
}

// add adds a span. Of two with one id the one with more attributes stays.
func (r *Reader) add(f *spans.Span) (err error) {
	s := span{attributes: int32(f.Attributes), request: text.None, operation: operationOf(f)}
	number := int32(len(r.spans))
	if id := f.ID(); len(id) > 0 {
		key := spanKey(f.Trace(), id)
		if n, known := r.numbers[key]; known {
			if r.Data.Warn("copied_span"); s.attributes <= r.spans[n].attributes {
				return nil
			}
			number = n
		}
		r.numbers[key] = number
	}
	if parent := f.Parent(); len(parent) > len(`""`) {
		s.parent = spanKey(f.Trace(), parent)
	}
	if s.own = r.word(f.Attribute(conversation)); s.own == 0 {
		s.own = r.word(f.Attribute(session))
	}
	if s.otherwise = r.word(r.scanner.Session); s.otherwise == 0 {
		s.otherwise = r.word(f.Trace())
	}
	switch {
	case s.operation < invokeAgent:
		var q request
		q, err = r.request(f)
		s.request = int32(len(r.requests))
		r.requests = append(r.requests, q)
	case s.operation == invokeAgent:
		s.id = r.word(f.ID())
	}
	if int(number) == len(r.spans) {
		r.spans = append(r.spans, s)
	}
	r.spans[number] = s
	return err
}

// operationOf returns what a span is. One without a name is a request if it has tokens of a prompt.
func operationOf(f *spans.Span) int32 {
	name := f.Attribute(operation)
	switch {
	case len(name) > 0:
		if n := slices.Index(operations, name.String()); n >= 0 {
			return int32(n)
		}
		return otherName
	case len(f.Attribute(inTokens))+len(f.Attribute(oldIn)) > 0:
		return 0
	}
	return noName
}

func spanKey(trace, id content.Raw) xxh3.Uint128 {
	var buf [128]byte
	return xxh3.Hash128(append(append(buf[:0], trace...), id...))
}

// word returns the number of a string or a number, 0 where there is none.
func (r *Reader) word(v content.Raw) int32 {
	if v.IsNumber() {
		return r.words.Number(v)
	}
	var buf [64]byte
	return r.words.Number(v.AppendString(buf[:0]))
}

// request reads a span that is a request.
func (r *Reader) request(f *spans.Span) (q request, err error) {
	t := &q.turn
	*t = text.NewTurn()
	if q.failed = f.Failed(); q.failed {
		return q, nil
	}
	if at, ok := f.Start(); ok {
		t.At, t.End = at, at
	}
	if end, ok := f.End(); ok {
		if t.End = end; t.At == text.NoTime {
			t.At = end
		}
	}
	if s, err := strconv.ParseFloat(string(f.Attribute(firstChunk)), 64); err == nil && s >= 0 && s < 1e6 && t.At != text.NoTime {
		t.First = t.At + int64(math.Round(s*1e6))/1000
	}
	t.In, t.Cached, t.Out = count(f, inTokens, oldIn), count(f, cachedTokens, oldCached), count(f, outTokens, oldOut)
	if t.Model = r.Text(f.Attribute(responseModel)); t.Model == 0 {
		t.Model = r.Text(f.Attribute(requestModel))
	}
	reasons, list := r.scanner.Said(f, finishReasons)
	if !list {
		t.Stop = r.words.Name(r.words.Number(reasons))
	}
	_ = reasons.Array(func(v content.Raw) error { // it was read before
		if t.Stop == "" {
			t.Stop = r.words.Name(r.word(v))
		}
		return nil
	})
	return q, r.content(f, &q)
}

// count returns the count of an attribute, or else of its old name, None where neither is there.
func count(f *spans.Span, name, old int) int32 {
	for _, k := range [...]int{name, old} {
		if n, ok := f.Count(k); ok {
			return text.Tokens(n)
		}
	}
	return text.None
}

// content reads the messages of a request.
func (r *Reader) content(f *spans.Span, q *request) error {
	messages, ok, err := r.prompts.Read(r.scanner.Plain(f, inputMessages), func(v content.Raw) (int32, error) {
		m, err := r.GenAI(v)
		if err != nil {
			return 0, err
		}
		return r.Data.Message(m), nil
	})
	if q.turn.NoContent = !ok; !ok {
		return err
	}
	if m := r.head(f, instructions, text.None, r.system); m != text.None {
		q.turn.Last = r.tree.Child(q.turn.Last, m)
	}
	for _, m := range messages {
		q.turn.Last = r.tree.Child(q.turn.Last, m)
	}
	q.empty = q.turn.Last == text.None
	q.tools = r.head(f, definitions, 0, r.definitions)
	if v, list := r.scanner.Said(f, outputMessages); list {
		r.output(v, q)
	}
	q.turn.Counted = text.WholeRequest
	return r.Err()
}

// output reads the first of the choices of an answer.
func (r *Reader) output(v content.Raw, q *request) {
	n := 0
	_ = v.Array(func(choice content.Raw) error { // it was read before
		if n++; n > 1 {
			q.choices = true
		} else if m, err := r.GenAI(choice); err == nil {
			q.turn.Output = []int32{r.Data.Message(m)}
		}
		return nil
	})
}

// head returns what read makes of an attribute, which each request repeats, or none where it is not there.
func (r *Reader) head(f *spans.Span, k int, none int32, read func(v content.Raw, list bool) int32) int32 {
	v := r.scanner.Plain(f, k)
	if len(v) == 0 {
		return none
	}
	key := xxh3.Hash128Seed(v, uint64(k))
	n, known := r.heads[key]
	if !known {
		n = read(r.scanner.Said(f, k))
		r.heads[key] = n
	}
	return n
}

// system returns the message of instructions: parts, or a text. An empty list has none.
func (r *Reader) system(v content.Raw, list bool) int32 {
	m := text.Message{Role: text.System}
	if !list {
		m.Parts = []text.Part{r.Plain(v)}
	} else if m.Parts = r.GenAIParts(v); len(m.Parts) == 0 {
		return text.None
	}
	return r.Data.Message(m)
}

// definitions returns the number of a list of tools.
func (r *Reader) definitions(v content.Raw, _ bool) int32 {
	list, _ := r.Tools(v) // it was read before
	if len(list) == 0 {
		return 0
	}
	r.tools = append(r.tools, list)
	return int32(len(r.tools) - 1)
}
