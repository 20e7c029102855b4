package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSanitize(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"traces/päth 中 é e\u0301 👩.jsonl": "traces/päth 中 é e\u0301 👩.jsonl",
		"a \"quoted\" \\ name":            `a "quoted" \ name`,
		"a\x1b[2Jb":                       `a\x1b[2Jb`,
		"a\r\nb\tc\x00\x7f":               `a\r\nb\tc\x00\x7f`,
		"a\u009bb":                        `a\u009bb`,
		"a\u202etxt.exe":                  `a\u202etxt.exe`,
		"\u2066a\u2069\u200f":             `\u2066a\u2069\u200f`,
		"a\u200bb\u2060c\ufeff\u00ad":     `a\u200bb\u2060c\ufeff\u00ad`,
		"a\u2028b":                        `a\u2028b`,
		"\u3164\u2800\u115f":              `\u3164\u2800\u115f`,
		"a\U000e0041b":                    `a\U000e0041b`,
		"a\xffb":                          `a\xffb`,
	} {
		assert.Equal(t, want, Sanitize(text))
		assert.Equal(t, want, Sanitize(want), "what is visible stays")
	}
	var out strings.Builder
	n, err := Writer(&out).Write([]byte("a\u202e\nb\n"))
	require.NoError(t, err)
	assert.Equal(t, len("a\u202e\nb\n"), n)
	assert.Equal(t, "a\\u202e\nb\n", out.String())
}
