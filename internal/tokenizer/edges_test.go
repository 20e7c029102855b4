package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// eachTokenizer runs a test with all tokenizers of the vectors whose files are here, and with the vocabulary of one under every known
// pattern.
func eachTokenizer(t *testing.T, test func(t *testing.T, tok *Tokenizer)) {
	t.Helper()
	for _, name := range readVectors(t).Tokenizers {
		t.Run(name, func(t *testing.T) {
			tok := openVector(t, name)
			if tok == nil {
				t.Skipf("%s has no %s: make test-tokenizers", realTokenizers, name)
			}
			test(t, tok)
		})
	}
	for _, p := range patterns {
		tok := newTokenizer("o200k_base as "+p.name, "", p, loaded()["o200k_base"].added.model)
		t.Run(tok.Name(), func(t *testing.T) { test(t, tok) })
	}
}

// scraps are what patterns treat in a way of its own, alone and side by side.
var scraps = []string{
	" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\u00a0", "\u2003", "\u3000", "a", "the", "The", "HTTP", "don", "'t", "'S", "'", "ll", "ſ", "1", "12", "123", "1234", "٣", "²",
	".", "(", "()", "//", "/", "=", "\"", "!", "_", "$", "€", "→", "日", "日本語", "ゟ", "・", "한", "é", "e\u0301", "\u0301", "ǅ", "ʰ", "ß", "\u200d", "👩‍💻", "🇩🇪", "\x00", "\u00ad", "\ue000", "и", "ع",
}

// scrapsOf are scraps and the added tokens of a tokenizer.
func scrapsOf(tok *Tokenizer) []string {
	list := slices.Clone(scraps)
	for _, f := range []*tokenFinder{tok.added.raw, tok.added.normalized} {
		for k := 0; f != nil && k < min(5, len(f.tokens)); k++ {
			if content, _ := tok.Bytes(f.tokens[k].id); norm.NFC.IsNormal(content) {
				list = append(list, string(content))
			}
		}
	}
	return list
}

// scrapText draws a text of scraps.
func scrapText(r *rand.Rand, scraps []string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(scraps[r.IntN(len(scraps))])
		if r.IntN(5) == 0 {
			b.WriteString(" " + scraps[r.IntN(len(scraps))])
		}
	}
	return b.String()
}

// rounds returns how many random texts a test tries.
func rounds() uint64 {
	if testing.Short() {
		return 3
	}
	return 30
}

func (e *Edges) start(k int) bool { return e.Starts[k/64]>>(k%64)&1 == 1 }
func (e *Edges) end(k int) bool   { return e.Ends[k/64]>>(k%64)&1 == 1 }

// window draws a window with sound edges, of tokens; nil: the draw met none.
func (e *Edges) window(r *rand.Rand, tokens []uint32, most int) []uint32 {
	for from := range 200 {
		from = r.IntN(len(tokens))
		end := min(len(tokens), from+1+r.IntN(most))
		if e.start(from) && e.end(end) && !slices.ContainsFunc(e.Flaws, func(f uint32) bool { return int(f) >= from && int(f) < end }) {
			return tokens[from:end]
		}
	}
	return nil
}

// joinsExactly joins windows in a random order and reports whether they encode to their tokens.
func joinsExactly(r *rand.Rand, tok *Tokenizer, texts [][]uint32, edges []*Edges) (want, got []uint32) {
	for range 1 + r.IntN(8) {
		k := r.IntN(len(texts))
		want = append(want, edges[k].window(r, texts[k], 1+r.IntN(40))...)
	}
	return want, tok.Encode(tok.decode(want))
}

// Windows between edges, joined in any order, encode to their tokens.
func TestWindowsBetweenEdgesEncodeToTheirTokens(t *testing.T) {
	eachTokenizer(t, func(t *testing.T, tok *Tokenizer) {
		for seed := range rounds() {
			r := rand.New(rand.NewPCG(seed, 1))
			var texts [][]uint32
			var edges []*Edges
			for _, text := range []string{scrapText(r, scrapsOf(tok), 300), string(readFile(t, "pattern.go")), strings.Join(nasty, " "), strings.Join(nasty, "")} {
				if tok.nfc { // or an accent behind an added token stays apart from it until the text is encoded again
					text = norm.NFC.String(text)
				}
				ids := tok.Encode(text)
				e, err := tok.Edges(ids, true)
				require.NoError(t, err)
				texts, edges = append(texts, ids), append(edges, e)
				again, same := tok.EncodeEdges(text)
				require.Equal(t, ids, again)
				if same != nil {
					require.Equal(t, e, same)
				}
			}
			for range 300 {
				want, got := joinsExactly(r, tok, texts, edges)
				if !slices.Equal(want, got) {
					require.Equal(t, want, got, "seed %d: %q", seed, tok.decode(want))
				}
			}
		}
	})
}

// Tokens that are not what their text encodes to are flaws, and windows without them are exact.
func TestFlawsOfOtherTokens(t *testing.T) {
	tok := loaded()["o200k_base"]
	for seed := range rounds() {
		r := rand.New(rand.NewPCG(seed, 2))
		text := scrapText(r, scraps, 400)
		var ids []uint32
		for len(text) > 0 { // encoded in pieces that are not those of the pattern
			n := min(len(text), 1+r.IntN(200))
			for n < len(text) && text[n]&0xc0 == 0x80 {
				n++
			}
			ids = tok.AppendIDs(ids, text[:n])
			text = text[n:]
		}
		e, err := tok.Edges(ids, false)
		require.NoError(t, err)
		require.True(t, slices.IsSorted(e.Flaws))
		require.NotEmpty(t, e.Flaws)
		for range 100 {
			want, got := joinsExactly(r, tok, [][]uint32{ids}, []*Edges{e})
			require.Equal(t, want, got, "%q", tok.decode(want))
		}
	}
	e, err := tok.Edges(tok.Encode(string(readFile(t, "pattern.go"))), false)
	require.NoError(t, err)
	assert.Empty(t, e.Flaws)
}

// Texts of which no window need encode to its tokens have no edges, and the error says why.
func TestTextsWithoutEdges(t *testing.T) {
	tok := loaded()["o200k_base"]
	var split []uint32 // the bytes of a character, one by one
	for _, b := range []byte("日") {
		split = append(split, tok.added.model.byteIDs[b])
	}
	_, err := tok.Edges(split[:2], true)
	assert.ErrorContains(t, err, "not well-formed UTF-8")
	e, err := tok.Edges(split, false)
	require.NoError(t, err)
	assert.Equal(t, []uint32{0, 1, 2}, e.Flaws)
	_, err = tok.Edges([]uint32{uint32(tok.Size())}, true)
	assert.ErrorContains(t, err, "is not in the vocabulary")

	named := newTokenizer("t", "", tok.pattern, tok.added.model)
	named.added.raw = newFinder([]addedToken{{id: 1, content: "<a>"}, {id: 2, content: "<b c>"}})
	_, err = named.Edges(tok.Encode("some text"), true)
	assert.ErrorContains(t, err, `"<b c>" has a blank`)
	nfc := newTokenizer("t", "", tok.pattern, tok.added.model)
	nfc.nfc = true
	_, err = nfc.Edges(tok.Encode("e\u0301"), true)
	assert.ErrorContains(t, err, "normal form C")
}

// Cache keys do not contain the edges of a text. When this digest changes, raise convert.Recipe.
func TestEdgesArePinned(t *testing.T) {
	h := sha256.New()
	for _, p := range patterns {
		tok := newTokenizer("", "", p, loaded()["o200k_base"].added.model)
		e, err := tok.Edges(tok.Encode(strings.Join(nasty, " ")+scrapText(rand.New(rand.NewPCG(1, 1)), scraps, 2000)), true)
		require.NoError(t, err)
		fmt.Fprintf(h, "%s %x %x\n", p.name, e.Starts, e.Ends)
	}
	assert.Equal(t, "d15375155bab163075d560d19a58e709a55aa9c4b98b639a6e7c27b014014242", hex.EncodeToString(h.Sum(nil)))
}

// BenchmarkEdges measures the edges of a corpus of half a million tokens.
func BenchmarkEdges(b *testing.B) {
	tok := loaded()["o200k_base"]
	ids := tok.Encode(strings.Repeat(string(readFile(b, "pattern.go")), 150))
	for b.Loop() {
		if _, err := tok.Edges(ids, true); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
}
