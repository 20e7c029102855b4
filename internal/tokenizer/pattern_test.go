package tokenizer

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// splitter runs the expressions of a pattern: each splits what the one before left between its matches.
type splitter []*regexp2.Regexp

func newSplitter(t require.TestingT, p *pattern) (s splitter) {
	for _, e := range p.expressions {
		// regexp2 has subtraction for intersection, and folds ſ to s in neither direction.
		e = strings.ReplaceAll(e, `&&[^\p{Han}]]`, `-[\p{Han}]]`)
		e = strings.ReplaceAll(e, contractions, `(?:'[sStTmMdDſ]|'[rRvV][eE]|'[lL][lL])`)
		r, err := regexp2.Compile(e, regexp2.None)
		require.NoError(t, err)
		s = append(s, r)
	}
	return s
}

func (s splitter) split(t require.TestingT, text string) []string {
	parts := [][]rune{[]rune(text)}
	for _, r := range s {
		var next [][]rune
		for _, part := range parts {
			from := 0
			m, err := r.FindRunesMatch(part)
			for ; m != nil && err == nil; m, err = r.FindNextMatch(m) {
				next = appendPart(next, part[from:m.Index])
				next = appendPart(next, part[m.Index:m.Index+m.Length])
				from = m.Index + m.Length
			}
			require.NoError(t, err)
			next = appendPart(next, part[from:])
		}
		parts = next
	}
	var pieces []string
	for _, p := range parts {
		pieces = append(pieces, string(p))
	}
	return pieces
}

func appendPart(list [][]rune, part []rune) [][]rune {
	if len(part) > 0 {
		list = append(list, part)
	}
	return list
}

func (t *Tokenizer) piecesOf(text string) (list []string) {
	for p := range t.pieces(text) {
		list = append(list, p)
	}
	return list
}

// genText draws texts of the characters on which patterns differ, and of any others.
var genText = rapid.Custom(func(t *rapid.T) string {
	special := rapid.SampledFrom([]rune(" \t\n\r\v\u0085'/.,-_=<>(){}[]#;:!?aAzZsStTdDlLrReEvVmM019éÉßſǅʰ中文あアー한々〇\U00020000😀\u0301\u200d\u00a0\u3000\u2028½Ⅻ١ªﬁ$+^`|~€©"))
	var b strings.Builder
	for range rapid.IntRange(0, 24).Draw(t, "characters") {
		if rapid.IntRange(0, 9).Draw(t, "any") == 0 {
			b.WriteRune(rapid.Rune().Draw(t, "character"))
		} else {
			b.WriteRune(special.Draw(t, "character"))
		}
	}
	return strings.ToValidUTF8(b.String(), "?")
})

// The function of each pattern finds the pieces of its expressions.
func TestPatternsAreTheirExpressions(t *testing.T) {
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			s, tok := newSplitter(t, p), &Tokenizer{pattern: p}
			for _, text := range append(readVectors(t).texts, nasty...) {
				assert.Equal(t, s.split(t, text), tok.piecesOf(text), "%q", text)
			}
			rapid.Check(t, func(t *rapid.T) {
				text := genText.Draw(t, "text")
				assert.Equal(t, s.split(t, text), tok.piecesOf(text), "%q", text)
			})
		})
	}
}
