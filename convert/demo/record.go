package demo

import "fmt"

// record is a trace in JSON. The fields of the types of this file are those of the v8 set, in its order.
type record struct {
	ID           string   `json:"id"`
	Models       []string `json:"models"`
	BlockSize    int      `json:"block_size"`
	HashIDScope  string   `json:"hash_id_scope"`
	ToolTokens   int      `json:"tool_tokens"`
	SystemTokens int      `json:"system_tokens"`
	Requests     []any    `json:"requests"` // *request or *subagent, by time
	Totals       totals   `json:"totals"`
}

type totals struct {
	Parent    tokens `json:"parent_tokens"`
	Subagents tokens `json:"subagent_tokens"`
	Combined  tokens `json:"combined_tokens"`
	Count     int    `json:"subagent_count"`
}

type tokens struct {
	Input  int `json:"input"`
	Output int `json:"output"`
}

func (n *tokens) add(requests []*request) {
	for _, r := range requests {
		n.Input += r.In
		n.Output += r.Out
	}
}

type request struct {
	T           millis   `json:"t"`
	Type        string   `json:"type"`
	Model       string   `json:"model"`
	In          int      `json:"in"`
	Out         int      `json:"out"`
	HashIDs     []int    `json:"hash_ids"`
	InputTypes  []string `json:"input_types"`
	OutputTypes []string `json:"output_types"`
	Stop        string   `json:"stop"`
	APITime     *millis  `json:"api_time,omitempty"`
	TTFT        *millis  `json:"ttft,omitempty"`
	ThinkTime   *millis  `json:"think_time,omitempty"`
}

type subagent struct {
	T            millis     `json:"t"`
	Type         string     `json:"type"`
	AgentID      string     `json:"agent_id"`
	SubagentType string     `json:"subagent_type"`
	DurationMS   *int       `json:"duration_ms"`
	TotalTokens  *int       `json:"total_tokens"`
	ToolUseCount *int       `json:"tool_use_count"`
	Status       string     `json:"status"`
	Requests     []*request `json:"requests"`
	Models       []string   `json:"models"`
	ToolTokens   int        `json:"tool_tokens"`
	SystemTokens int        `json:"system_tokens"`
}

// millis is a time or a duration in whole milliseconds. It is written in seconds, with exactly three decimals.
type millis int

func (m millis) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}
