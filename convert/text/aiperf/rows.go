package aiperf

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// modalities are what a turn can have, in the order in which its content has them: a member with one, a member with a list, and what stands
// around each in chat completions.
var modalities = [...]struct{ one, many, open, close string }{
	{"text", "texts", `{"type":"text","text":`, `}`},
	{"image", "images", `{"type":"image_url","image_url":{"url":`, `}}`},
	{"audio", "audios", `{"type":"input_audio","input_audio":{"data":`, `}}`},
	{"video", "videos", `{"type":"video_url","video_url":{"url":`, `}}`},
}

// turnMembers are the members of a turn with text.
var turnMembers = []string{"text", "texts", "image", "images", "audio", "audios", "video", "videos", "timestamp", "delay", "role", "session_id",
	"output_length", "extra", "type"}

func hasModality(o object) bool {
	for _, m := range modalities {
		if o.of[m.one].IsString() || o.of[m.many].IsArray() {
			return true
		}
	}
	return false
}

func isSingle(row content.Raw) bool {
	o, _ := read(row) // a beginning of a row counts
	return hasModality(o) && o.only(turnMembers) == nil
}

func isMulti(row content.Raw) bool { return firstTurn(row, hasModality) }

func isDAG(row content.Raw) bool {
	return firstTurn(row, func(turn object) bool {
		return turn.of["messages"].IsArray() || turn.of["forks"] != nil || turn.of["spawns"] != nil
	})
}

// firstTurn reports whether the first turn of a row is as wanted.
func firstTurn(row content.Raw, is func(object) bool) (found bool) {
	o, _ := read(row)
	list, _ := o.list("turns", "")
	if len(list) > 0 {
		turn, _ := read(list[0])
		found = is(turn)
	}
	return found
}

func isMooncake(row content.Raw) bool {
	o, _ := read(row)
	timed := o.of["output_length"].IsNumber() || o.of["delay"].IsNumber()
	return o.of["input_length"] == nil && (o.of["text_input"].IsString() || timed && (o.of["messages"].IsArray() || o.of["payload"].IsObject()))
}

// isInputs looks at the beginning alone: the file is one object.
func isInputs(row content.Raw) bool {
	head := bytes.Join(bytes.Fields(row[:min(len(row), 256)]), nil)
	return bytes.HasPrefix(head, []byte(`{"data":[{"session_id":`)) || bytes.HasPrefix(head, []byte(`{"data":[{"payloads":`))
}

// single reads a row that is a turn. Each request of a session has its whole prompt.
func (r *Reader) single(row object, at text.Place) error {
	q, err := r.turn(row)
	if err != nil {
		return err
	}
	s, err := r.session(row.of["session_id"], at)
	if err == nil {
		s.whole = true
		s.requests = append(s.requests, q)
	}
	return err
}

// pool reads a row that is a turn without a place in a session or in time.
func (r *Reader) pool(row object, at text.Place) error {
	if r.file == 0 {
		r.file = at.File + 1
	}
	if r.file != at.File+1 {
		return errors.New("a second file: AIPerf joins a row of each file into one request, and agentx plays the rows of one: give one file")
	}
	q, err := r.turn(row)
	if err != nil {
		return err
	}
	s, err := r.session(nil, at)
	q.at, q.delay = text.NoTime, 0
	s.requests = append(s.requests, q)
	return err
}

// multi reads a row that is a conversation, or goes on with one.
func (r *Reader) multi(row object, at text.Place) error {
	list, err := row.list("turns", "turns")
	if err != nil {
		return err
	}
	s, err := r.session(row.of["session_id"], at)
	if err != nil {
		return err
	}
	for k, v := range list {
		o, err := read(v)
		if err == nil {
			var q request
			q, err = r.turn(o)
			s.requests = append(s.requests, q)
		}
		if err != nil {
			return fmt.Errorf("turn %d: %w", k, err)
		}
	}
	return nil
}

// turn reads a turn of one message.
func (r *Reader) turn(o object) (q request, err error) {
	said, plain, err := contentOf(o)
	if err != nil {
		return q, err
	}
	role := o.of["role"]
	if role == nil {
		role = content.Raw(`"user"`)
	} else if !role.IsString() {
		return q, errors.New("role: want a text, such as user")
	}
	if err := r.fill(&q, o); err != nil {
		return q, err
	}
	if q.messages, err = r.messages([]content.Raw{slices.Concat([]byte(`{"role":`), role, []byte(`,"content":`), said, []byte(`}`))}); err != nil {
		return q, err
	}
	q.system = plain && role.String() == "system"
	if o.only(turnMembers) != nil {
		r.Data.Warn("ignored:other")
	}
	return q, nil
}

// contentOf returns the content of the message of a turn: a text, which is plain, or a list of parts.
func contentOf(o object) (said content.Raw, plain bool, err error) {
	var parts [][]byte
	for _, m := range modalities {
		list := []content.Raw{o.of[m.one]}
		switch v := o.of[m.many]; {
		case list[0] != nil && v != nil && string(v) != "[]":
			return nil, false, fmt.Errorf("%s and %s: one turn has one of the two: leave one of them out", m.one, m.many)
		case list[0] != nil && !list[0].IsString():
			return nil, false, fmt.Errorf("%s: want a text; a list is %s", m.one, m.many)
		case list[0] != nil:
		case v != nil && !v.IsArray():
			return nil, false, fmt.Errorf("%s: want a list; one text is %s", m.many, m.one)
		default:
			if list, err = contents(v, m.many); err != nil {
				return nil, false, err
			}
		}
		for _, v := range list {
			if said = v; m.one == "text" && string(v) == `""` {
				continue
			}
			part, err := partOf(m.one, v)
			if err != nil {
				return nil, false, err
			}
			parts = append(parts, slices.Concat([]byte(m.open), part, []byte(m.close)))
			plain = m.one == "text" && len(parts) == 1
		}
	}
	switch {
	case !hasModality(o):
		return nil, false, errors.New("text is missing: want text, texts, image, audio or video")
	case plain && len(parts) == 1:
		return said, true, nil
	case len(parts) == 0:
		return content.Raw(`""`), true, nil
	}
	return slices.Concat([]byte(`[`), bytes.Join(parts, []byte(`,`)), []byte(`]`)), false, nil
}

// contents returns the texts of a list of texts, or of objects with contents.
func contents(v content.Raw, name string) (list []content.Raw, err error) {
	err = v.Array(func(v content.Raw) error {
		switch {
		case v.IsString():
			list = append(list, v)
			return nil
		case !v.IsObject():
			return fmt.Errorf("%s: want a list of texts", name)
		}
		o, err := read(v)
		if err != nil {
			return err
		}
		inner, err := o.list("contents", "texts")
		if slices.ContainsFunc(inner, func(v content.Raw) bool { return !v.IsString() }) {
			return fmt.Errorf("%s: contents: want a list of texts", name)
		}
		list = append(list, inner...)
		return err
	})
	return list, err
}

// partOf returns the value of a part: a text, an address of media, or sound with its format.
func partOf(kind string, v content.Raw) ([]byte, error) {
	s := v.String()
	switch {
	case kind == "text":
		return v, nil
	case kind == "audio":
		format, data, ok := strings.Cut(s, ",")
		format = strings.TrimPrefix(strings.TrimSuffix(format, ";base64"), "data:audio/")
		if ok && (format == "wav" || format == "mp3") {
			return fmt.Appendf(nil, `%q,"format":%q`, data, format), nil
		}
	case strings.HasPrefix(s, "data:") || strings.Contains(s, "://"):
		return v, nil
	}
	return nil, fmt.Errorf("%s: a file beside the input, which agentx does not read: want its address, or its content as a data URL (of sound wav,BASE64)", kind)
}

// fill reads what all forms but bodies say of a request besides its messages.
func (r *Reader) fill(q *request, o object) (err error) {
	if q.out, err = o.count("output_length"); err != nil {
		return err
	}
	var delay int64
	if q.at, err = o.milliseconds("timestamp", text.NoTime); err == nil {
		delay, err = o.milliseconds("delay", 0)
	}
	if err == nil && q.at > 0 && delay > 0 {
		err = errors.New("timestamp and delay: one request has one of the two: leave one of them out")
	}
	if q.delay = delay; err != nil {
		return err
	}
	if v := o.of["extra"]; v != nil {
		extra, err := read(v)
		if err != nil {
			return fmt.Errorf("extra: %w", err)
		}
		return r.options(q, extra)
	}
	return nil
}

// milliseconds returns a member that is a time.
func (o object) milliseconds(name string, without int64) (int64, error) {
	v := o.of[name]
	if v == nil {
		return without, nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if !v.IsNumber() || err != nil || !(f >= 0 && f <= maxMilliseconds) {
		return 0, fmt.Errorf("%s: want a number of milliseconds from 0 to %g", name, maxMilliseconds)
	}
	return int64(math.Floor(f)), nil
}

// maxMilliseconds bounds times: 292 years, so that an int64 of nanoseconds holds each.
const maxMilliseconds = 9.2e12

// ownMembers are the members of a body that a replay writes itself.
var ownMembers = []string{"messages", "tools", "system", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens"}

// options reads the members of a body besides its messages.
func (r *Reader) options(q *request, body object) error {
	q.model = r.Text(body.of["model"])
	for _, name := range [...]string{"max_completion_tokens", "max_tokens"} {
		n, err := body.count(name)
		if err != nil {
			return err
		}
		if n != text.None {
			q.out = n
		}
	}
	tools, err := r.Tools(body.of["tools"])
	if len(tools) > 0 {
		q.tools = tools
	}
	if slices.ContainsFunc(body.keys, func(key string) bool { return !slices.Contains(ownMembers, key) }) {
		q.members = r.Members(body.raw, ownMembers...)
	}
	return err
}

// messages reads messages of chat completions, which are sent as they are.
func (r *Reader) messages(list []content.Raw) (numbers []int32, err error) {
	for k, v := range list {
		o, err := read(v)
		var m text.Message
		if err == nil {
			m, err = r.Message(v)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", k, err)
		}
		if plain := len(o.keys) == 2 && o.of["content"].IsString() && m.Role <= text.Assistant; !plain {
			m.Raw = r.JSON(v)
		}
		numbers = append(numbers, r.Data.Message(m))
	}
	return numbers, nil
}

// body reads the body of a request.
func (r *Reader) body(o object) (q request, err error) {
	list, err := o.list("messages", "messages, as chat completions have them")
	if err != nil {
		return q, err
	}
	q.out, q.at = text.None, text.NoTime
	if err := r.options(&q, o); err != nil {
		return q, err
	}
	if q.messages, err = r.messages(list); err != nil {
		return q, err
	}
	if m, ok := r.System(o.of["system"]); ok {
		q.messages = slices.Insert(q.messages, 0, r.Data.Message(m))
	}
	return q, nil
}

// raw reads a row that is a body.
func (r *Reader) raw(row object, at text.Place) error {
	q, err := r.body(row)
	if err != nil {
		return err
	}
	if r.perFile && r.file == at.File+1 {
		s := r.sessions[len(r.sessions)-1]
		s.requests = append(s.requests, q)
		return nil
	}
	r.file = at.File + 1
	s, err := r.session(nil, at)
	s.requests, s.whole = append(s.requests, q), true
	return err
}

// inputs reads a file of sessions with bodies.
func (r *Reader) inputs(row object, at text.Place) error {
	list, err := row.list("data", "sessions, each with session_id and payloads")
	if err != nil {
		return err
	}
	for k, v := range list {
		o, err := read(v)
		if err == nil {
			err = r.inputSession(o, at)
		}
		if err != nil {
			return fmt.Errorf("data[%d]: %w", k, err)
		}
	}
	return nil
}

func (r *Reader) inputSession(o object, at text.Place) error {
	id := o.of["session_id"]
	if id == nil {
		return errors.New("session_id is missing")
	} else if r.byID[id.String()] != nil {
		return errors.New("session_id: another session has it already")
	}
	bodies, err := o.list("payloads", "bodies")
	if err != nil {
		return err
	}
	s, err := r.session(id, at)
	if err != nil {
		return err
	}
	s.whole = true
	for k, v := range bodies {
		o, err := read(v)
		if err == nil {
			var q request
			q, err = r.body(o)
			s.requests = append(s.requests, q)
		}
		if err != nil {
			return fmt.Errorf("payloads[%d]: %w", k, err)
		}
	}
	return nil
}

// mooncake reads a row with a text, messages or a body.
func (r *Reader) mooncake(row object, at text.Place) error {
	var q request
	var err error
	forms := 0
	for _, name := range [...]string{"text_input", "messages", "payload", "input_length"} {
		if row.of[name] != nil {
			forms++
		}
	}
	s, err := r.session(row.of["session_id"], at)
	switch said, payload := row.of["text_input"], row.of["payload"]; {
	case err != nil:
		return err
	case forms > 1:
		return errors.New("a row has one of text_input, messages, payload and input_length: leave the others out")
	case payload != nil:
		body, err := read(payload)
		if err == nil {
			q, err = r.body(body)
		}
		if err != nil {
			return fmt.Errorf("payload: %w", err)
		}
	case said.IsString():
		q.messages, err = r.messages([]content.Raw{slices.Concat([]byte(`{"role":"user","content":`), said, []byte(`}`))})
	case said != nil:
		return errors.New("text_input: want a text")
	default:
		var list []content.Raw
		if list, err = row.list("messages", "messages"); err == nil {
			q.messages, err = r.messages(list)
		}
	}
	whole := row.of["text_input"] == nil
	if err == nil && len(s.requests) > 0 && s.whole != whole {
		err = errors.New("session_id: other rows of this session have texts where this one has messages, or the reverse: give all of a session one form")
	}
	if err != nil {
		return err
	}
	return r.addMooncake(s, q, row, whole)
}

// addMooncake adds a request to a session, with what a row says besides its input.
func (r *Reader) addMooncake(s *session, q request, row object, whole bool) error {
	of := request{}
	if err := r.fill(&of, row); err != nil {
		return err
	}
	if q.at, q.delay = of.at, of.delay; row.of["payload"] == nil {
		q.out, q.members, q.model = of.out, of.members, of.model
		tools, err := r.Tools(row.of["tools"])
		if err != nil {
			return err
		}
		q.tools = slices.Concat(tools, of.tools)
	}
	s.whole, s.requests = whole, append(s.requests, q)
	return nil
}
