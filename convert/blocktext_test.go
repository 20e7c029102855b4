package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/tokenizer"
)

// Blocks of AIPerf's coding corpus have the texts that the vectors state.
func TestBlockTextVectors(t *testing.T) {
	data, err := os.ReadFile(shared(t, "corpus/aiperf-coding-42-o200k_base.u32le"))
	require.NoError(t, err)
	corpus := make([]uint32, len(data)/4)
	for k := range corpus {
		corpus[k] = binary.LittleEndian.Uint32(data[4*k:])
	}
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	placer := reconstruct.NewPlacer(rules.Placement{Backend: rules.SHA256MT, Seed: 42, Stream: rules.CodingStream}, len(corpus), nil)
	list, err := fixtures.Weka("block_text")
	require.NoError(t, err)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			in := decode[struct {
				Scope     string
				BlockSize int     `json:"block_size"`
				HashIDs   []int64 `json:"hash_ids"`
			}](t, string(v.In))
			want := decode[struct {
				Tokens       []uint32
				Count, Bytes int
				SHA256       string
			}](t, string(v.Want))
			var tokens []uint32
			var text []byte
			for _, id := range in.HashIDs {
				var start [1]uint32
				placer.Blocks(start[:], in.Scope, id, in.BlockSize)
				for k := range in.BlockSize {
					token := corpus[(int(start[0])+k)%len(corpus)]
					b, ok := tok.Bytes(token)
					require.True(t, ok)
					tokens, text = append(tokens, token), append(text, b...)
				}
			}
			require.True(t, utf8.Valid(text), "no block of this section cuts a character")
			sum := sha256.Sum256(text)
			assert.Equal(t, want.Count, len(tokens))
			assert.Equal(t, want.Tokens, append(append([]uint32{}, tokens[:4]...), tokens[len(tokens)-4:]...))
			assert.Equal(t, want.Bytes, len(text))
			assert.Equal(t, want.SHA256, hex.EncodeToString(sum[:]))
		})
	}
}
