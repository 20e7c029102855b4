package corpus

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/tokenizer"
)

var o200k = sync.OnceValues(func() (*tokenizer.Tokenizer, []uint32) {
	tok, err := tokenizer.Load("o200k_base")
	if err != nil {
		panic(err)
	}
	return tok, tok.Encode(string(Code()))
})

func TestCode(t *testing.T) {
	sum := sha256.Sum256(Code())
	assert.Equal(t, CodeSHA256, hex.EncodeToString(sum[:]))
	assert.True(t, utf8.Valid(Code()))
	assert.False(t, bytes.Contains(Code(), []byte("<|")), "nothing may look like a special token")
	assert.False(t, bytes.Contains(Code(), []byte("«")), "nothing may be left unexpanded")
	assert.Equal(t, sha256.Sum256(generateCode()), sum, "a second time")
}

func TestTokens(t *testing.T) {
	tok, ids := o200k()
	assert.Equal(t, CodeTokens["o200k_base"], len(ids))
	cl100k, err := tokenizer.Load("cl100k_base")
	require.NoError(t, err)
	assert.Equal(t, CodeTokens["cl100k_base"], len(cl100k.Encode(string(Code()))))
	assert.Len(t, CodeTokens, len(tokenizer.Names()))

	h := sha256.New()
	require.NoError(t, binary.Write(h, binary.LittleEndian, ids))
	assert.Equal(t, "bab0ff1ba262a2689e9d8aca7f80d3d30cc394164d2e0e6b633c858869137f9e", hex.EncodeToString(h.Sum(nil)))

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
	assert.True(t, bytes.Equal(Code(), text))

	// A message cut at such a place takes the slow path of rendering: there must be some, for that path to be walked,
	// and few, for it not to be the usual one.
	assert.True(t, inside >= 10 && inside <= 80, inside)
	t.Logf("%d bytes, %d tokens, %d begin inside a character", len(text), len(ids), inside)
}

// A prompt put together from windows of the corpus should not repeat itself, or prefix caches would find more than
// the trace has. The yardstick is AIPerf's coding corpus, where 0.62, 0.81 and 0.975 of these windows are distinct.
func TestVariety(t *testing.T) {
	_, ids := o200k()
	for _, c := range []struct {
		window int
		least  float64
	}{{8, 0.85}, {16, 0.96}, {64, 0.9999}} {
		distinct := make(map[string]bool)
		key := make([]byte, 0, 4*c.window)
		n := len(ids) - c.window + 1
		for i := range n {
			key = key[:0]
			for _, id := range ids[i : i+c.window] {
				key = binary.LittleEndian.AppendUint32(key, id)
			}
			distinct[string(key)] = true
		}
		share := float64(len(distinct)) / float64(n)
		assert.GreaterOrEqual(t, share, c.least, "windows of %d", c.window)
		t.Logf("distinct windows of %d tokens: %.4f", c.window, share)
	}

	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := io.Copy(z, bytes.NewReader(Code()))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	ratio := float64(len(Code())) / float64(packed.Len())
	assert.Less(t, ratio, 4.0)
	t.Logf("zlib: %.2f to 1", ratio)
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

// Every name that a template mentions is a rule, a builtin or bound in the same rule.
func TestGrammarIsComplete(t *testing.T) {
	rules := loadGrammar()
	g := newGenerator(rules, 1)
	g.begin()
	for name, alternatives := range rules {
		bound := make(map[string]bool)
		for _, a := range alternatives {
			for _, p := range a {
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
	g := newGenerator(rules, 1)
	assert.Equal(t, "blueGreenÅngström BlueGreenÅngström blue_green_ångström blue-green-ångström BLUE_GREEN_ÅNGSTRÖM Blue green ångström\n"+
		"  if {\n  \tx\n  \t  y\n  \tx\n  \t  y\n\n  }\nblue, blue, blue", g.text("all"))
	for range 100 {
		assert.LessOrEqual(t, strings.Count(g.text("nest"), "("), maxNesting)
	}
}

func TestRandom(t *testing.T) {
	var r rng // the published first outputs of splitmix64 for seed 0
	assert.Equal(t, []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4}, []uint64{r.next(), r.next()})
}

func BenchmarkGenerateCode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		generateCode()
	}
}
