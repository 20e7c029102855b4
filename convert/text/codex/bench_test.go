package codex

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agentx/agentx/convert/text"
)

// recorded returns rows of a thread: a person asks, the model calls tools, their results come.
func recorded(turns int) (rows [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"return", "cart.total", "if err != nil {", "\t\tlog.Printf(\"%d items\", n)", "for k := range rows {", "}", "// the sum of prices", "x[i] += 1"}
	said := func(lines int) string {
		var b strings.Builder
		for range lines {
			for range 2 + r.IntN(6) {
				b.WriteString(words[r.IntN(len(words))] + " ")
			}
			fmt.Fprintf(&b, "%x\n", r.Uint64())
		}
		quoted, _ := json.Marshal(b.String())
		return string(quoted)
	}
	at := 0
	row := func(kind, payload string, args ...any) {
		at += 50
		rows = append(rows, fmt.Appendf(nil, `{"timestamp":"2026-01-02T15:%02d:%02d.%03dZ","type":%q,"payload":%s}`, at/60000%60, at/1000%60, at%1000, kind, fmt.Sprintf(payload, args...)))
	}
	row("session_meta", `{"id":"019b","cwd":"/x","source":"cli","base_instructions":{"text":%s}}`, said(100))
	for n := range turns {
		if n%20 == 0 {
			row("turn_context", `{"cwd":"/x","model":"gpt-5","approval_policy":"never"}`)
			row("response_item", `{"type":"message","role":"user","content":[{"type":"input_text","text":%s}]}`, said(5))
			row("event_msg", `{"type":"user_message","message":%s}`, said(5))
		}
		row("response_item", `{"type":"reasoning","summary":[{"type":"summary_text","text":%s}],"content":null,"encrypted_content":"%x"}`, said(1), r.Perm(300))
		row("event_msg", `{"type":"agent_reasoning","text":%s}`, said(1))
		row("response_item", `{"type":"function_call","name":"shell","arguments":%s,"call_id":"call_%d"}`, said(3), n)
		row("event_msg", `{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":9,"output_tokens":9,"reasoning_output_tokens":9,"total_tokens":99},"last_token_usage":{"input_tokens":1000,"cached_input_tokens":9,"output_tokens":9,"reasoning_output_tokens":9,"total_tokens":99},"model_context_window":272000},"rate_limits":{"primary":{"used_percent":7.0,"window_minutes":300,"resets_at":1767380000}}}`, n*1000)
		row("response_item", `{"type":"function_call_output","call_id":"call_%d","output":%s}`, n, said(60))
	}
	return rows
}

func BenchmarkRead(b *testing.B) {
	rows := recorded(2000)
	size := 0
	for _, row := range rows {
		size += len(row)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		d := text.NewDataset(text.NewStore(b.TempDir()))
		r := New(d)
		for k, row := range rows {
			if err := r.Row(row, text.Place{Path: "rollout.jsonl", Line: k + 1}); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.End(); err != nil {
			b.Fatal(err)
		}
		_ = d.Store.Close()
	}
}
