package wire

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

// decodeEvent decodes any payload. It defines what a payload means: skimEvent must agree with it wherever it is sure. The last of
// several equal names counts.
func decodeEvent(payload []byte) event {
	top := parseJSON(payload)
	e := event{failed: top.member("error").isSet(), usage: usageOf(top)}
	for _, choice := range top.member("choices").parts('[') {
		e.choice(choice)
		break
	}
	return e
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
	e.content = choice.member("text").hasText()
	for _, name := range []string{"delta", "message"} {
		part := choice.member(name)
		e.message(part.member("content"))
		e.reasoning = e.reasoning || part.member("reasoning_content").hasText() || part.member("reasoning").hasText()
		for _, call := range part.member("tool_calls").parts('[') {
			function := call.member("function")
			e.toolCall = e.toolCall || function.member("name").hasText() || function.member("arguments").hasText()
		}
	}
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
	if u.Cached < 0 {
		u.Cached = top.member("cache_read_input_tokens").count()
	}
	return u
}
