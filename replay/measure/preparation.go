package measure

import (
	"fmt"

	"github.com/agentx/agentx/replay/preset"
)

// PreparationStep is what a run did at one server before its first request: it waited for the model, or reset the cache. Its
// requests have no records.
type PreparationStep struct {
	Step     string  `json:"step"` // PreparationWait or PreparationReset
	URL      string  `json:"url"`  // without user, query and fragment
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`         // from the first attempt to the end of the last
	Outcome  string  `json:"outcome"`         // PreparationDone, PreparationTimeout or PreparationRefused
	Error    string  `json:"error,omitempty"` // why the run was not started
}

// The steps and outcomes of a PreparationStep.
const (
	PreparationWait  = "wait"
	PreparationReset = "reset"

	PreparationDone    = "done"
	PreparationTimeout = "timeout" // the last attempt that there was time for failed
	PreparationRefused = "refused" // the answer says that it will not get better
)

// Preflight is what the run learned from a server before the first lane began: the one that refused, else the one whose chat
// template adds most tokens. Its requests have no records.
type Preflight struct {
	URL            string   `json:"url,omitempty"`   // of that server; "": the run has one
	Models         []string `json:"models"`          // first models that the server lists; nil: it lists none
	SentTokens     *int64   `json:"sent_tokens"`     // of the content of the one request; nil: not known
	PromptTokens   *int64   `json:"prompt_tokens"`   // that the server counted; nil: it did not report them
	TemplateTokens *int64   `json:"template_tokens"` // PromptTokens - SentTokens: what the chat template adds
	ContextTokens  *int64   `json:"context_tokens"`  // longest prompt and completion together, of the server with the least; nil: none tells
	ContextFrom    string   `json:"context_from"`    // what that server calls it: max_model_len or n_ctx
	Error          string   `json:"error,omitempty"` // why the run was not started
}

// Template returns how many tokens the chat template adds; 0 where that is not known.
func (p *Preflight) Template() int {
	if p.TemplateTokens == nil {
		return 0
	}
	return max(0, int(*p.TemplateTokens))
}

// Context counts the traces with a request that is longer than a context, which holds its prompt and its completion together.
type Context struct {
	Tokens  int `json:"tokens"`   // that the requests of a trace were to fit; 0: any were played
	Traces  int `json:"traces"`   // looked at
	LeftOut int `json:"left_out"` // of these: that do not fit Tokens, and were not played

	Server int    `json:"server"` // tokens of the server's context; 0: no server told it
	From   string `json:"from"`   // what the server calls that: max_model_len or n_ctx
	Above  int    `json:"above"`  // traces with a request that is longer than Server, and were played all the same
}

// Played says how many traces the server cannot answer whole, and what leaves them out; "": none is known.
func (c *Context) Played() string {
	if c == nil || c.Above == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d traces have requests above the server's %d tokens (%s), prompt and output together: %s server leaves them out",
		c.Above, c.Traces-c.LeftOut, c.Server, c.From, preset.Setting("max-context"))
}

// Skipped says how many traces were left out; "": none.
func (c *Context) Skipped() string {
	if c == nil || c.LeftOut == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d traces are left out: they have requests above %d tokens, prompt and output together", c.LeftOut, c.Traces, c.Tokens)
}
