package chain

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
)

// rounds returns the prompt of an agent after some rounds with 4 KB of code each.
func rounds(t testing.TB, n int) *canon.Prompt {
	code, err := os.ReadFile("prepare.go")
	require.NoError(t, err)
	text := string(code)
	var p canon.Prompt
	segment := func(role uint32, text string) {
		p.Segments = append(p.Segments, canon.Segment{Role: role, Parts: []canon.Part{
			{Kind: canon.Structure, Token: role}, {Kind: canon.Structure, Token: canon.Text}, {Kind: canon.PlainText, Data: []byte(text)}, {Kind: canon.Structure, Token: canon.End},
		}})
	}
	for i := range n {
		from := i * 700 % (len(text) - 4000)
		segment(canon.RoleAssistant, fmt.Sprint("Reading ", i))
		segment(canon.RoleUser, fmt.Sprint(i, text[from:from+4000]))
	}
	return &p
}

// bodyOfRounds returns a request of Anthropic's Messages with them.
func bodyOfRounds(t testing.TB, n int) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	for _, s := range rounds(t, n).Segments {
		messages = append(messages, message{map[bool]string{true: "user", false: "assistant"}[s.Role == canon.RoleUser], string(s.Parts[2].Data)})
	}
	body, err := json.Marshal(map[string]any{"messages": messages, "model": "m"})
	require.NoError(t, err)
	return body
}

// What a turn costs that adds a round of 4 KB to a prompt of 1 MB, against tokenizing the round alone and against a session
// without a memory.
func BenchmarkPrepare(b *testing.B) {
	before, after := rounds(b, 250), rounds(b, 251)
	size := 0
	for _, s := range after.Segments {
		size += len(s.Parts[2].Data)
	}
	b.Run("turn", func(b *testing.B) {
		tree := newTree(b, counting(), 64)
		apply(b, tree, 0, before)
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tree.Prepare(after); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		tree := newTree(b, counting(), 64)
		body := bodyOfRounds(b, 250)
		_, prepared, err := tree.Read(canon.Messages, body)
		require.NoError(b, err)
		_, err = tree.Apply(0, prepared)
		require.NoError(b, err)
		body, kept := bodyOfRounds(b, 251), tree.seen[0]
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			tree.seen = []*seen{kept}
			if _, _, err := tree.Read(canon.Messages, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tokenize", func(b *testing.B) {
		tree := newTree(b, counting(), 64)
		var ids []uint32
		for b.Loop() {
			for _, s := range after.Segments[len(before.Segments):] {
				ids = tree.options.Tokenizer.AppendIDs(ids[:0], string(s.Parts[2].Data))
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			if _, err := newTree(b, counting(), 64).Prepare(after); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tokenizeWhole", func(b *testing.B) {
		tree := newTree(b, counting(), 64)
		var all strings.Builder
		for _, s := range after.Segments {
			all.Write(s.Parts[2].Data)
		}
		text := all.String()
		b.SetBytes(int64(size))
		var ids []uint32
		for b.Loop() {
			ids = tree.options.Tokenizer.AppendIDs(ids[:0], text)
		}
	})
}

// What a session keeps: 150,000 token ids in 500 messages, which come in 50 requests.
func BenchmarkMemory(b *testing.B) {
	ids := counted(150_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var trees []*Tree
	for b.Loop() {
		tree := newTree(b, counting(), 64)
		for q := range 50 {
			p := &canon.Prompt{}
			for k := range 10 * (q + 1) {
				p.Segments = append(p.Segments, canon.Segment{Parts: []canon.Part{{Kind: canon.TokenIDs, IDs: ids[300*k:][:300]}}})
			}
			apply(b, tree, q, p)
		}
		trees = append(trees, tree)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	session := float64(after.HeapAlloc-before.HeapAlloc) / float64(len(trees))
	b.ReportMetric(session, "B/session")
	b.ReportMetric(session/float64(trees[0].Blocks()), "B/block")
}
