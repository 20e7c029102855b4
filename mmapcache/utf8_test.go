package mmapcache

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
)

// startsCharacter reports whether some bytes complete b to one character: tried with bytes from every range of second
// bytes that Unicode has.
func startsCharacter(b []byte) bool {
	if utf8.Valid(b) && utf8.RuneCount(b) == 1 {
		return true
	}
	if len(b) >= utf8.UTFMax {
		return false
	}
	for _, c := range []byte{0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf} {
		if startsCharacter(append(b[:len(b):len(b)], c)) {
			return true
		}
	}
	return false
}

// decode is the slow truth about text: one U+FFFD for every maximal ill-formed subsequence, which is the longest start
// of a character, or one byte.
func decode(raw []byte) string {
	text := ""
	for len(raw) > 0 {
		n := 1
		for n < len(raw) && startsCharacter(raw[:n]) && startsCharacter(raw[:n+1]) {
			n++
		}
		if startsCharacter(raw[:1]) && utf8.Valid(raw[:n]) {
			text += string(raw[:n])
		} else {
			text += "\uFFFD"
		}
		raw = raw[n:]
	}
	return text
}

func TestReplacementVectors(t *testing.T) {
	list, err := fixtures.Weka("utf8_replacement")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			var in struct {
				Tokens []string `json:"tokens_hex"`
			}
			var want struct {
				CodePoints []rune `json:"code_points"`
			}
			require.NoError(t, json.Unmarshal(v.In, &in))
			require.NoError(t, json.Unmarshal(v.Want, &want))
			var raw []byte
			for _, token := range in.Tokens {
				b, err := hex.DecodeString(token)
				require.NoError(t, err)
				raw = append(raw, b...)
			}
			assert.Equal(t, string(want.CodePoints), string(appendValid(nil, raw)))
			assert.Equal(t, string(want.CodePoints), decode(raw), "the truth of these tests")
		})
	}
}

func TestReplacementAgreesWithTheDecoder(t *testing.T) {
	piece := rapid.SampledFrom(vocabulary)
	rapid.Check(t, func(t *rapid.T) {
		var raw []byte
		for _, p := range rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces") {
			raw = append(raw, p...)
		}
		raw = append(raw, rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes")...)
		assert.Equal(t, decode(raw), string(appendValid(nil, raw)))
	})
}
