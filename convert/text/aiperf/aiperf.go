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
// A request has the messages of chat completions that AIPerf would send. Sessions are made when all rows are read, because rows of one session
// may stand anywhere.
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

	is     func(row object) bool // of the beginning of a file; nil: a row does not show it
	list   string                // the member of a session that has its requests; "": a row is a request
	row    []string              // members that a session has, others are refused; nil: any
	of     []string              // members that a request can have
	strict bool                  // others are refused, else counted; and a session can start others
	bodies bool                  // requests are bodies
	alone  bool                  // each row is a session
	once   bool                  // a session stands in one row
}

// Forms are tried in this order.
var Forms = []Form{
	{Name: "inputs_json", Sample: sampleInputs, is: isInputs, list: "payloads", bodies: true, once: true},
	{Name: "dag_jsonl", Sample: sampleDAG, is: isDAG, list: "turns", row: []string{"session_id", "turns", "context_mode", "pre_session_spawns"}, once: true,
		of: []string{"messages", "model", "max_tokens", "tools", "extra", "forks", "spawns", "delay"}, strict: true},
	{Name: "multi_turn", Sample: sampleMulti, is: func(row object) bool { return hasModality(row.first("turns")) }, list: "turns", of: turnMembers},
	{Name: "mooncake_trace", Sample: sampleMooncake, is: isMooncake,
		of: []string{"text_input", "messages", "payload", "tools", "output_length", "timestamp", "delay", "session_id", "extra", "type"}},
	{Name: "single_turn", Sample: sampleSingle, is: func(row object) bool { return hasModality(row) && row.beyond(turnMembers) == "" }, of: turnMembers},
	{Name: "random_pool", Sample: samplePool, of: turnMembers, alone: true},
	{Name: "raw_payload", Sample: sampleRaw, bodies: true, alone: true},
}

// Is reports whether the beginning of a file shows the form.
func (f *Form) Is(row content.Raw) bool {
	o, _ := read(row) // what is cut off counts as far as it goes
	return f.is != nil && f.is(o)
}

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
	if err == nil && r.form.Name == "inputs_json" {
		err = o.each("data", "sessions, each with session_id and payloads", func(o object) error { return r.row(o, at) })
	} else if err == nil {
		err = r.row(o, at)
	}
	if err != nil {
		return r.orAnother(o, err)
	}
	return r.Err()
}

// orAnother adds to an error which form a row has, where it is another than the one that was named.
func (r *Reader) orAnother(row object, err error) error {
	k := slices.IndexFunc(Forms, func(f Form) bool { return f.is != nil && f.is(row) })
	switch {
	case k >= 0 && (Forms[k].Name == r.form.Name || Forms[k].Name == "single_turn" && r.form.Name == "random_pool"):
	case k >= 0:
		return fmt.Errorf("%w: it is a row of %s: name that format", err, Forms[k].Name)
	case row.of["messages"].IsArray() && !r.form.bodies:
		return fmt.Errorf("%w: it is a body of raw_payload: name that format", err)
	case row.of["input_length"] != nil || row.of["hash_ids"] != nil || row.of["requests"] != nil:
		return fmt.Errorf("%w: it is a row of lengths, which is read where no format is named", err)
	}
	return err
}

// row reads a session, or one request of one.
func (r *Reader) row(o object, at text.Place) error {
	f := r.form
	switch name := o.beyond(f.row); {
	case f.row == nil || name == "":
	case name == "orchestrator" || name == "rounds" || name == "spawns":
		return fmt.Errorf("%s: a session that sends no request and starts others, which agentx does not play: leave it out, and its children are sessions of their own", name)
	default:
		return fmt.Errorf("unknown member %s: want %s", name, f.row)
	}
	var add session // all of a row, or nothing
	requests := func(o object) error {
		q, whole, err := r.request(o)
		add.whole = add.whole || whole
		if add.requests = append(add.requests, q); err == nil && f.strict {
			err = add.turn(o)
		}
		return err
	}
	var err error
	if f.strict {
		err = add.begin(o)
	}
	switch {
	case err != nil:
	case f.list == "":
		err = requests(o)
	default:
		err = o.each(f.list, f.list, requests)
	}
	if err != nil {
		return err
	}
	s, err := r.session(o, at)
	if err != nil {
		return err
	}
	if len(s.requests) > 0 && s.whole != add.whole {
		return errors.New("session_id: other rows of this session have texts where this one has messages, or the reverse: give all of a session one form")
	}
	s.whole, s.requests, s.edges = add.whole, append(s.requests, add.requests...), add.edges
	return nil
}

// session returns the session of a row, which it begins unless an earlier row has.
func (r *Reader) session(o object, at text.Place) (*session, error) {
	f, id := r.form, o.of["session_id"]
	same := r.file == at.File+1
	if r.file > 0 && !same && f.Name == "random_pool" {
		return nil, errors.New("a second file: AIPerf joins a row of each file into one request, and agentx plays the rows of one: give one file")
	}
	r.file = at.File + 1
	name := id.String()
	switch s := r.byID[name]; {
	case f.alone && r.perFile && same:
		return r.sessions[len(r.sessions)-1], nil
	case f.once && id == nil:
		return nil, errors.New("session_id is missing: want a text")
	case f.alone || id == nil:
		name = fmt.Sprintf("row-%06d", at.Number)
	case name == "":
		return nil, errors.New("session_id: want a text that is not empty")
	case s != nil && f.once:
		return nil, errors.New("session_id: another session has it already")
	case s != nil:
		return s, nil
	}
	s := &session{id: name}
	r.byID[name] = s
	r.sessions = append(r.sessions, s)
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
		turn.End, turn.Before = clock, int32(n)-1
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
