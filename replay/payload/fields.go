package payload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agentx/agentx/replay/preset"
)

// Fields are the fields of a body beside prompt, model and stream. The zero value is what vLLM and SGLang take.
type Fields struct {
	Extra             json.RawMessage // an object whose members go into every body; nil: none
	Length            LengthField     // how the number of tokens to generate is asked for
	OmitIgnoreEOS     bool            // leave ignore_eos out: the model ends its answers
	OmitStreamOptions bool            // leave stream_options out: the answer has no token counts
	PerChunkUsage     bool            // ask for token counts in every message of the answer, unless Extra says otherwise
}

// LengthField is the name of the field that asks for a number of tokens to generate.
type LengthField string

// The length fields. Without one no length is asked for, and ignore_eos is left out, because answers would not end.
const (
	LengthByEndpoint    LengthField = "" // max_completion_tokens for chat completions, max_tokens for the others
	MaxTokens           LengthField = "max_tokens"
	MaxCompletionTokens LengthField = "max_completion_tokens"
	NoLength            LengthField = "none"
)

// LengthFields are those that a user can choose.
var LengthFields = []LengthField{MaxTokens, MaxCompletionTokens, NoLength}

// Validate returns an error for a name that is no length field.
func (l LengthField) Validate() error {
	if l == LengthByEndpoint || slices.Contains(LengthFields, l) {
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", MaxTokens, MaxCompletionTokens, NoLength)
}

// ValidateExtra returns an error for bytes that cannot be Fields.Extra.
func ValidateExtra(extra json.RawMessage) error {
	_, _, err := newTail(ChatCompletions, "", Fields{Extra: extra})
	return err
}

// Validate returns an error that names the first field that cannot be used.
func (f Fields) Validate() error {
	if err := f.Length.Validate(); err != nil {
		return fmt.Errorf("fields: length %q: %w", f.Length, err)
	}
	if err := ValidateExtra(f.Extra); err != nil {
		return fmt.Errorf("fields: extra: %w", err)
	}
	return nil
}

// IgnoresEOS reports whether the bodies ask the server to generate as many tokens as were recorded.
func (f Fields) IgnoresEOS() bool { return !f.OmitIgnoreEOS && f.Length != NoLength }

// tail is what follows the prompt in every body of a run. Only the number of tokens to generate differs; it stands
// between before and after.
type tail struct {
	before, after []byte
	noLength      bool // there is no number
	perChunkUsage bool // the answer has token counts in every message
}

// append appends the tail of one body.
func (t *tail) append(b []byte, maxTokens int) []byte {
	b = append(b, t.before...)
	if !t.noLength {
		b = strconv.AppendInt(b, int64(maxTokens), 10)
	}
	return append(b, t.after...)
}

// newTail returns the tail of a run's bodies. conflicts name the members of Extra that are left out, because the run
// writes these fields itself.
func newTail(endpoint Endpoint, model string, f Fields) (t tail, conflicts []string, err error) {
	extra, err := membersOf(f.Extra)
	if err != nil {
		return t, nil, err
	}
	length := cmp.Or(f.Length, endpoint.Length())
	if !endpointTable[endpoint].streamOptions {
		f.OmitStreamOptions, t.perChunkUsage = true, f.PerChunkUsage // its servers have usage where they please
	}
	t.before = fmt.Appendf(nil, `%s,"model":%s,"stream":true`, endpointTable[endpoint].end, quote(model))
	if t.noLength = length == NoLength; !t.noLength {
		t.before = fmt.Appendf(t.before, `,%q:`, length)
	}
	var options []member
	if !f.OmitStreamOptions {
		if options, err = f.streamOptions(extra); err != nil {
			return t, nil, err
		}
		t.perChunkUsage = slices.ContainsFunc(options, member.asksForUsagePerChunk)
	}
	for _, m := range f.withOwn(extra) {
		reserved, conflict := f.reserves(m, endpoint, length)
		if conflict != "" {
			conflicts = append(conflicts, fmt.Sprintf("%s: %s is not sent: %s", preset.Setting("extra-body"), quote(m.name), conflict))
		}
		switch {
		case !reserved:
			t.after = appendMembers(append(t.after, ','), []member{m})
		case m.name == ignoreEOS:
			t.after = append(t.after, `,"ignore_eos":true`...)
		case m.name == streamOptions:
			t.after = append(appendMembers(append(t.after, `,"stream_options":{`...), options), '}')
		}
	}
	t.after = append(t.after, '}')
	return t, conflicts, nil
}

// The fields of a body that the run writes where Extra has them, else behind its members, in this order.
const (
	ignoreEOS     = "ignore_eos"
	streamOptions = "stream_options"
)

// withOwn returns the members of Extra with those that the run adds. The order is that of AIPerf, whose bodies are the same bytes.
func (f Fields) withOwn(extra []member) []member {
	add := func(name, value string) {
		if !slices.ContainsFunc(extra, func(m member) bool { return m.name == name }) {
			extra = append(extra, member{name, json.RawMessage(value)})
		}
	}
	if f.IgnoresEOS() {
		add(ignoreEOS, "true")
	}
	if !f.OmitStreamOptions {
		add(streamOptions, "{}")
	}
	return extra
}

// reserves reports whether the run writes the field of a member of Extra itself. conflict says why the member's value is
// not sent, where it differs.
func (f Fields) reserves(m member, endpoint Endpoint, length LengthField) (reserved bool, conflict preset.Text) {
	switch m.name {
	case "system":
		if !endpointTable[endpoint].apart {
			return false, ""
		}
		return true, "the recording has the prompt"
	case "messages", "prompt":
		return true, "the recording has the prompt"
	case "model":
		return true, "{model} names the model"
	case "stream":
		if string(m.value) != "true" {
			conflict = "times of tokens need a stream"
		}
		return true, conflict
	case streamOptions:
		return !f.OmitStreamOptions, "" // merged
	case ignoreEOS:
		if f.IgnoresEOS() && string(m.value) != "true" {
			conflict = "answers of the recorded length need it: see {no-ignore-eos}"
		}
		return f.IgnoresEOS(), conflict
	case string(MaxTokens), string(MaxCompletionTokens):
		if length != NoLength {
			conflict = preset.Text(length) + " has the recorded length: see {max-tokens-field}"
		}
		return length != NoLength, conflict
	}
	return false, ""
}

// streamOptions returns the members of Extra's stream_options, and those of the run that Extra has not set.
func (f Fields) streamOptions(extra []member) (options []member, err error) {
	if k := slices.IndexFunc(extra, func(m member) bool { return m.name == streamOptions }); k >= 0 {
		if options, err = membersOf(extra[k].value); err != nil {
			return nil, fmt.Errorf("stream_options: %w", err)
		}
	}
	own := []string{"include_usage"}
	if f.PerChunkUsage {
		own = append(own, continuousUsage)
	}
	for _, name := range own {
		if !slices.ContainsFunc(options, func(m member) bool { return m.name == name }) {
			options = append(options, member{name, []byte("true")})
		}
	}
	return options, nil
}

// SettingFor returns the setting that leaves a field out of the bodies for an endpoint or renames it, "" if there is none.
func (f Fields) SettingFor(e Endpoint, field string) string {
	row, choice := &endpointTable[e], f.Length != NoLength && len(endpointTable[e].lengths) > 1
	switch extra, _ := membersOf(f.Extra); {
	case field == ignoreEOS && f.IgnoresEOS():
		return preset.Setting("no-ignore-eos")
	case field == streamOptions && !f.OmitStreamOptions && row.streamOptions:
		return preset.Setting("no-stream-options")
	case field == string(MaxTokens) && choice:
		return preset.Setting("max-tokens-field max_completion_tokens")
	case field == string(MaxCompletionTokens) && choice:
		return preset.Setting("max-tokens-field max_tokens")
	case slices.ContainsFunc(extra, func(m member) bool { return m.name == field }):
		return preset.Setting("extra-body without " + field)
	}
	return ""
}
