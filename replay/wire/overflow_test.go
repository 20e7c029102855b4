package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusals are what servers say of a prompt that is too long, and whether AIPerf knows the words.
var refusals = map[string]struct {
	text   string
	aiperf bool
}{
	"OpenAI":                {"Your input exceeds the context window of this model. Please adjust your input and try again.", false},
	"OpenAI's code":         {"too big (code context_length_exceeded)", true},
	"Anthropic":             {"prompt is too long: 205000 tokens > 200000 maximum", true},
	"Anthropic's output":    {"input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648", false},
	"vLLM":                  {"This model's maximum context length is 4096 tokens. However, you requested 10 output tokens and your prompt contains at least 5000 input tokens", true},
	"vLLM's engine":         {"The decoder prompt (length 8357) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller", false},
	"SGLang":                {"The input (5000 tokens) is longer than the model's context length (4096 tokens).", true},
	"SGLang's scheduler":    {"Input length (5000 tokens) exceeds the maximum allowed length (4095 tokens). Use a shorter input", false},
	"TensorRT-LLM":          {"The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)", false},
	"TensorRT-LLM's input":  {"Prompt length (5000) exceeds maximum input length (2048)", false},
	"TensorRT-LLM's length": {"Prompt length (5000) exceeds maximum sequence length (2048)", false},
	"TensorRT-LLM's rest":   {"`default_max_tokens` (-93) must be greater than 0, `default_max_tokens` (-93) = max_seq_len (16385) - `splited_prompt_len` (16478)", false},
	"TGI":                   {"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 10 `max_new_tokens`", false},
	"TGI's input":           {"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", false},
	"MLC":                   {"Request prompt has 2015 tokens in total, larger than the model input length limit 1416.", false},
	"OpenRouter":            {"Input length 5000 exceeds the maximum allowed input length of 4096 tokens.", false},
	"ATLAS":                 {"Prompt too long: 5000 tokens exceeds max_seq_len 2048 (leave room for output tokens)", false},
	"Bedrock":               {"Input is too long for requested model.", false},
	"llama.cpp":             {"the request exceeds the available context size, try increasing it", false},
	"llama.cpp's type":      {"n_prompt_tokens 5000, exceed_context_size_error", false},
	"Google":                {"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", false},
	"xAI":                   {"This model's maximum prompt length is 131072 but the request contains 537812 tokens.", false},
	"Cohere":                {"too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9000.", false},
	"ds4":                   {"Prompt tokens (5000) exceeds context size (4096)", false},
}

// The refusal of each server is an overflow, in JSON of any form, and every text of the table is said by one of them.
//
// Covers T-101.
func TestOverflowTexts(t *testing.T) {
	all, err := New("http://host", Options{})
	require.NoError(t, err)
	imitated, err := New("http://host", Options{OverflowPatterns: AIPerfOverflowPatterns})
	require.NoError(t, err)
	said := map[string]bool{}
	for server, r := range refusals {
		quoted, err := json.Marshal(r.text)
		require.NoError(t, err)
		for _, body := range []string{r.text, `{"error":{"message":` + string(quoted) + `}}`, `{"object":"error","message":` + string(quoted) + `,"code":400}`, `{"error":` + string(quoted) + `,"error_type":"Validation"}`} {
			require.Equal(t, ContextOverflow, all.newFailure(HTTPStatus, 400, "400 Bad Request: "+body).Category, "%s: %s", server, body)
			require.Equal(t, r.aiperf, imitated.newFailure(HTTPStatus, 400, "400 Bad Request: "+body).Category == ContextOverflow, "%s: %s", server, body)
		}
		for _, text := range DefaultOverflowPatterns {
			said[text] = said[text] || strings.Contains(strings.ToLower(r.text), text)
		}
	}
	for _, text := range DefaultOverflowPatterns {
		require.True(t, said[text], "no server says %q", text)
	}
	for _, o := range overflowTexts {
		require.NotEmpty(t, o.source)
	}
	for _, text := range []string{"rate limit exceeded: 30000 input tokens per minute", "max_tokens must be at least 1", "the prompt is empty", "`inputs` cannot be empty"} {
		require.Equal(t, HTTPStatus, all.newFailure(HTTPStatus, 400, text).Category, text)
	}
}
