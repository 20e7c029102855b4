package otel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/agentx/agentx/convert/text"
)

// sentences returns made-up output of a tool: lines of code, of which each has something to escape.
func sentences(r *rand.Rand, lines int) string {
	words := []string{"return", "cart.total", "if err != nil {", "\t\tlog.Printf(\"%d items\", n)", "for k := range rows {", "}", "// the sum of prices", "x[i] += 1"}
	var b strings.Builder
	for range lines {
		for range 2 + r.IntN(6) {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%x\n", r.Uint64())
	}
	return b.String()
}

// recorded returns rows of agents that call tools, and send their whole prompt each time.
func recorded(sessions, turns, lines int) (rows [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for s := range sessions {
		messages := []string{`{"role":"user","parts":[{"type":"text","content":"Fix the cart."}]}`}
		for turn := range turns {
			call := fmt.Sprintf(`{"role":"assistant","parts":[{"type":"tool_call","id":"c%d","name":"read","arguments":{"path":"f%d.go"}}]`, turn, turn)
			at := int64(1767366000000000000) + int64(turn)*2e9
			attribute := func(key, value string) string {
				return `{"key":"` + key + `","value":{"stringValue":` + strconv.Quote(value) + `}}`
			}
			rows = append(rows, fmt.Appendf(nil, `{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":{"name":"x"},"spans":[{"traceId":"%032x","spanId":"%016x","name":"chat m","kind":3,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s,%s,%s,%s,{"key":"gen_ai.usage.input_tokens","value":{"intValue":"5000"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"50"}}]}]}]}]}`,
				s+1, turn+1, at, at+1e9, attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.response.model", "m"),
				attribute("gen_ai.input.messages", "["+strings.Join(messages, ",")+"]"), attribute("gen_ai.output.messages", "["+call+`,"finish_reason":"tool_call"}]`)))
			messages = append(messages, call+"}", fmt.Sprintf(`{"role":"tool","parts":[{"type":"tool_call_response","id":"c%d","response":%s}]}`, turn, strconv.Quote(sentences(r, lines))))
		}
	}
	return rows
}

func BenchmarkRead(b *testing.B) {
	rows := recorded(8, 40, 60)
	size := 0
	for _, row := range rows {
		size += len(row)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		d := text.NewDataset(text.NewStore(b.TempDir()))
		r := New(d)
		for _, row := range rows {
			if err := r.Row(row, text.Place{}); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.End(); err != nil {
			b.Fatal(err)
		}
		_ = d.Store.Close()
	}
	b.ReportMetric(float64(bytes.Count(bytes.Join(rows, nil), []byte(`\`)))/float64(size), "escapes/B")
}
