package wire

import (
	"encoding/json"
	"math"
)

// event is what a replay needs of one payload of a response. A choice has its text under delta (a chunk of a chat), message
// (a complete chat answer) or text (a completion). The member "object" is ignored.
type event struct {
	failed    bool   // its member error is set
	content   bool   // choice 0 has text
	reasoning bool   // choice 0 has reasoning
	toolCall  bool   // choice 0 has the name or arguments of a tool call
	finish    string // finish reason of choice 0
	usage     []byte // the usage object, a slice of the payload; nil when absent, null or empty
	last      bool   // the stream ends here: message_stop of the Messages API

	// Set by skimEvent alone: how many strings the content consists of, and where the last one lies, quotes included.
	textCount, textStart, textEnd int
}

func (e *event) hasData() bool { return e.content || e.reasoning || e.toolCall }

// decodeEvent decodes a payload with encoding/json. It defines what a payload means: skimEvent must agree with it wherever it
// is sure. The last of several equal names counts.
func decodeEvent(payload []byte) event {
	top, ok := object(payload)
	if !ok {
		return event{}
	}
	e := event{failed: isSet(top["error"])}
	if usage, ok := object(top["usage"]); ok && len(usage) > 0 {
		e.usage = top["usage"]
	}
	choices := array(top["choices"])
	if len(choices) == 0 {
		return e
	}
	choice, _ := object(choices[0])
	e.finish = text(choice["finish_reason"])
	e.content = text(choice["text"]) != ""
	for _, name := range []string{"delta", "message"} {
		part, _ := object(choice[name])
		e.message(part["content"])
		e.reasoning = e.reasoning || text(part["reasoning_content"]) != "" || text(part["reasoning"]) != ""
		for _, raw := range array(part["tool_calls"]) {
			call, _ := object(raw)
			function, _ := object(call["function"])
			e.toolCall = e.toolCall || text(function["name"]) != "" || text(function["arguments"]) != ""
		}
	}
	return e
}

// message reads the content of a message: a string, or a list of strings and of parts with a text or a thinking.
func (e *event) message(raw []byte) {
	e.content = e.content || text(raw) != ""
	for _, raw := range array(raw) {
		part, _ := object(raw)
		e.content = e.content || text(raw) != "" || text(part["text"]) != ""
		e.reasoning = e.reasoning || isSet(part["thinking"])
	}
}

// isSet reports whether a member has a value other than null, false, zero and empty.
func isSet(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// decodeUsage decodes a usage object with encoding/json. A count that is no whole number is Unknown.
func decodeUsage(raw []byte) Usage {
	u := NoUsage
	top, _ := object(raw)
	u.Prompt = count(top["prompt_tokens"])
	u.Completion = count(top["completion_tokens"])
	u.Total = count(top["total_tokens"])
	u.CacheWrite = count(top["cache_creation_input_tokens"])
	u.CacheMiss = count(top["prompt_cache_miss_tokens"])
	details, _ := object(top["completion_tokens_details"])
	u.Reasoning = count(details["reasoning_tokens"])
	details, _ = object(top["prompt_tokens_details"])
	u.Cached = count(details["cached_tokens"])
	if u.Cached < 0 {
		details, _ = object(top["input_tokens_details"])
		u.Cached = count(details["cached_tokens"])
	}
	if u.Cached < 0 {
		u.Cached = count(top["cache_read_input_tokens"])
	}
	return u
}

func object(raw []byte) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil, false
	}
	return m, m != nil // null decodes to nil
}

func array(raw []byte) []json.RawMessage {
	var a []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &a) != nil {
		return nil
	}
	return a
}

func text(raw []byte) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// maxCount is the largest count that is believed. The sum over millions of requests is a number, whatever their server says.
const maxCount = 1 << 40

func count(raw []byte) int64 {
	var f *float64
	if len(raw) == 0 || json.Unmarshal(raw, &f) != nil || f == nil {
		return Unknown
	}
	if *f < 0 || *f > maxCount || *f != math.Trunc(*f) {
		return Unknown
	}
	return int64(*f)
}
