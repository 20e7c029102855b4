package measure

// Preflight is what the run learned from the server before the first lane began. Its requests have no records.
type Preflight struct {
	Models         []string `json:"models"`          // first models that the server lists; nil: it lists none
	SentTokens     *int64   `json:"sent_tokens"`     // of the content of the one request; nil: not known
	PromptTokens   *int64   `json:"prompt_tokens"`   // that the server counted; nil: it did not report them
	TemplateTokens *int64   `json:"template_tokens"` // PromptTokens - SentTokens: what the chat template adds
	Error          string   `json:"error,omitempty"` // why the run was not started
}
