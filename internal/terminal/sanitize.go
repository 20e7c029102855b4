// Package terminal is how lines reach a terminal: texts from outside made safe, a block of lines that is written over.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/manifest"
)

// Sanitize makes a text from outside, such as a file name, safe for a terminal. It escapes control characters, characters
// that change the direction of text, invisible characters and bytes that are not UTF-8, as \u202e. Other text stays as it is.
func Sanitize(text string) string {
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

// Writer sanitizes every line of the results for people. Paths for scripts, on last lines, do not go through it.
func Writer(w io.Writer) io.Writer { return sanitizer{w} }

type sanitizer struct{ w io.Writer }

func (l sanitizer) Write(p []byte) (int, error) {
	parts := strings.Split(string(p), "\n")
	for k := range parts {
		parts[k] = Sanitize(parts[k])
	}
	if _, err := io.WriteString(l.w, strings.Join(parts, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Say writes a sanitized line to standard error. It leaves the middle of a very long line out.
func Say(w io.Writer, line string) { fmt.Fprintln(w, Sanitize(manifest.ClipTo(line, maxLine))) }

// maxLine bounds a line of standard error, in bytes: a name in the input may have megabytes.
const maxLine = 4000

// JSON writes a value as one line of JSON.
func JSON(w io.Writer, v any) error { return writeJSON(w, v, "") }

// IndentedJSON writes a value as JSON for people.
func IndentedJSON(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

func writeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// Cut shortens a line to the columns of a terminal; 0: there is none.
func Cut(line string, columns int) string {
	if runes := []rune(line); columns > 0 && len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return line
}
