// Package aiperf reads the input files of AIPerf 0.13.0 that have text, by the names that its --custom-dataset-type has for them:
// doc/spec/text.md 7.1.
//
//	{"text":"What is deep learning?","output_length":50}                                        single_turn, random_pool
//	{"session_id":"a","turns":[{"text":"Hi"},{"text":"And now?","delay":1000}]}                 multi_turn
//	{"text_input":"Hi","timestamp":1000}, {"messages":[...],"output_length":4}                  mooncake_trace
//	{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0}                   raw_payload
//	{"data":[{"session_id":"a","payloads":[{"messages":[...]}]}]}                               inputs_json
//	{"session_id":"a","turns":[{"messages":[...],"spawns":["b"]}]}                              dag_jsonl
//
// Each turn becomes a request with a message of chat completions for each message that AIPerf would send. Sessions are made when all rows
// are read, because rows of one session may stand anywhere.
package aiperf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// Form is a form of AIPerf's files.
type Form struct {
	Name   string
	Sample string // rows that exercise the reader, a line each

	is  func(row content.Raw) bool // nil: a row does not show it
	row func(r *Reader, row object, at text.Place) error
}

// Forms are tried in this order.
var Forms = []Form{
	{"inputs_json", sampleInputs, isInputs, (*Reader).inputs},
	{"dag_jsonl", sampleDAG, isDAG, (*Reader).dagRow},
	{"multi_turn", sampleMulti, isMulti, (*Reader).multi},
	{"mooncake_trace", sampleMooncake, isMooncake, (*Reader).mooncake},
	{"single_turn", sampleSingle, isSingle, (*Reader).single},
	{"random_pool", samplePool, nil, (*Reader).pool},
	{"raw_payload", sampleRaw, nil, (*Reader).raw},
}

// Is reports whether the first row of a file shows the form.
func (f *Form) Is(row content.Raw) bool { return f.is != nil && f.is(row) }

// Reader reads the rows of files of one form.
type Reader struct {
	content.Reader
	form     *Form
	perFile  bool
	sessions []*session // in the order of their first rows
	byID     map[string]*session
	file     int // from 1, of the row before
}

// session is a conversation as it was written.
type session struct {
	id       string
	requests []request
	whole    bool // each request has its whole prompt; else what is new behind the answers of the server
	edges    []edge
	child    bool // another session starts it
}

// request is a turn as it was written.
type request struct {
	messages []int32
	tools    []text.Text
	members  text.Text
	model    text.Text
	out      int32
	at       int64 // milliseconds; text.NoTime
	delay    int64 // milliseconds, after the request before
	system   bool  // it is a text of the system alone
}

// New returns a reader of a form that adds to a dataset. perFile: the bodies of a file of raw_payload are one session.
func New(d *text.Dataset, f *Form, perFile bool) *Reader {
	return &Reader{Reader: content.Reader{Data: d}, form: f, perFile: perFile, byID: map[string]*session{}}
}

// Row reads a row.
func (r *Reader) Row(row []byte, at text.Place) error {
	v, err := content.Value(row)
	if err != nil {
		return err
	}
	o, err := read(v)
	if err != nil {
		return err
	}
	if err := r.form.row(r, o, at); err != nil {
		return r.orAnother(v, err)
	}
	return r.Err()
}

// orAnother adds to an error which form a row has, where it is another than the one that was named.
func (r *Reader) orAnother(row content.Raw, err error) error {
	for k := range Forms {
		if f := &Forms[k]; f.Is(row) {
			if f.Name == r.form.Name || f.Name == "single_turn" && r.form.Name == "random_pool" {
				return err
			}
			return fmt.Errorf("%w: it is a row of %s: name that format", err, f.Name)
		}
	}
	if o, _ := read(row); o.of["messages"].IsArray() && r.form.Name != "raw_payload" {
		return fmt.Errorf("%w: it is a body of raw_payload: name that format", err)
	} else if o.of["input_length"] != nil || o.of["hash_ids"] != nil || o.of["requests"] != nil {
		return fmt.Errorf("%w: it is a row of lengths, which is read where no format is named", err)
	}
	return err
}

// session returns the session of an id, which it begins; without an id a new one, by the number of the row.
func (r *Reader) session(id content.Raw, at text.Place) (*session, error) {
	name := id.String()
	switch {
	case id != nil && name == "":
		return nil, errors.New("session_id: want a text that is not empty")
	case id == nil:
		name = fmt.Sprintf("row-%06d", at.Number)
	}
	s := r.byID[name]
	if s == nil {
		s = &session{id: name}
		r.byID[name] = s
		r.sessions = append(r.sessions, s)
	}
	return s, nil
}

// End makes the sessions.
func (r *Reader) End() error {
	if err := r.link(); err != nil {
		return err
	}
	for _, s := range r.sessions {
		if s.child {
			continue
		}
		t := r.Data.NewTrace(s.id)
		t.GapAlone, t.Verbatim, t.OwnIDs = true, true, true
		r.hoist(s)
		if err := r.build(t, 0, s, 0); err != nil {
			return err
		}
		for _, e := range s.edges {
			if err := r.addChild(t, s, e); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

// hoist puts a system prompt that is the first turn of a conversation in front of the second, unless that is a system prompt, too.
func (r *Reader) hoist(s *session) {
	if q := s.requests; r.form.Name == "multi_turn" && len(q) > 1 && q[0].system && r.Data.Messages[q[1].messages[0]].Role != text.System {
		q[1].messages = slices.Concat(q[0].messages, q[1].messages)
		s.requests = q[1:]
	}
}

// build makes the turns of session k of a trace, whose clock is at an instant.
func (r *Reader) build(t *text.Trace, k int, s *session, clock int64) error {
	for n := range s.requests {
		q, turn := &s.requests[n], text.NewTurn()
		if clock += q.delay; q.at != text.NoTime {
			clock = q.at
			t.Scheduled = t.Scheduled || k == 0 && n == 0
		}
		turn.At = clock
		if n == 0 && slices.ContainsFunc(s.edges, func(e edge) bool { return e.before }) {
			clock++ // the turn takes a moment, in which others begin
		}
		turn.End = clock
		turn.Before = int32(n) - 1
		turn.Model, turn.Out, turn.Members = q.model, q.out, q.members
		if n == 0 {
			t.Sessions[k].Tools = q.tools
		}
		if q.members != 0 || !slices.Equal(q.tools, t.Sessions[k].Tools) {
			turn.Tools = append([]text.Text{}, q.tools...)
		}
		for _, m := range q.messages {
			turn.Last = t.Child(turn.Last, m)
		}
		t.Sessions[k].Turns = append(t.Sessions[k].Turns, turn)
	}
	several := len(s.requests) > 1
	if t.Live = t.Live || several && !s.whole; several && s.whole && t.Live {
		return fmt.Errorf("session %d of a tree has whole prompts, and others of it what is new: give all of them one context_mode", k+1)
	}
	return nil
}

// object is a JSON object. Null is a member left out; of a key given twice the last counts.
type object struct {
	raw  content.Raw
	keys []string
	of   map[string]content.Raw
}

func read(v content.Raw) (o object, err error) {
	if !v.IsObject() {
		return o, errors.New("want a JSON object")
	}
	o = object{raw: v, of: map[string]content.Raw{}}
	err = v.Object(func(key []byte, v content.Raw) error {
		if !v.IsNull() {
			o.keys = append(o.keys, string(key))
			o.of[string(key)] = v
		}
		return nil
	})
	if err != nil {
		err = content.Malformed(err)
	}
	return o, err
}

// list returns the elements of a member that must be a list with some.
func (o object) list(name, of string) (list []content.Raw, err error) {
	v := o.of[name]
	switch {
	case v == nil:
		return nil, fmt.Errorf("%s is missing: want a list of %s", name, of)
	case !v.IsArray():
		return nil, fmt.Errorf("%s: want a list of %s", name, of)
	}
	err = v.Array(func(v content.Raw) error {
		list = append(list, v)
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: the list is empty: want %s", name, of)
	}
	return list, err
}

// count returns a member that is a whole number from 1 on, text.None where it is missing.
func (o object) count(name string) (int32, error) {
	v := o.of[name]
	if v == nil {
		return text.None, nil
	}
	if n, ok := v.Int(); ok && n >= 1 && n <= maxTokens {
		return int32(n), nil
	}
	return text.None, fmt.Errorf("%s: want a whole number of tokens from 1 to %d", name, maxTokens)
}

// maxTokens is the longest answer that can be asked for.
const maxTokens = 1 << 24

// only refuses members that are not among some names.
func (o object) only(names []string) error {
	for _, key := range o.keys {
		if !slices.Contains(names, key) {
			return fmt.Errorf("unknown member %s: want %s", content.Name([]byte(key)), names)
		}
	}
	return nil
}
