package wire

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// AIPerfOverflowPatterns are the texts by which AIPerf 0.13.0 and agentx-harness 1.0.12 tell a context overflow. They are among those of
// OpenAI, Anthropic, vLLM, SGLang and what forwards to them.
var AIPerfOverflowPatterns = []string{"context length", "maximum context", "context_length_exceeded", "prompt is too long"}

// overflowTexts are those of servers that say it otherwise, with who does. Each is so long that no other refusal has it.
var overflowTexts = []struct{ text, source string }{
	{"exceeds the available context size", "llama.cpp"},
	{"exceed_context_size_error", "llama.cpp, the type"},
	{"exceed context limit", "Anthropic, prompt and output"},
	{"exceeds the context window", "OpenAI"},
	{"longer than the maximum model length", "vLLM, the decoder prompt"},
	{"tokens) exceeds the maximum allowed length", "SGLang, its scheduler"},
	{"should not exceed max_num_tokens", "TensorRT-LLM, the sum of prompt and query length"},
	{"exceeds maximum input length", "TensorRT-LLM, its executor"},
	{"exceeds maximum sequence length", "TensorRT-LLM, its executor"},
	{"`default_max_tokens` (-", "TensorRT-LLM, what max_seq_len leaves; Dynamo 0.9 with it"},
	{"`inputs` tokens + `max_new_tokens` must be", "TGI; Together"},
	{"`inputs` must have less than", "TGI; text-embeddings-inference"},
	{"larger than the model input length limit", "MLC LLM"},
	{"maximum allowed input length", "OpenRouter, Poolside"},
	{"prompt too long", "ATLAS"},
	{"input is too long for requested model", "Amazon Bedrock"},
	{"exceeds the maximum number of tokens allowed", "Google"},
	{"maximum prompt length is", "xAI"},
	{"tokens in the prompt cannot exceed", "Cohere"},
	{"exceeds context size", "ds4"},
}

// DefaultOverflowPatterns are the texts by which servers are known to report a context overflow.
var DefaultOverflowPatterns = func() []string {
	list := slices.Clone(AIPerfOverflowPatterns)
	for _, o := range overflowTexts {
		list = append(list, o.text)
	}
	return list
}()

// setOverflowPatterns sets the texts of a context overflow; nil are the defaults.
func (c *Client) setOverflowPatterns(texts []string) {
	if texts == nil {
		texts, c.dynamoOverflow = DefaultOverflowPatterns, true
	}
	for _, text := range texts {
		if text != "" {
			c.overflowTexts = append(c.overflowTexts, strings.ToLower(text))
		}
	}
}

// isOverflow reports whether a text of the server matches an overflow pattern. When a part of the text is JSON, its error
// message counts too: the message may be escaped in the text.
func (c *Client) isOverflow(text string) bool {
	if c.matchesOverflow(text) {
		return true
	}
	i := strings.IndexByte(text, '{')
	return i >= 0 && c.matchesOverflow(errorMessage(text[i:]))
}

// matchesOverflow reports whether a text itself matches an overflow pattern.
func (c *Client) matchesOverflow(text string) bool {
	low := strings.ToLower(text)
	return slices.ContainsFunc(c.overflowTexts, func(t string) bool { return strings.Contains(low, t) }) ||
		slices.ContainsFunc(c.overflowRegexps, func(r *regexp.Regexp) bool { return r.MatchString(text) })
}

// isDynamoOverflow reports whether a stream failed before any content with the message "Internal server error". Dynamo
// answers so, under status 200, when a prompt does not fit; its other failures have other messages. In the Messages API the error
// has its name.
func isDynamoOverflow(api API, category Category, res *Result, text string) bool {
	said := StreamPayload
	if api == MessagesAPI {
		said = StreamEvent
	}
	return category == said && res.Chunks == 0 && strings.EqualFold(strings.TrimSpace(errorMessage(text)), "Internal server error")
}

// errorMessage returns the text of the error member of a JSON object: a string, or an object with message and code.
func errorMessage(text string) string {
	var doc struct{ Error json.RawMessage }
	if json.NewDecoder(strings.NewReader(text)).Decode(&doc) != nil {
		return ""
	}
	var s string
	if json.Unmarshal(doc.Error, &s) == nil {
		return s
	}
	var e struct{ Message, Code any }
	if json.Unmarshal(doc.Error, &e) != nil {
		return ""
	}
	message, _ := e.Message.(string)
	code, _ := e.Code.(string)
	return message + " " + code
}
