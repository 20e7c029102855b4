package chain

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/internal/tokenizer"
)

// counting is the key 00 01 ... 1f of the vectors.
func counting() (key digest) {
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

// o200k is the tokenizer of the vectors.
var o200k = sync.OnceValue(func() *tokenizer.Tokenizer {
	tk, err := tokenizer.Load("o200k_base")
	if err != nil {
		panic(err)
	}
	return tk
})

// newTree returns a tree with the tokenizer of the vectors.
func newTree(t testing.TB, key digest, blockSize int) *Tree {
	tree, err := New(key, Options{Tokenizer: o200k(), Name: "o200k_base", BlockSize: blockSize})
	require.NoError(t, err)
	return tree
}

// apply makes a prompt the next request of a tree.
func apply(t testing.TB, tree *Tree, q int, p *canon.Prompt) Request {
	t.Helper()
	prepared, err := tree.Prepare(p)
	require.NoError(t, err)
	r, err := tree.Apply(q, prepared)
	require.NoError(t, err)
	require.Equal(t, r.Tokens/tree.options.BlockSize, r.Keep+r.New)
	return r
}

// parse parses a body that has to be right.
func parse(t testing.TB, f canon.Format, body string) *canon.Prompt {
	t.Helper()
	p, err := canon.Parse(f, []byte(body))
	require.NoError(t, err, body)
	return p
}

// counted returns the numbers from 0 to n-1.
func counted(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

// tokens returns a prompt of token ids.
func tokens(ids ...uint32) *canon.Prompt {
	return &canon.Prompt{Segments: []canon.Segment{{Parts: []canon.Part{{Kind: canon.TokenIDs, IDs: ids}}}}}
}

// digests returns the digests of the blocks of a prompt that a new tree gets.
func digests(t testing.TB, key digest, ids ...uint32) (blocks []string) {
	tree := newTree(t, key, 64)
	apply(t, tree, 0, tokens(ids...))
	for _, k := range tree.blocks.keys {
		blocks = append(blocks, hex.EncodeToString(k[:]))
	}
	return blocks
}

// The digests that the specification computed.
//
// Covers C-2.
func TestDigestsOfTheSpecification(t *testing.T) {
	root := func(size int) string {
		d := newTree(t, counting(), size).nodes[0].last
		return hex.EncodeToString(d[:])
	}
	require.Equal(t, "a71c867764a49c055ae1aed38d3164b0f471f7e6bdaa13fa4afd4ed2b7653cc1", root(64))
	require.Equal(t, "b2a423717823bc7c88d3c7d447a58fed8adfbfc0620dea054183a6e207ce026a", root(4))

	const first = "070f9ec14b7a8321adcb27cb65592650"
	require.Empty(t, digests(t, counting(), counted(63)...))
	for _, n := range []int{64, 65, 127} {
		require.Equal(t, []string{first}, digests(t, counting(), counted(n)...), n)
	}
	require.Equal(t, []string{first, "cf53678bdbd34acfc30a48906fb4bc23", "6c9830a219b4fb9b899ce210f5e4a254"}, digests(t, counting(), counted(192)...))
	sevens := slices.Repeat([]uint32{7}, 64)
	require.Equal(t, []string{"4de07ea44fdd507fcb8803992779aceb", "123ee7a70da57777f61e6071a8bcfdaa"}, digests(t, counting(), append(sevens, counted(64)...)...))
	require.Equal(t, []string{"3aa40ca100944ad0d08c1edd092a6c3c"}, digests(t, digest{}, counted(64)...))
	require.Equal(t, []string{"b713f7c4bc6ac4c5efb9c82f7549a547"}, digests(t, counting(), append([]uint32{0xA0000004, 0xA0000010, 0xB1234567}, make([]uint32, 61)...)...))

	m := newSigner(counting()).media([]byte("abc"))
	var list []string
	for j := range 10 {
		list = append(list, fmt.Sprintf("%08X", mediaToken(m, j)))
	}
	require.Equal(t, "B7DBAA9E B3916F9F B8E35C3B B4A8229C BCA87DBC B506E790 B4115A8B B353C441 B7DBAA9E B3916F9F", strings.Join(list, " "))
}

// The example of the specification: two prompts of a session, one of a child, a rewind, and the second prompt again.
//
// Covers C-3.
func TestOrdinalsOfTheSpecification(t *testing.T) {
	const (
		system = `"system":"You are a careful engineer.",`
		user   = `{"role":"user","content":"Fix the failing test in parser.go, please."}`
		uses   = `{"role":"assistant","content":[{"type":"text","text":"Reading it."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"parser.go","line":42}}]}`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"func parse() error {"}]}`
	)
	second := `{` + system + `"messages":[` + user + `,` + uses + `,` + result + `]}`
	tree := newTree(t, counting(), 4)
	for q, c := range []struct {
		body string
		want Request
		ids  []uint32
	}{
		{`{` + system + `"messages":[` + user + `]}`, Request{Tokens: 22, System: 9, Base: -1, New: 5}, counted(5)},
		{second, Request{Tokens: 50, System: 9, Base: 0, Keep: 5, New: 7, firstID: 5}, counted(12)},
		{`{` + system + `"messages":[{"role":"user","content":"Find all callers of parse."}]}`, Request{Tokens: 18, System: 9, Base: 0, Keep: 2, New: 2, firstID: 12}, []uint32{0, 1, 12, 13}},
		{strings.Replace(second, "func parse() error {", "no such file", 1), Request{Tokens: 48, System: 9, Base: 1, Keep: 11, New: 1, firstID: 14}, append(counted(11), 14)},
		{second, Request{Tokens: 50, System: 9, Base: 1, Keep: 12, firstID: 15}, counted(12)},
	} {
		require.Equal(t, c.want, apply(t, tree, q, parse(t, canon.Messages, c.body)), q)
		require.Equal(t, c.ids, tree.AppendIDs(nil, q), q)
	}

	tree = newTree(t, counting(), 64)
	for q, c := range []struct{ prompt, want []uint32 }{
		{counted(200), counted(3)},
		{append(counted(130), slices.Repeat([]uint32{9}, 70)...), []uint32{0, 1, 3}},
		{counted(400), []uint32{0, 1, 2, 4, 5, 6}},
	} {
		apply(t, tree, q, tokens(c.prompt...))
		require.Equal(t, c.want, tree.AppendIDs(nil, q), q)
	}
}
