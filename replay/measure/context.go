package measure

import "fmt"

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
	return fmt.Sprintf("%d of %d traces have requests above the server's %d tokens (%s), prompt and output together: --max-context server leaves them out",
		c.Above, c.Traces-c.LeftOut, c.Server, c.From)
}

// Skipped says how many traces were left out; "": none.
func (c *Context) Skipped() string {
	if c == nil || c.LeftOut == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d traces are left out: they have requests above %d tokens, prompt and output together", c.LeftOut, c.Traces, c.Tokens)
}
