// Package codex reads rollouts of Codex: doc/spec/text.md 5.
//
//	{"timestamp":"2026-01-02T15:00:00.000Z","type":"session_meta","payload":{"id":"019b","base_instructions":{"text":"You are Codex."}}}
//	{"timestamp":"2026-01-02T15:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[...]}}
//	{"timestamp":"2026-01-02T15:00:04.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","call_id":"c1","arguments":"{}"}}
//	{"timestamp":"2026-01-02T15:00:04.350Z","type":"event_msg","payload":{"type":"token_count","info":{...}}}
//
// A file is a thread. Row keeps of each row an event of a few bytes: what it changes in prompts, and what was counted. Behind the last file
// the events become turns (history.go), and threads become sessions of their parents (threads.go).
package codex

import (
	"bytes"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/internal/jsonlex"
)

// The members of a row. Items stand in rows of the oldest files, and in payloads.
const (
	kTimestamp = iota
	kOrdinal
	kRecordType
	kID
	kInstructions
	kType    // and behind it the further content.ItemFields
	kPayload = kType + len(content.ItemFields)
	kItem    = kPayload + 1 // content.ItemFields
)

// Those of payloads that are of no item.
const (
	kThread = kItem + len(content.ItemFields) + iota
	kParent
	kFork
	kSpawner
	kBaseThread
	kBaseEnd
	kSystem
	kModel
	kTurns
	kMessage
	kReplacement
	kLast  // and behind it counts
	kTotal = kLast + 1 + len(counts)
	keys   = kTotal + 1 + len(counts)
)

var counts = [...]string{"input_tokens", "cached_input_tokens", "output_tokens", "total_tokens"}

var schema = content.NewSchema(paths())

func paths() (list []string) {
	add := func(prefix string, names ...string) {
		for _, n := range names {
			list = append(list, prefix+n)
		}
	}
	add("", "timestamp", "ordinal", "record_type", "id", "instructions")
	add("", content.ItemFields[:]...)
	add("", "payload")
	add("payload.", content.ItemFields[:]...)
	add("payload.", "id", "parent_thread_id", "forked_from_id", "source.subagent.thread_spawn.parent_thread_id",
		"history_base.thread_id", "history_base.end_ordinal_exclusive", "base_instructions.text", "model", "num_turns", "message", "replacement_history")
	for _, of := range [...]string{"payload.info.last_token_usage", "payload.info.total_token_usage"} {
		add(of, "")
		add(of+".", counts[:]...)
	}
	return list
}

// records are the types of rows of the present form, with whether they are left out and counted.
var records = map[string]bool{
	"session_meta": false, "response_item": false, "turn_context": false, "event_msg": false, "compacted": false,
	"world_state": true, "inter_agent_communication": true, "inter_agent_communication_metadata": true, "token_usage_record": true,
	"realtime_item": true, "security_risk_score": true,
}

// Is reports whether a row is of a rollout.
func Is(row content.Raw) (is bool) {
	bare, payload, typed := 0, false, false
	l := jsonlex.Lexer{Data: row, MaxDepth: content.MaxDepth}
	_ = l.Object(func(key []byte) error { // a row that is cut off shows what it is, too
		switch string(key) {
		case "record_type":
			is = true
		case "id", "timestamp", "instructions":
			bare++
		case "payload":
			payload = true
		case "type":
			if l.Kind() == jsonlex.String {
				name, err := l.ShortString()
				_, typed = records[string(name)]
				return err
			}
		}
		return l.Skip()
	})
	return is || payload && typed || bare == 3
}

// event is a row that changes a prompt, or what is counted.
type event struct {
	at      int64
	ordinal uint32
	value   int32
	kind    eventKind
	flags   uint8
}

type eventKind uint8

const (
	anItem      eventKind = iota // value: message of the dataset
	aUsage                       // value: in Reader.usages
	aModel                       // value: text of the dataset
	aCompaction                  // value: in Reader.replaced
	aRebuilding                  // a compaction that keeps what people said; value: message of the dataset; None
	aRollback                    // value: messages of the user
)

// Flags of an item: its content.ItemKind, and:
const (
	kindMask = 7
	follows  = 1 << (iota + 2) // content.Item.Follows
	ofUser                     // a message of the user
	calls                      // of a tool
	spawns                     // an agent
)

// tokens are what was counted, by counts; None is what was not.
type tokens [len(counts)]int64

// usage is what was counted: by the last reply, and since the beginning of the thread.
type usage struct{ last, total tokens }

func tokensOf(fields []content.Raw) (n tokens) {
	for k, v := range fields {
		n[k] = text.None
		if of, ok := v.Int(); ok {
			n[k] = max(of, 0)
		}
	}
	return n
}

// thread is a file.
type thread struct {
	file    string // its name
	name    string // the id that it gives itself; "": none yet
	kind    text.SessionKind
	parent  string // the thread that it is of
	base    string // the thread whose items its prompts begin with
	baseEnd uint32 // ordinal of the first that they do not have
	system  int32  // message; None
	events  []event
	at      int64 // of the row before
	head    int   // events before the first pause; None: there was none yet
	foreign bool  // the head has what another thread says of itself
	counted bool  // it has usage at all
	dropped bool  // it is a copy of another file
}

// Reader reads rows.
type Reader struct {
	content.Reader
	x        [keys]content.Raw // of the row being read
	file     int               // of the thread being read, from 1
	threads  []*thread
	names    map[string]*thread
	usages   []usage
	replaced [][]event // histories that compactions put in place of others
}

// New returns a reader that adds to a dataset.
func New(d *text.Dataset) *Reader {
	return &Reader{Reader: content.Reader{Data: d}, names: map[string]*thread{}}
}

// pause is how long no row comes before what a thread has of its own begins, milliseconds.
const pause = 1000

// Row reads a row of a file.
func (r *Reader) Row(row []byte, at text.Place) error {
	x := &r.x
	if err := schema.Read(row, x[:]); err != nil {
		return err
	}
	if r.file != at.File+1 {
		r.file = at.File + 1
		name, _, _ := strings.Cut(filepath.Base(at.Path), ".jsonl")
		r.threads = append(r.threads, &thread{file: name, system: text.None, at: text.NoTime, head: text.None})
	}
	t := r.threads[len(r.threads)-1]
	if t.dropped {
		return nil
	}
	instant, timed := content.Instant(x[kTimestamp])
	if timed {
		if t.head == text.None && t.at != text.NoTime && instant-t.at > pause {
			t.head = len(t.events)
		}
		t.at = instant
	}
	before := len(t.events)
	r.read(t, bytes.TrimLeft(row, " \t\r\n"))
	if !timed && len(t.events) > before {
		r.Data.Warn("no_timestamp")
	}
	return r.Err()
}

// read reads a row of a thread.
func (r *Reader) read(t *thread, row content.Raw) {
	x := &r.x
	name := x[kType].Bytes()
	counted, known := records[string(name)]
	switch {
	case !row.IsObject():
		r.Data.Warn("not_object")
	case x[kRecordType] != nil:
		r.Data.Warn("ignored:" + content.Name(x[kRecordType].Bytes()))
	case counted:
		r.Data.Warn("ignored:" + string(name))
	case known:
		r.record(t, string(name))
	case len(name) == 0 && x[kID] != nil && (x[kTimestamp] != nil || x[kInstructions] != nil):
		r.meta(t, x[kID])
	case len(name) == 0:
		r.Data.Warn("unknown_type:line")
	case x[kPayload] == nil:
		r.item(t, row, x[kType:kPayload])
	default:
		r.Data.Warn("unknown_type:" + content.Name(name))
	}
}

// record reads a row of the present form.
func (r *Reader) record(t *thread, name string) {
	x := &r.x
	switch name {
	case "session_meta":
		r.meta(t, x[kThread])
	case "response_item":
		r.item(t, x[kPayload], x[kItem:kThread])
	case "turn_context":
		if x[kModel].IsString() {
			t.add(x, event{kind: aModel, value: int32(r.Text(x[kModel]))})
		}
	case "compacted":
		r.compaction(t)
	case "event_msg":
		switch string(x[kItem].Bytes()) {
		case "token_count":
			r.usage(t)
		case "thread_rolled_back":
			n, _ := x[kTurns].Int()
			t.add(x, event{kind: aRollback, value: int32(min(max(n, 0), 1<<30))})
			r.Data.Warn("rolled_back")
		case "turn_aborted":
			r.Data.Warn("aborted")
		}
	}
}

// compaction reads what stands in place of a history: items, or a summary beside what people said.
func (r *Reader) compaction(t *thread) {
	x := &r.x
	switch {
	case x[kReplacement].IsArray():
		t.add(x, event{kind: aCompaction, value: int32(len(r.replaced))})
		r.replaced = append(r.replaced, r.items(x[kReplacement], t.at))
	case len(x[kMessage].Bytes()) > 0:
		m := text.Message{Role: text.User, Parts: []text.Part{{Kind: text.Plain, Text: r.Text(x[kMessage])}}}
		t.add(x, event{kind: aRebuilding, value: r.Data.Message(m)})
	case x[kPayload].IsObject():
		t.add(x, event{kind: aRebuilding, value: text.None})
	}
}

// add adds an event at the time of its row.
func (t *thread) add(x *[keys]content.Raw, e event) {
	n, ok := x[kOrdinal].Int()
	if e.at, e.ordinal = t.at, uint32(min(max(n, 0), 1<<32-1)); !ok {
		e.ordinal = uint32(len(t.events))
	}
	t.events = append(t.events, e)
}

// meta reads what a file says of a thread: of its own first, then of those that it has copies of.
func (r *Reader) meta(t *thread, id content.Raw) {
	x := &r.x
	name := id.String()
	if t.name != "" {
		t.foreign = t.foreign || t.head == text.None && name != t.name
		return
	}
	if t.name = name; !r.register(t) {
		return
	}
	switch {
	case x[kSpawner].IsString():
		t.kind, t.parent = text.Subagent, x[kSpawner].String()
	case x[kParent].IsString():
		t.kind, t.parent = text.Subagent, x[kParent].String()
	case x[kFork].IsString():
		t.kind, t.parent = text.Branch, x[kFork].String()
	case x[kBaseThread].IsString():
		t.kind, t.parent = text.Branch, x[kBaseThread].String()
	}
	if end, ok := x[kBaseEnd].Int(); ok && x[kBaseThread].IsString() {
		t.base, t.baseEnd = x[kBaseThread].String(), uint32(min(max(end, 0), 1<<32-1))
	}
	if v := x[kSystem]; v.IsString() && len(v) > len(`""`) {
		t.system = r.Data.Message(text.Message{Role: text.System, Parts: []text.Part{{Kind: text.Plain, Text: r.Text(v)}}})
	}
}

// register notes the name of a thread. It is false for a second file of one.
func (r *Reader) register(t *thread) bool {
	if t.name == "" {
		t.name = t.file
	}
	if r.names[t.name] != nil {
		t.dropped, t.events = true, nil
		r.Data.Warn("copied_thread")
		return false
	}
	r.names[t.name] = t
	return true
}

// item reads an item, whose members are known.
func (r *Reader) item(t *thread, v content.Raw, fields []content.Raw) {
	if e, ok := r.eventOf(r.Item(v, fields)); ok {
		t.add(&r.x, e)
	}
}

// items reads a list of items.
func (r *Reader) items(list content.Raw, at int64) (events []event) {
	r.Items(list, func(i content.Item) {
		if e, ok := r.eventOf(i); ok {
			e.at = at
			events = append(events, e)
		}
	})
	return events
}

// eventOf returns the event of an item; an unknown one is counted and has none.
func (r *Reader) eventOf(i content.Item) (event, bool) {
	if i.Kind == content.UnknownItem {
		r.Data.Warn("unknown_item:" + content.Name([]byte(i.Type)))
		return event{}, false
	}
	e := event{kind: anItem, flags: uint8(i.Kind), value: r.Data.Message(i.Message)}
	if i.Follows {
		e.flags |= follows
	}
	if i.Message.Role == text.User {
		e.flags |= ofUser
	}
	if p := i.Message.Parts; len(p) > 0 && p[0].Kind == text.Call {
		if e.flags |= calls; r.Data.Store.String(p[0].Name) == "spawn_agent" {
			e.flags |= spawns
		}
	}
	return e, true
}

// usage reads an event with counts; one without any says nothing.
func (r *Reader) usage(t *thread) {
	x := &r.x
	if x[kLast] == nil && x[kTotal] == nil {
		return
	}
	t.counted = true
	t.add(x, event{kind: aUsage, value: int32(len(r.usages))})
	r.usages = append(r.usages, usage{tokensOf(x[kLast+1 : kTotal]), tokensOf(x[kTotal+1 : keys])})
}
