package corpus

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/internal/tokenizer"
)

// encoded returns a corpus in tokens of o200k_base.
func encoded(t testing.TB, c Text) (*tokenizer.Tokenizer, []uint32) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	return tok, tok.Encode(string(c.Generate()))
}

// again are the functions that generate a text, without memory.
var again = map[string]func() []byte{"code": generateCode, "prose": generateProse}

func TestTexts(t *testing.T) {
	for _, c := range Texts {
		t.Run(c.Name, func(t *testing.T) {
			text := c.Generate()
			sum := sha256.Sum256(text)
			assert.Equal(t, c.SHA256, hex.EncodeToString(sum[:]))
			assert.True(t, utf8.Valid(text))
			assert.False(t, bytes.Contains(text, []byte("<|")), "nothing may look like a special token")
			assert.False(t, bytes.ContainsAny(text, "«»"), "nothing may be left unexpanded")
			assert.Equal(t, sha256.Sum256(again[c.Name]()), sum, "a second time")
		})
	}
}

func TestTokens(t *testing.T) {
	for _, c := range Texts {
		t.Run(c.Name, func(t *testing.T) {
			tok, ids := encoded(t, c)
			assert.Equal(t, c.Tokens["o200k_base"], len(ids))
			cl100k, err := tokenizer.Load("cl100k_base")
			require.NoError(t, err)
			assert.Equal(t, c.Tokens["cl100k_base"], len(cl100k.Encode(string(c.Generate()))))
			assert.Len(t, c.Tokens, len(tokenizer.Names()))

			assert.Equal(t, map[string]string{
				"code":  "ac5226f39aa58cda750f6b4c0c268c1462ff3b24fcef785fecf5f36b54d53022",
				"prose": "0e3affddf895955358698f4d4200679f8af2ae4f89b208d28d42180e526f8c50",
			}[c.Name], digestOf(t, ids))

			var text []byte
			inside := 0
			for _, id := range ids {
				token, ok := tok.Bytes(id)
				require.True(t, ok)
				if !utf8.RuneStart(token[0]) {
					inside++
				}
				text = append(text, token...)
			}
			assert.True(t, bytes.Equal(c.Generate(), text))

			// A message cut at such a place takes the slow path of rendering: there must be some, for that path to be walked,
			// and few, for it not to be the usual one.
			share := float64(inside) / float64(len(ids))
			assert.True(t, share >= 0.00003 && share <= 0.003, inside)
			t.Logf("%d bytes, %d tokens, %d begin inside a character", len(text), len(ids), inside)
		})
	}
}

func digestOf(t *testing.T, ids []uint32) string {
	h := sha256.New()
	require.NoError(t, binary.Write(h, binary.LittleEndian, ids))
	return hex.EncodeToString(h.Sum(nil))
}

// A prompt put together from windows of a corpus should not repeat itself, or prefix caches would find more than the trace has. The
// yardstick is AIPerf's coding corpus, where 0.62, 0.81 and 0.975 of windows of 8, 16 and 64 tokens are distinct.
func TestVariety(t *testing.T) {
	for name, least := range map[string][3]float64{"code": {0.85, 0.96, 0.9999}, "prose": {0.95, 0.99, 0.9999}, "words": {0.9999, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			ids, text := corpusNamed(t, name)
			for k, window := range []int{8, 16, 64} {
				share := distinctWindows(ids, window)
				assert.GreaterOrEqual(t, share, least[k], "windows of %d", window)
				t.Logf("distinct windows of %d tokens: %.4f", window, share)
			}
			var packed bytes.Buffer
			z := zlib.NewWriter(&packed)
			_, err := io.Copy(z, bytes.NewReader(text))
			require.NoError(t, err)
			require.NoError(t, z.Close())
			ratio := float64(len(text)) / float64(packed.Len())
			assert.Less(t, ratio, 4.0)
			t.Logf("zlib: %.2f to 1", ratio)
		})
	}
}

// corpusNamed returns a corpus in tokens of o200k_base, and as text.
func corpusNamed(t *testing.T, name string) (ids []uint32, text []byte) {
	for _, c := range Texts {
		if c.Name == name {
			_, ids = encoded(t, c)
			return ids, c.Generate()
		}
	}
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	ids, err = Words(tok)
	require.NoError(t, err)
	return ids, joined(tok, ids)
}

func joined(tok *tokenizer.Tokenizer, ids []uint32) (text []byte) {
	for _, id := range ids {
		token, _ := tok.Bytes(id)
		text = append(text, token...)
	}
	return text
}

// distinctWindows returns the share of windows of n tokens that occur once, or for the first time.
func distinctWindows(ids []uint32, n int) float64 {
	hashes := make([]uint64, len(ids)-n+1)
	key := make([]byte, 0, 4*n)
	for i := range hashes {
		key = key[:0]
		for _, id := range ids[i : i+n] {
			key = binary.LittleEndian.AppendUint32(key, id)
		}
		hashes[i] = xxh3.Hash(key)
	}
	windows := float64(len(hashes))
	slices.Sort(hashes)
	return float64(len(slices.Compact(hashes))) / windows
}

// Every kind of content is there.
func TestKinds(t *testing.T) {
	text := string(Code())
	for kind, sign := range map[string]string{
		"Go": "\tpackage ", "Python": "\tdef ", "TypeScript": "\texport ", "Rust": "\tpub fn ", "Java": "\tpublic final class",
		"C": "\t#include", "SQL": "\nBEGIN;\n", "shell": "#!/usr/bin/env bash", "YAML": "\napiVersion: ", "HTML": "<!doctype html>",
		"Markdown": "\n> **Note**", "diff": "\n@@ -", "Go trace": "\ngoroutine ", "Python trace": "Traceback (most", "test run": "\n$ pytest",
		"tool call": `{"name":"grep","input":{`, "log": " - - [", "tree": "\n|-- ", "listing": "\ndrwxr-xr-x", "commit": "\nAuthor: ",
		"box": "└── ", "arrow": " → ", "emoji": "✨", "CJK": "索引", "accents": "Größe",
	} {
		assert.True(t, strings.Contains(text, sign), kind)
	}
}

// Every kind of passage and every script is there.
func TestKindsOfProse(t *testing.T) {
	text := string(Prose())
	for kind, sign := range map[string]string{
		"title": "\n# ", "heading": "\n## ", "list": "\n- ", "steps": "\n1. ", "quotation": "\n> ", "table": "\n|---|", "definition": "\n: ",
		"question": "**Question.** ", "German": "sobald die", "French": "D’après", "Spanish": "¿Por qué", "Polish": "Każda", "Russian": "Когда", "Greek": "Κάθε",
		"Turkish": "ardından", "Chinese": "当", "Japanese": "なぜ", "Korean": "먼저", "Arabic": "عندما", "Hebrew": "כאשר", "Hindi": "तापमान", "Thai": "องศา",
		"mathematics": "∑ᵢ", "emoji": "👩‍🔬", "combining accent": "cafe\u0301",
	} {
		assert.True(t, strings.Contains(text, sign), kind)
	}
}

func TestInflections(t *testing.T) {
	for word, want := range map[string][4]string{
		"valve": {"valves", "valved", "valving", "a valve"}, "berry": {"berries", "berried", "berrying", "a berry"},
		"box": {"boxes", "boxed", "boxing", "a box"}, "tray": {"trays", "trayed", "traying", "a tray"}, "match": {"matches", "matched", "matching", "a match"},
		"strip": {"strips", "stripped", "stripping", "a strip"}, "grind": {"grinds", "ground", "grinding", "a grind"}, "upper": {"uppers", "uppered", "uppering", "an upper"},
		"unit": {"units", "united", "uniting", "a unit"}, "old see": {"old sees", "old seed", "old seeing", "an old see"},
	} {
		assert.Equal(t, want, [4]string{plural(word), past(word), ing(word), an(word)})
	}
}

// Every token of Words encodes to itself, side by side with any other.
func TestWords(t *testing.T) {
	for name, digest := range map[string]string{"o200k_base": WordsSHA256, "cl100k_base": "58fc2b30e63ed0e771f1b213e0c32628e8372cea8635088d5f5aee0fe9b3e073"} {
		tok, err := tokenizer.Load(name)
		require.NoError(t, err)
		ids, err := Words(tok)
		require.NoError(t, err)
		assert.Len(t, ids, WordsTokens)
		assert.Equal(t, digest, digestOf(t, ids))
		assert.True(t, slices.Equal(ids, tok.Encode(string(joined(tok, ids)))))
		alphabet := alphabetOf(tok)
		r := rng{7}
		for range 20_000 {
			pair := []uint32{pick(&r, alphabet), pick(&r, alphabet)}
			require.Equal(t, pair, tok.Encode(string(joined(tok, pair))))
		}
		t.Logf("%s: %d words", name, len(alphabet))
	}
}

// toy is a vocabulary of words of three letters, of which some encode to letters.
type toy struct {
	words  int
	broken func(id uint32) bool
}

func (v toy) Size() int { return v.words + 30 }

func (v toy) Bytes(id uint32) ([]byte, bool) {
	switch k := int(id) - 30; {
	case k >= 0:
		return []byte{' ', byte('a' + k/676), byte('a' + k/26%26), byte('a' + k%26)}, true
	case k >= -4:
		return []byte(map[int]string{-4: " ", -3: " A", -2: "ab", -1: " a1"}[k]), true
	}
	return []byte{byte('a' + id)}, true
}

func (v toy) AppendIDs(ids []uint32, text string) []uint32 {
	for _, word := range strings.Fields(text) {
		id := 30 + 676*uint32(word[0]-'a') + 26*uint32(word[1]-'a') + uint32(word[2]-'a')
		if v.broken(id) {
			ids = append(ids, 26, uint32(word[0]-'a'), uint32(word[1]-'a'), uint32(word[2]-'a'))
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// Tokens that are found in the vocabulary and not made by its merges are left out.
func TestWordsThatDoNotEncodeToThemselves(t *testing.T) {
	v := toy{words: 3000, broken: func(id uint32) bool { return id%3 == 0 }}
	alphabet := alphabetOf(v)
	assert.Len(t, alphabet, 2000)
	assert.False(t, slices.ContainsFunc(alphabet, v.broken))
	_, err := Words(v)
	require.NoError(t, err)
	v.words = 1200
	_, err = Words(v)
	assert.EqualError(t, err, "800 tokens are a blank and small letters that encode to themselves: the corpus words wants 1000 or more")
}

// Every name that a template mentions is a rule, a builtin or bound in the same rule.
func TestGrammarIsComplete(t *testing.T) {
	rules := loadGrammar()
	g := newGenerator(rules, 1, 0)
	g.begin()
	for name, r := range rules {
		bound := make(map[string]bool)
		for _, a := range r.alternatives {
			for k := range a {
				p := &a[k]
				bound[p.bind] = true
				if p.name == "" || bound[p.name] || rules[p.name] != nil {
					continue
				}
				_, ok := g.builtin(p)
				assert.True(t, ok, "%q mentions %q", name, p.name)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"§lins a\nb\n":            "unknown form",
		"§lines a\nb\n§lines a\n": "twice or is empty",
		"§lines a\n\n":            "twice or is empty",
		"§rule a\n«b\n":           "without",
		"§rule a\n«1-x b»\n":      "invalid syntax",
	} {
		assert.ErrorContains(t, make(grammar).parse(text), want, text)
	}
}

func TestExpansion(t *testing.T) {
	rules := make(grammar)
	require.NoError(t, rules.parse(strings.Join([]string{
		"§words word", "blue",
		"§lines phrase", "«word» green ångström",
		"§rule block", "if {", "\t«2-2 row»", "", "}",
		"§rule row", "x", "  y",
		"§rule nest", ".", "~", "(«nest»)",
		"§rule all", "«v:=phrase»«v.camel» «v.pascal» «v.snake» «v.kebab» «v.upper» «v.title»",
		"  «block»", "«3-3, word»",
	}, "\n")))
	rules.link()
	g := newGenerator(rules, 1, 0)
	assert.Equal(t, "blueGreenÅngström BlueGreenÅngström blue_green_ångström blue-green-ångström BLUE_GREEN_ÅNGSTRÖM Blue green ångström\n"+
		"  if {\n  \tx\n  \t  y\n  \tx\n  \t  y\n\n  }\nblue, blue, blue", g.text("all"))
	for range 100 {
		assert.LessOrEqual(t, strings.Count(g.text("nest"), "("), maxNesting)
	}
}

func TestRandom(t *testing.T) {
	var r rng // the published first outputs of splitmix64 for seed 0
	assert.Equal(t, []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4}, []uint64{r.Next(), r.Next()})
}

func BenchmarkGenerate(b *testing.B) {
	for name, generate := range again {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(len(generate())))
			}
		})
	}
}
