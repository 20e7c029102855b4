package measure

// Preflight is what one look at the server told before the first lane began. Its requests are in no record.
type Preflight struct {
	Models         []string `json:"models"`          // that the server lists, the first of many; nil where it lists none
	SentTokens     *int64   `json:"sent_tokens"`     // of the content of the one request; nil where they are not known
	PromptTokens   *int64   `json:"prompt_tokens"`   // that the server counted in it; nil where it did not say
	TemplateTokens *int64   `json:"template_tokens"` // what the server adds to a message: the difference
	Error          string   `json:"error,omitempty"` // why the run was not begun
}
