package tokenizer

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func stream(t require.TestingT, tok *Tokenizer, text string, step int) (ids []uint32, calls int) {
	size, err := tok.encodeReader(iotest.HalfReader(strings.NewReader(text)), step, func(part []uint32) error {
		ids = append(ids, part...)
		calls++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(len(text)), size)
	return ids, calls
}

// A text in parts has the ids of the whole, wherever the parts end: under every pattern, with NFC, added tokens and ill-formed bytes.
func TestEncodeReaderIsEncode(t *testing.T) {
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			tok := openVector(t, "small-"+p.name)
			all := strings.Join(readVectors(t).texts, " ")
			ids, calls := stream(t, tok, all, 100)
			assert.Equal(t, tok.Encode(all), ids)
			assert.Greater(t, calls, 20)
			rapid.Check(t, func(t *rapid.T) {
				var b strings.Builder
				for range rapid.IntRange(1, 8).Draw(t, "parts") {
					b.WriteString(genText.Draw(t, "text"))
					b.WriteString(rapid.SampledFrom([]string{" ", "\n", " a", "\na", "\n/", "x ", " \u0301", "\n\u0301", "<|end|>x", "\xff", "é "}).Draw(t, "between"))
				}
				ids, _ := stream(t, tok, b.String(), rapid.IntRange(1, 40).Draw(t, "step"))
				assert.Equal(t, tok.Encode(b.String()), ids, "%q", b.String())
			})
		})
	}
}

// Places that look like edges of pieces, and under some pattern are none.
func TestEncodeReaderCutsNoPiece(t *testing.T) {
	for _, p := range patterns {
		tok := openVector(t, "small-"+p.name)
		for _, unit := range []string{"!\n/", "!\n\n", "a\n \u0301", ".\n\u0301", "\n\n ", "  ", " \n", "x  \n", "\u00a0 ", "a\u3000 b", "a \u0301", "1\n2", "é\n中"} {
			text := strings.Repeat(unit, 30)
			for step := 1; step < 50; step++ {
				ids, _ := stream(t, tok, text, step)
				assert.Equal(t, tok.Encode(text), ids, "%s: %q, %d bytes at a time", p.name, unit, step)
			}
		}
	}
}

// An added token with a blank in it is not cut.
func TestEncodeReaderKeepsAddedTokensWhole(t *testing.T) {
	file := strings.Replace(string(readFile(t, "testdata/small-cl100k.json")), `"content":"<think>"`, `"content":"<a b c>"`, 1)
	tok, err := ParseJSON("x", []byte(file))
	require.NoError(t, err)
	text := strings.Repeat("x <a b c> <a b <a b c>", 20)
	for step := 1; step < 60; step++ {
		ids, _ := stream(t, tok, text, step)
		assert.Equal(t, tok.Encode(text), ids, step)
	}
}

func TestEncodeReaderErrors(t *testing.T) {
	tok := loaded()["cl100k_base"]
	broken := errors.New("broken")
	_, err := tok.EncodeReader(iotest.ErrReader(broken), func([]uint32) error { return nil })
	assert.ErrorIs(t, err, broken)
	_, err = tok.EncodeReader(strings.NewReader("x"), func([]uint32) error { return broken })
	assert.ErrorIs(t, err, broken)
	_, err = tok.EncodeReader(strings.NewReader(strings.Repeat("x", 3*maxStretch)), func([]uint32) error { return nil })
	assert.ErrorContains(t, err, "without a blank or a line break")
}
