package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// Runs of more than 30 marks get no joiner, which package norm puts in.
func TestNFCOfManyMarks(t *testing.T) {
	marks := func(m string, n int) string { return strings.Repeat(m, n) }
	assert.Equal(t, "á"+marks("\u0316", 40)+marks("\u0301", 39), nfc("a"+marks("\u0316\u0301", 40)))
	blocked := "a\u0310\u0301" // of one class: the second is not joined over the first
	assert.Equal(t, blocked+marks("\u0301", 33), nfc(blocked+marks("\u0301", 33)))
	assert.Equal(t, marks("\u0316", 40)+" ét", nfc(marks("\u0316", 40)+" e\u0301t"))
	assert.Equal(t, "가\u034f"+marks("\u0323", 33), nfc("\u1100\u1161\u034f"+marks("\u0323", 33)))
}

// The plain way is that of package norm, where there are few marks.
func TestNFCIsThatOfNorm(t *testing.T) {
	letters := rapid.SampledFrom([]rune("aeEuUoǅßÅA\u1100\u1161\u11a8가각 \u0301\u0300\u0316\u0323\u030a\u0304\u0307\u0310ﬁ\u0344\u0958q\u0f73"))
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(letters, 0, 20).Draw(t, "text"))
		want := norm.NFC.String(text)
		assert.Equal(t, want, compose(decompose(text)))
		assert.Equal(t, want, nfc(text))
	})
}
