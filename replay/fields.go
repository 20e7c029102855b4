package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/agentx/agentx/mmapcache"
)

// Fields are the fields of a request body beside prompt, model and stream. The zero value is what vLLM and SGLang take.
type Fields struct {
	Extra           json.RawMessage // an object whose members go into every body; nil: none
	MaxTokens       MaxTokens
	NoIgnoreEOS     bool // let the model end its answers
	NoStreamOptions bool // ask for no usage
}

// MaxTokens names the field that says how many tokens to generate.
type MaxTokens string

// The fields of that kind. Without one no length is asked for, and ignore_eos is left out: answers would not end.
const (
	OfThePayload        MaxTokens = "" // max_completion_tokens of a chat, max_tokens of a completion
	MaxTokensField      MaxTokens = "max_tokens"
	MaxCompletionTokens MaxTokens = "max_completion_tokens"
	NoMaxTokens         MaxTokens = "none"
)

// Check returns an error when Extra is no object or has a member that cannot be merged.
func (f Fields) Check() error {
	_, _, err := newTail(mmapcache.Text, "", f)
	return err
}

// explains reports whether a kind of deviation is no surprise with these fields.
func (f Fields) explains(kind string) bool {
	switch kind {
	case "short_output":
		return !f.ignoresEOS()
	case "long_output":
		return f.MaxTokens == NoMaxTokens
	case "no_usage":
		return f.NoStreamOptions
	}
	return false
}

// tail is what follows the prompt in every body of a run. Only the number of tokens to generate differs, which stands
// between before and after.
type tail struct {
	before, after []byte
	unlimited     bool // no number
	perChunk      bool // usage is asked for in every message of an answer
}

// append appends the tail of one body.
func (t *tail) append(b []byte, maxTokens int) []byte {
	b = append(b, t.before...)
	if !t.unlimited {
		b = strconv.AppendInt(b, int64(maxTokens), 10)
	}
	return append(b, t.after...)
}

// newTail makes the tail of a run's bodies, and says which members of Extra give way to fields that the recording needs.
func newTail(form mmapcache.Encoding, model string, f Fields) (t tail, conflicts []string, err error) {
	extra, err := membersOf(f.Extra)
	if err != nil {
		return t, nil, err
	}
	limit := f.limit(form)
	t.before = fmt.Appendf(nil, `],"model":%s,"stream":true`, quote(model))
	if t.unlimited = limit == ""; !t.unlimited {
		t.before = fmt.Appendf(t.before, `,%q:`, limit)
	}
	if !f.NoStreamOptions {
		options, err := streamOptions(extra)
		if err != nil {
			return t, nil, err
		}
		t.perChunk = slices.ContainsFunc(options, func(m member) bool { return m.name == "continuous_usage_stats" && string(m.value) == "true" })
		t.after = append(appendMembers(append(t.after, `,"stream_options":{`...), options), '}')
	}
	if f.ignoresEOS() {
		t.after = append(t.after, `,"ignore_eos":true`...)
	}
	more := slices.DeleteFunc(extra, func(m member) bool {
		own, why := f.owner(m, limit)
		if why != "" {
			conflicts = append(conflicts, fmt.Sprintf("--extra-body: %s is not sent: %s", quote(m.name), why))
		}
		return own
	})
	if len(more) > 0 {
		t.after = appendMembers(append(t.after, ','), more)
	}
	t.after = append(t.after, '}')
	return t, conflicts, nil
}

// limit returns the field of the number of tokens, "" for none.
func (f Fields) limit(form mmapcache.Encoding) MaxTokens {
	switch {
	case f.MaxTokens == NoMaxTokens:
		return ""
	case f.MaxTokens != OfThePayload:
		return f.MaxTokens
	case form == mmapcache.IDs:
		return MaxTokensField
	}
	return MaxCompletionTokens
}

func (f Fields) ignoresEOS() bool { return !f.NoIgnoreEOS && f.MaxTokens != NoMaxTokens }

// owner reports whether a member of Extra is a field that the run writes itself, and why the member's own value is not
// sent, where it is another.
func (f Fields) owner(m member, limit MaxTokens) (own bool, why string) {
	switch m.name {
	case "messages", "prompt":
		return true, "the recording has the prompt"
	case "model":
		return true, "--model names the model"
	case "stream":
		if string(m.value) != "true" {
			why = "times of tokens need a stream"
		}
		return true, why
	case "stream_options":
		return !f.NoStreamOptions, "" // merged
	case "ignore_eos":
		if f.ignoresEOS() && string(m.value) != "true" {
			why = "answers of the recorded length need it: see --no-ignore-eos"
		}
		return f.ignoresEOS(), why
	case string(MaxTokensField), string(MaxCompletionTokens):
		if limit != "" {
			why = fmt.Sprintf("%s has the recorded length: see --max-tokens-field", limit)
		}
		return limit != "", why
	}
	return false, ""
}

// streamOptions are those that ask for usage, and what Extra has beside. An include_usage of its own stays.
func streamOptions(extra []member) (options []member, err error) {
	if k := slices.IndexFunc(extra, func(m member) bool { return m.name == "stream_options" }); k >= 0 {
		if options, err = membersOf(extra[k].value); err != nil {
			return nil, fmt.Errorf("stream_options: %w", err)
		}
	}
	if !slices.ContainsFunc(options, func(m member) bool { return m.name == "include_usage" }) {
		options = append(options, member{"include_usage", []byte("true")})
	}
	return options, nil
}

// flagFor names the flag that leaves a field out of the bodies, or gives it another name; "" where there is none.
func (f Fields) flagFor(field string) string {
	switch extra, _ := membersOf(f.Extra); {
	case field == "ignore_eos" && f.ignoresEOS():
		return "--no-ignore-eos"
	case field == "stream_options" && !f.NoStreamOptions:
		return "--no-stream-options"
	case field == string(MaxTokensField) && f.MaxTokens != NoMaxTokens:
		return "--max-tokens-field max_completion_tokens"
	case field == string(MaxCompletionTokens) && f.MaxTokens != NoMaxTokens:
		return "--max-tokens-field max_tokens"
	case slices.ContainsFunc(extra, func(m member) bool { return m.name == field }):
		return "--extra-body without " + field
	}
	return ""
}

// member is one of an object, as it was written.
type member struct {
	name  string
	value json.RawMessage // without blanks
}

// appendMembers appends members with commas between them.
func appendMembers(b []byte, list []member) []byte {
	for k, m := range list {
		if k > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%s:%s`, quote(m.name), m.value)
	}
	return b
}

// membersOf returns the members of a JSON object in their order; none of nothing.
func membersOf(object []byte) (list []member, err error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("want a JSON object: %w", err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("want a JSON object: %s: %w", quote(m.name), err)
		}
		var value bytes.Buffer
		if err := json.Compact(&value, m.value); err != nil {
			return nil, err
		}
		m.value = value.Bytes()
		if slices.ContainsFunc(list, func(o member) bool { return o.name == m.name }) {
			return nil, fmt.Errorf("%s stands there twice", quote(m.name))
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("want one JSON object and nothing behind it")
	}
	return list, nil
}
