package convert

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// manyScripts is a text whose tokens often end inside characters, and characters inside what a reader takes for one.
func manyScripts() []byte {
	words := []string{
		"日本語のテキスト", "中文混排標點。", "𒀀𒁀𒂀", "龘龖", "한국어", "👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🇩🇪🫠", "e\u0301\u0327", "Z̸̡̛͉a̶l̷g̸o̵", "हिन्दी", "ไทย", "العربية", "naïve", "\"\\", "plain",
	}
	r := rand.New(rand.NewPCG(28, 1))
	var b strings.Builder
	for range 6000 {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteString([]string{" ", " ", "", "\n", "、"}[r.IntN(5)])
	}
	return []byte(b.String())
}

// decodeSlowly decodes UTF-8 by the words of doc/spec/reconstruction.md 2.7.
func decodeSlowly(raw []byte) string {
	var text strings.Builder
	for len(raw) > 0 {
		if r, n := utf8.DecodeRune(raw); r != utf8.RuneError || n > 1 {
			text.Write(raw[:n])
			raw = raw[n:]
			continue
		}
		n := 1
		if !utf8.FullRune(raw[:1]) {
			for n < len(raw) && !utf8.FullRune(raw[:n+1]) {
				n++
			}
		}
		text.WriteString("\uFFFD")
		raw = raw[n:]
	}
	return text.String()
}

// Messages are the bytes of their tokens, joined and decoded once, in a text of many scripts: no byte is doubled or missing where
// windows are cut inside characters, as AIPerf cuts them. By default no window is.
//
// Covers F28.
func TestMessagesAreTheBytesOfTheirTokens(t *testing.T) {
	o := options(t, "@demo")
	o.Corpus = write(t, "scripts.txt", manyScripts())
	for _, profile := range Profiles() {
		for _, o.Tokenizer = range tokenizer.Names() {
			require.NoError(t, o.SetProfile(profile))
			tok, err := tokenizer.Load(o.Tokenizer)
			require.NoError(t, err)
			c := openResult(t, o, o.convert(t))
			require.Greater(t, c.Arenas.Splits, 1000, "tokens that begin inside a character")
			messages, cut := 0, 0
			var p mmapcache.Prompt
			eachPrompt(t, c, &p, func() {
				for k := range p.Messages {
					var raw []byte
					for _, id := range p.AppendTokenIDs(nil, k) {
						b, _ := tok.Bytes(id)
						raw = append(raw, b...)
					}
					want := decodeSlowly(raw)
					require.Equal(t, want, string(p.AppendText(nil, k)))
					content := p.AppendContent(nil, k)
					require.Len(t, content, p.Messages[k].Size)
					var text string
					require.NoError(t, json.Unmarshal([]byte(`"`+string(content)+`"`), &text))
					require.Equal(t, want, text)
					messages++
					if !utf8.Valid(raw) {
						cut++
					}
				}
			})
			if profile == DefaultProfile {
				assert.Zero(t, cut, "of %d messages", messages)
			} else {
				assert.Greater(t, cut, messages/10, "of %d messages", messages)
			}
		}
	}
}

// eachPrompt fills p with the prompt of every turn of a cache as text.
func eachPrompt(t *testing.T, c *mmapcache.Cache, p *mmapcache.Prompt, f func()) {
	t.Helper()
	for i := range c.Structure.Traces.Len() {
		tree, err := c.Render(i, mmapcache.Text)
		require.NoError(t, err)
		for k := range tree.Turns {
			tree.Prompt(k, p)
			f()
		}
	}
}
