package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/manifest"
)

// sanitize writes a text that others have chosen, such as the name of a file, of a branch or of who pinned a cache, so that
// nothing in it acts on a terminal or hides: control characters, those that turn the direction of text, those that cannot
// be seen and bytes that are no text are escaped, as \u202e. All else stays as it is.
func sanitize(text string) string {
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for k, c := range text {
		if !isHidden(c) {
			b.WriteRune(c)
			continue
		}
		_, n := utf8.DecodeRuneInString(text[k:])
		quoted := strconv.QuoteToASCII(text[k : k+n])
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// isHidden reports whether a character is none that can be seen; utf8.RuneError stands for bytes that are no text, too.
func isHidden(c rune) bool { return !strconv.IsGraphic(c) || c == utf8.RuneError || isBlank(c) }

// isBlank reports whether a letter or mark, by its class, is drawn as nothing.
func isBlank(c rune) bool {
	switch c {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return false
}

// sanitizer is a writer of results for people: what is written to it is visible, line for line. A path that a script is to
// take from them does not go through it.
type sanitizer struct{ w io.Writer }

func (l sanitizer) Write(p []byte) (int, error) {
	parts := strings.Split(string(p), "\n")
	for k := range parts {
		parts[k] = sanitize(parts[k])
	}
	if _, err := io.WriteString(l.w, strings.Join(parts, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printError writes a line to standard error, without the middle of a very long one.
func printError(w io.Writer, line string) { fmt.Fprintln(w, sanitize(manifest.ClipTo(line, maxLine))) }

// maxLine bounds a line of standard error, in bytes. A name of the input may have megabytes.
const maxLine = 4000
