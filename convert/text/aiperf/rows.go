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

var (
	turnMembers = []string{"text", "texts", "image", "images", "audio", "audios", "video", "videos", "timestamp", "delay", "role", "session_id",
		"output_length", "extra", "type"}
	// ownMembers are the members of a body that a replay writes itself.
	ownMembers = []string{"messages", "tools", "system", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens"}
)

func hasModality(o object) bool {
	for _, m := range modalities {
		if o.of[m.one].IsString() || o.of[m.many].IsArray() {
			return true
		}
	}
	return false
}

func isMooncake(row object) bool {
	timed := row.of["output_length"].IsNumber() || row.of["delay"].IsNumber()
	return row.of["input_length"] == nil && (row.of["text_input"].IsString() || timed && (row.of["messages"].IsArray() || row.of["payload"].IsObject()))
}

// isInputs looks at the beginning alone: the file is one object.
func isInputs(row object) bool {
	head := bytes.Join(bytes.Fields(row.raw[:min(len(row.raw), 256)]), nil)
	return bytes.HasPrefix(head, []byte(`{"data":[{"session_id":`)) || bytes.HasPrefix(head, []byte(`{"data":[{"payloads":`))
}

// request reads a request, and reports whether it has its whole prompt.
func (r *Reader) request(o object) (q request, whole bool, err error) {
	f := r.form
	name := o.beyond(f.of)
	switch {
	case f.bodies:
		q, err = r.body(o)
		return q, true, err
	case f.strict && name != "":
		return q, false, fmt.Errorf("unknown member %s: want %s", name, f.of)
	case name != "":
		defer func() {
			if err == nil {
				r.Data.Warn("ignored:other")
			}
		}()
	}
	if q, err = r.options(o); err != nil {
		return q, false, err
	}
	inputs := 0
	for _, name := range [...]string{"text_input", "messages", "payload", "input_length"} {
		if o.of[name] != nil {
			inputs++
		}
	}
	said, payload := o.of["text_input"], o.of["payload"]
	switch {
	case slices.Contains(f.of, "text"):
		return q, f.Name == "single_turn", r.turn(&q, o)
	case inputs > 1:
		return q, false, errors.New("a row has one of text_input, messages, payload and input_length: leave the others out")
	case payload != nil:
		body, err := read(payload)
		at, delay := q.at, q.delay
		if err == nil {
			q, err = r.body(body)
		}
		if q.at, q.delay = at, delay; err != nil {
			err = fmt.Errorf("payload: %w", err)
		}
		return q, true, err
	case said == nil: // of a tree its session says it
		return q, !f.strict, r.messages(&q, o, "messages")
	case !said.IsString():
		return q, false, errors.New("text_input: want a text")
	}
	return q, false, r.message(&q, slices.Concat([]byte(`{"role":"user","content":`), said, []byte(`}`)))
}

// turn reads a turn of one message.
func (r *Reader) turn(q *request, o object) error {
	said, plain, err := contentOf(o)
	if err != nil {
		return err
	}
	role := o.of["role"]
	if role == nil {
		role = content.Raw(`"user"`)
	} else if !role.IsString() {
		return errors.New("role: want a text, such as user")
	}
	if q.system = plain && role.String() == "system"; r.form.alone { // a pool has no times
		q.at, q.delay = text.NoTime, 0
	}
	return r.message(q, slices.Concat([]byte(`{"role":`), role, []byte(`,"content":`), said, []byte(`}`)))
}

// contentOf returns the content of the message of a turn: a text, which is plain, or a list of parts.
func contentOf(o object) (said content.Raw, plain bool, err error) {
	var parts [][]byte
	given := false
	for _, m := range modalities {
		list := []content.Raw{o.of[m.one]}
		given = given || list[0] != nil || o.of[m.many] != nil
		switch v := o.of[m.many]; {
		case list[0] != nil && v != nil && string(v) != "[]":
			return nil, false, fmt.Errorf("%s and %s: one turn has one of the two: leave one of them out", m.one, m.many)
		case list[0] != nil && !list[0].IsString():
			return nil, false, fmt.Errorf("%s: want a text; a list is %s", m.one, m.many)
		case list[0] == nil && v != nil && !v.IsArray():
			return nil, false, fmt.Errorf("%s: want a list; one text is %s", m.many, m.one)
		case list[0] == nil:
			if list, err = contents(v, m.many); err != nil {
				return nil, false, err
			}
		}
		for _, v := range list {
			part, err := partOf(m.one, v)
			if err != nil {
				return nil, false, err
			}
			if said = v; string(v) != `""` {
				parts = append(parts, slices.Concat([]byte(m.open), part, []byte(m.close)))
				plain = m.one == "text" && len(parts) == 1
			}
		}
	}
	switch {
	case !given:
		return nil, false, errors.New("text is missing: want text, texts, image, audio or video")
	case len(parts) == 0:
		return content.Raw(`""`), true, nil
	case plain && len(parts) == 1:
		return said, true, nil
	}
	return slices.Concat([]byte(`[`), bytes.Join(parts, []byte(`,`)), []byte(`]`)), false, nil
}

// contents returns the texts of a list of texts, or of objects with contents.
func contents(v content.Raw, name string) (list []content.Raw, err error) {
	err = v.Array(func(v content.Raw) error {
		inner := []content.Raw{v}
		if o, err := read(v); err == nil {
			if inner, err = o.list("contents", "texts"); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if slices.ContainsFunc(inner, func(v content.Raw) bool { return !v.IsString() }) {
			return fmt.Errorf("%s: want a list of texts", name)
		}
		list = append(list, inner...)
		return nil
	})
	return list, err
}

// partOf returns the value of a part: a text, an address of media, or sound with its format.
func partOf(kind string, v content.Raw) ([]byte, error) {
	s := v.String()
	switch {
	case kind == "text" || s == "":
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

// options reads what a turn, a row or a body says besides its messages. What extra says comes before the rest.
func (r *Reader) options(o object) (q request, err error) {
	q.at, q.model = text.NoTime, r.Text(o.of["model"])
	if !r.form.bodies {
		if q.at, err = o.milliseconds("timestamp", text.NoTime); err == nil {
			q.delay, err = o.milliseconds("delay", 0)
		}
		if err == nil && q.at > 0 && q.delay > 0 {
			err = errors.New("timestamp and delay: one request has one of the two: leave one of them out")
		}
	}
	if q.out = text.None; err == nil {
		q.out, err = o.count("output_length", "max_completion_tokens", "max_tokens")
	}
	if err != nil {
		return q, err
	}
	if q.tools, err = r.Tools(o.of["tools"]); err != nil || o.of["extra"] == nil || r.form.bodies {
		return q, err
	}
	extra, err := read(o.of["extra"])
	if err != nil {
		return q, fmt.Errorf("extra: %w", err)
	}
	return q, r.members(&q, extra)
}

// members reads members of a body.
func (r *Reader) members(q *request, o object) error {
	out, err := o.count("max_completion_tokens", "max_tokens")
	if err != nil {
		return err
	}
	if out != text.None {
		q.out = out
	}
	if v := o.of["model"]; v != nil {
		q.model = r.Text(v)
	}
	if tools, err := r.Tools(o.of["tools"]); err != nil || len(tools) > 0 {
		q.tools = tools
	}
	if o.beyond(ownMembers) != "" {
		q.members = r.Members(o.raw, ownMembers...)
	}
	return nil
}

// body reads the body of a request.
func (r *Reader) body(o object) (q request, err error) {
	q.out, q.at = text.None, text.NoTime
	if m, ok := r.System(o.of["system"]); ok {
		q.messages = append(q.messages, r.Data.Message(m))
	}
	if err = r.messages(&q, o, "messages, as chat completions have them"); err == nil {
		err = r.members(&q, o)
	}
	return q, err
}

// messages reads messages of chat completions.
func (r *Reader) messages(q *request, o object, what string) error {
	list, err := o.list("messages", what)
	for k, v := range list {
		if err := r.message(q, v); err != nil {
			return fmt.Errorf("message %d: %w", k, err)
		}
	}
	return err
}

// message reads a message of chat completions, which is sent as it is.
func (r *Reader) message(q *request, v content.Raw) error {
	o, err := read(v)
	if err != nil {
		return err
	}
	m, err := r.Message(v)
	if plain := len(o.keys) == 2 && o.of["content"].IsString() && m.Role <= text.Assistant; !plain {
		m.Raw = r.JSON(v)
	}
	q.messages = append(q.messages, r.Data.Message(m))
	return err
}

// object is a JSON object. Null is a member left out; of a key given twice the last counts.
type object struct {
	raw  content.Raw
	keys []string
	of   map[string]content.Raw
}

func read(v content.Raw) (o object, err error) {
	o = object{raw: v, of: map[string]content.Raw{}}
	if !v.IsObject() {
		return o, errors.New("want a JSON object")
	}
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

// each calls f with each object of a list that must have some.
func (o object) each(name, of string, f func(object) error) error {
	list, err := o.list(name, of)
	for k, v := range list {
		o, err := read(v)
		if err == nil {
			err = f(o)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", name, k, err)
		}
	}
	return err
}

// first returns the first object of a list.
func (o object) first(name string) (first object) {
	if list, _ := o.list(name, ""); len(list) > 0 {
		first, _ = read(list[0])
	}
	return first
}

// beyond returns a member that is not among some names, "" for none. A name that could be text is other.
func (o object) beyond(names []string) string {
	k := slices.IndexFunc(o.keys, func(key string) bool { return !slices.Contains(names, key) })
	if k < 0 {
		return ""
	}
	return content.Name([]byte(o.keys[k]))
}

// count returns the last of some members that is there, a whole number from 1 on; text.None for none.
func (o object) count(names ...string) (n int32, err error) {
	n = text.None
	for _, name := range names {
		v := o.of[name]
		if m, ok := v.Int(); ok && m >= 1 && m <= maxTokens {
			n = int32(m)
		} else if v != nil {
			return n, fmt.Errorf("%s: want a whole number of tokens from 1 to %d", name, maxTokens)
		}
	}
	return n, nil
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

// The longest answer that can be asked for, and the latest time: 292 years, so that an int64 of nanoseconds holds each.
const (
	maxTokens       = 1 << 24
	maxMilliseconds = 9.2e12
)
