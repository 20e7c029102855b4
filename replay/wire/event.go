package wire

// event is what a replay needs of one payload of a response. A choice has its text under delta (a chunk of a chat), message
// (a complete chat answer) or text (a completion). The member "object" is ignored.
type event struct {
	failed    bool   // its member error is set
	content   bool   // choice 0 has text
	reasoning bool   // choice 0 has reasoning
	toolCall  bool   // choice 0 has the name or arguments of a tool call
	finish    string // finish reason of choice 0
	blank     bool   // choice 0 has a text or reasoning that is empty
	usage     []byte // the usage object, a slice of the payload; nil when absent, null or empty
	last      bool   // the stream ends here: message_stop of the Messages API

	// Set by skimEvent alone: how many strings the content consists of, and where the last one lies, quotes included.
	textCount, textStart, textEnd int
}

func (e *event) hasData() bool { return e.content || e.reasoning || e.toolCall }

// decodeEvent decodes any payload. It defines what a payload means: skimEvent must agree with it wherever it is sure. The last of
// several equal names counts. With aiperf it reads what AIPerf 0.13.0 reads.
func decodeEvent(payload []byte, aiperf bool) event {
	top := parseJSON(payload)
	e := event{failed: top.member("error").isSet() || !aiperf && top.isErrorObject(), usage: usageOf(top)}
	choice := top.choiceZero(aiperf)
	e.choice(choice)
	if !aiperf {
		e.others(choice)
		if e.usage == nil {
			e.usage = usageOf(choice)
		}
	}
	return e
}

// isErrorObject reports whether a payload is an error of its own, as older servers write it: without a member error around it.
func (v jsonValue) isErrorObject() bool {
	if choices := v.member("choices"); choices != nil && choices[0] != 'n' {
		return false
	}
	return v.member("object").text() == "error" || v.member("type").text() == "error" ||
		v.member("message").hasText() && v.member("code").isSet()
}

// maxChoices bounds the choices of a payload that are looked at.
const maxChoices = 128

// choiceZero returns the choice with the index 0, and the first where none has it.
func (v jsonValue) choiceZero(aiperf bool) (zero jsonValue) {
	n := 0
	for _, choice := range v.member("choices").parts('[') {
		if n++; n == 1 {
			zero = choice
		}
		if aiperf || n > maxChoices {
			break
		}
		if choice.member("index").count() == 0 {
			return choice
		}
	}
	return zero
}

// usageOf returns the usage object of a value, nil when it is absent, no object, or empty.
func usageOf(v jsonValue) []byte {
	if usage := v.member("usage"); usage.isSet() && usage[0] == '{' {
		return usage
	}
	return nil
}

// choice reads a choice.
func (e *event) choice(choice jsonValue) {
	e.finish = choice.member("finish_reason").text()
	e.content, e.blank = choice.member("text").hasText(), choice.member("text").isBlank()
	for _, name := range []string{"delta", "message"} {
		part := choice.member(name)
		e.message(part.member("content"))
		for _, name := range []string{"content", "reasoning_content", "reasoning"} {
			text := part.member(name)
			e.blank, e.reasoning = e.blank || text.isBlank(), e.reasoning || name != "content" && text.hasText()
		}
		for _, call := range part.member("tool_calls").parts('[') {
			function := call.member("function")
			e.toolCall = e.toolCall || function.member("name").hasText() || function.member("arguments").hasText()
		}
	}
}

// others reads what AIPerf does not look for in a choice: a refusal, a function call, reasoning in parts, and arguments that are no text.
func (e *event) others(choice jsonValue) {
	for _, name := range []string{"delta", "message"} {
		part := choice.member(name)
		e.content = e.content || part.member("refusal").hasText()
		e.toolCall = e.toolCall || part.member("function_call").callsFunction()
		for _, detail := range part.member("reasoning_details").parts('[') {
			for _, text := range []string{"text", "summary", "data"} {
				e.reasoning = e.reasoning || detail.member(text).hasText()
			}
		}
		for _, call := range part.member("tool_calls").parts('[') {
			e.toolCall = e.toolCall || call.member("function").callsFunction()
		}
	}
}

// callsFunction reports whether a call has a name, or arguments: a text, or an object that is not empty.
func (v jsonValue) callsFunction() bool {
	arguments := v.member("arguments")
	return v.member("name").hasText() || arguments.hasText() || len(arguments) > 0 && arguments[0] == '{' && arguments.isSet()
}

// message reads the content of a message: a string, or a list of strings and of parts with a text or a thinking.
func (e *event) message(content jsonValue) {
	e.content = e.content || content.hasText()
	for _, part := range content.parts('[') {
		e.content = e.content || part.hasText() || part.member("text").hasText()
		e.reasoning = e.reasoning || part.member("thinking").isSet()
	}
}

// decodeUsage decodes any usage object. A count that is no whole number is Unknown.
func decodeUsage(raw []byte) Usage {
	top := parseJSON(raw)
	u := NoUsage
	u.Prompt = top.member("prompt_tokens").count()
	u.Completion = top.member("completion_tokens").count()
	u.Total = top.member("total_tokens").count()
	u.CacheWrite = top.member("cache_creation_input_tokens").count()
	u.CacheMiss = top.member("prompt_cache_miss_tokens").count()
	u.Reasoning = top.member("completion_tokens_details").member("reasoning_tokens").count()
	u.Cached = top.member("prompt_tokens_details").member("cached_tokens").count()
	if u.Cached < 0 {
		u.Cached = top.member("input_tokens_details").member("cached_tokens").count()
	}
	for _, name := range []string{"cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"} {
		if u.Cached < 0 {
			u.Cached = top.member(name).count()
		}
	}
	return u
}

// withReasoning returns the usage with a Completion that counts reasoning, as all but a few servers report it. Of those few the total
// shows it.
func (u Usage) withReasoning() Usage {
	if u.Reasoning > 0 && u.Prompt >= 0 && u.Completion >= 0 && u.Total == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
	return u
}

// isZero reports whether a usage object has no digit above 0 outside its texts.
func isZero(usage []byte) bool {
	for i := 0; i < len(usage); i++ {
		switch c := usage[i]; {
		case c == '"':
			end, _ := skipString(usage, i)
			i = end - 1
			if end < 0 {
				return false
			}
		case c >= '1' && c <= '9':
			return false
		}
	}
	return true
}
