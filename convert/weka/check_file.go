package weka

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// checkedTrace is a trace with every key that a capture writes, and no other. A pointer is nil where a key is missing or null.
type checkedTrace struct {
	ID           string         `json:"id"`
	Models       []string       `json:"models"`
	BlockSize    int64          `json:"block_size"`
	Scope        string         `json:"hash_id_scope"`
	ToolTokens   *int64         `json:"tool_tokens"`
	SystemTokens *int64         `json:"system_tokens"`
	Requests     []checkedEntry `json:"requests"`
	Totals       *checkedTotals `json:"totals"`
}

// checkedTotals are totals whose keys have their place in an error.
type checkedTotals struct{ Totals }

func (t *checkedTotals) UnmarshalJSON(data []byte) error {
	if err := decodeStrictly(data, &t.Totals); err != nil {
		return fmt.Errorf("totals: %w", err)
	}
	return nil
}

// checkedEntry has the keys of requests and of subagents; Scan has refused those of the other.
type checkedEntry struct {
	checkedRequest
	AgentID      string           `json:"agent_id"`
	SubagentType *string          `json:"subagent_type"`
	Status       *string          `json:"status"`
	DurationMS   *int64           `json:"duration_ms"`
	TotalTokens  *int64           `json:"total_tokens"`
	ToolUseCount *int64           `json:"tool_use_count"`
	Models       []string         `json:"models"`
	ToolTokens   *int64           `json:"tool_tokens"`
	SystemTokens *int64           `json:"system_tokens"`
	Requests     []checkedRequest `json:"requests"`
}

type checkedRequest struct {
	T           float64   `json:"t"`
	Type        string    `json:"type"`
	Model       string    `json:"model"`
	In          *int64    `json:"in"`
	Out         *int64    `json:"out"`
	IDs         unread    `json:"hash_ids"`
	InputTypes  *[]string `json:"input_types"`
	OutputTypes *[]string `json:"output_types"`
	Stop        *string   `json:"stop"`
	APITime     *float64  `json:"api_time"`
	TTFT        *float64  `json:"ttft"`
	ThinkTime   *float64  `json:"think_time"`
}

// unread is a value that Scan has read.
type unread struct{}

// UnmarshalJSON keeps nothing.
func (*unread) UnmarshalJSON([]byte) error { return nil }

// decodeStrictly decodes a JSON value into v. A key that v does not have is an error.
func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
