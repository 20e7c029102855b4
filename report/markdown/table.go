package markdown

import (
	"fmt"
	"strings"
	"unicode"
)

// table writes a table. Its first column is text, and so are the others but for figures.
type table struct{ b *strings.Builder }

// head writes the header of a table of texts.
func (t *table) head(cells ...string) {
	t.row(cells...)
	t.b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

// figures writes the header of a table whose columns but the first are figures.
func (t *table) figures(cells ...string) {
	t.row(cells...)
	t.b.WriteString("|---" + strings.Repeat("|---:", len(cells)-1) + "|\n")
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(t.b, "| %s ", c)
	}
	t.b.WriteString("|\n")
}

func (t *table) end() { t.b.WriteString("\n") }

// plain are the characters besides letters and digits that mean nothing in Markdown, nor in HTML.
const plain = " .,:;/-+%=()'?"

// longest bounds a text of a run, in characters.
const longest = 500

// Escape returns a text as it is shown, whatever it contains: nothing of it becomes markup, a cell, or another direction of writing.
func Escape(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			b.WriteString("...")
			break
		}
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(plain, r):
			b.WriteRune(r)
		case !unicode.IsPrint(r): // control characters, directions, line and paragraph separators
			b.WriteRune(unicode.ReplacementChar)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}
