package wire

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// hugeMessages are messages of about 1 MiB that skimming is not sure of.
func hugeMessages() map[string]string {
	const size = 1 << 20
	fill := func(head, again, tail string) string {
		return head + strings.Repeat(again, (size-len(head)-len(tail))/len(again)) + tail
	}
	var members strings.Builder
	for k := 0; members.Len() < size-100; k++ {
		fmt.Fprintf(&members, `,"%x":1`, k)
	}
	return map[string]string{
		"text":          fill(`data: {"choices":[{"delta":{"content":"`, "word ", `"},"finish_reason":"odd"}]}`),
		"bad UTF-8":     fill(`data: {"choices":[{"delta":{"content":"`, "\xff", `"},"finish_reason":"odd"}]}`),
		"parts":         fill(`data: {"choices":[{"delta":{"content":[""`, `,{"text":""}`, `]}}]}`),
		"calls":         fill(`data: {"choices":[{"delta":{"content":"x","tool_calls":[{}`, `,{}`, `]},"finish_reason":"odd"}]}`),
		"choices":       fill(`data: {"choices":[{"finish_reason":"odd"}`, `,0`, `]}`),
		"members":       `data: {"choices":[{"finish_reason":"odd"}]` + members.String() + `}`,
		"finish reason": fill(`data: {"choices":[{"finish_reason":"`, `x`, `"}]}`),
		"usage":         fill("data: {\"usage\":{\"prompt_tokens\":1", `,"a":0`, "}}\nid: 1"),
		"error":         fill(`data: {"error":{"message":"`, `x`, `"}}`),
		"error list":    fill(`data: {"error":[0`, `,0`, `]}`),
		"error event":   fill("event: error\n: x\ndata: ", `x`, ""),
		"comments":      fill("event: error\n", ":x\n", "data: x"),
		"lines":         fill("", "a\n", "data: x"),
		"data lines":    fill("", "data:x\n", "data: x"),
		"open object":   fill("data: {\n", "a\n", "}"),
		"no JSON":       fill("data: ", "[", ""),
	}
}

// A message costs at most twice its size, whatever is in it, on top of the bytes that are gathered until it is complete.
func TestMemoryOfAHugeMessage(t *testing.T) {
	for name, message := range hugeMessages() {
		for api := range MessagesAPI + 1 {
			t.Run(fmt.Sprint(name, " ", api), func(t *testing.T) {
				require.InDelta(t, 1<<20, len(message), 4<<10)
				c, err := New("http://host", Options{})
				require.NoError(t, err)
				raw := []byte(message)
				var d decoder
				res := newResult(0)
				d.reset(responseState{res: &res, events: true, api: api})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				d.onMessage(raw)
				category, text := d.finish()
				if category != "" {
					res.Err = c.newFailure(category, 200, text)
				}
				runtime.ReadMemStats(&after)
				ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(raw))
				t.Logf("%.2f times the message", ratio)
				require.LessOrEqual(t, ratio, 2.0)
				require.LessOrEqual(t, len(res.FinishReason), maxFailureText)
			})
		}
	}
}

// The bytes of a message are gathered in one buffer, which is at most a quarter larger.
func TestBufferOfAHugeMessage(t *testing.T) {
	var d decoder
	res := newResult(0)
	d.reset(responseState{res: &res, events: true})
	piece := []byte(strings.Repeat("x", maxBuffer))
	for range maxMessageSize / maxBuffer {
		require.NoError(t, d.feed(piece, 1))
	}
	require.LessOrEqual(t, cap(d.splitter.pending), maxMessageSize*5/4)
	require.ErrorIs(t, d.feed(piece[:1], 1), errMessageTooLong)
	d.reset(responseState{res: &res})
	require.Zero(t, cap(d.splitter.pending))
}

// A message that is parsed in place has the fields of one that is parsed into texts.
func TestMessageAgrees(t *testing.T) {
	word := rapid.SampledFrom([]string{"data:", "data", "event:", "error", ":", "{", "}", "x", " ", "\t", "\n", "\r", "\r\n", "\u0085", "\xff", "[DONE]"})
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), "")
		m, plain := parseMessage([]byte(raw)), parsePlainly([]byte(raw))
		require.Equal(t, len(plain.fields) > 0, m.hasFields, "%q", raw)
		require.Equal(t, plain.isError(), m.isError, "%q", raw)
		require.Equal(t, plain.data(), excerpt(m.data.text), "%q", raw)
		require.Equal(t, plain.errorText(), m.errorText(), "%q", raw)
	})
}
