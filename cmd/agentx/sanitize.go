package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/manifest"
)

// sanitize makes a text from outside, such as a file name, safe for a terminal. It escapes control characters, characters
// that change the direction of text, invisible characters and bytes that are not UTF-8, as \u202e. Other text stays as it is.
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

// isHidden reports whether a character cannot be seen. utf8.RuneError also stands for bytes that are not UTF-8.
func isHidden(c rune) bool { return !strconv.IsGraphic(c) || c == utf8.RuneError || isBlank(c) }

// isBlank reports whether a character that Unicode counts among letters or marks is drawn as nothing.
func isBlank(c rune) bool {
	switch c {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return false
}

// sanitizer sanitizes every line of the results for people. Paths for scripts, on last lines, do not go through it.
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

// printError writes a sanitized line to standard error. It leaves the middle of a very long line out.
func printError(w io.Writer, line string) { fmt.Fprintln(w, sanitize(manifest.ClipTo(line, maxLine))) }

// maxLine bounds a line of standard error, in bytes: a name in the input may have megabytes.
const maxLine = 4000
