// Package terminal writes lines to a terminal: it makes texts from outside safe, and overwrites a block of lines in place.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/lazyregexp"
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
func Say(w io.Writer, line string) { fmt.Fprintln(w, Sanitize(bytefmt.ClipTo(line, maxLine))) }

// maxLine bounds a line of standard error, in bytes: a name in the input may have megabytes.
const maxLine = 4000

// JSON writes a value as one line of JSON.
func JSON(w io.Writer, v any) error { return writeJSON(w, v, "") }

// IndentedJSON writes a value as JSON for people.
func IndentedJSON(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

// writeJSON writes a value as JSON without escapes for HTML.
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

// Block is a few lines at the bottom of a terminal that are written over. It writes each change at once, and erases only what is
// left of a longer line, so nothing flickers. It has no colours.
type Block struct {
	W     io.Writer
	Size  func() (columns, rows int) // of the terminal; 0: not known
	lines []string                   // on the terminal
}

const (
	eraseLine = "\x1b[K" // to its end
	eraseDown = "\x1b[J" // from the cursor on
)

// Draw replaces the lines. text returns them for a number of columns.
func (b *Block) Draw(text func(columns int) []string) {
	columns, rows := b.Size()
	if columns <= 0 {
		columns = 80
	}
	lines := text(columns - 1) // a full line would wrap on some terminals
	if rows > 0 && len(lines) >= rows {
		lines = lines[:max(0, rows-1)]
	}
	var out strings.Builder
	out.WriteString(b.top(columns))
	for _, line := range lines {
		out.WriteString(line + eraseLine + "\r\n")
	}
	if len(lines) < len(b.lines) {
		out.WriteString(eraseDown)
	}
	b.lines = lines
	_, _ = io.WriteString(b.W, out.String()) // a terminal that is gone is no error of the run
}

// Above writes a line above the block.
func (b *Block) Above(print func(io.Writer)) {
	lines := b.lines
	var out strings.Builder
	out.WriteString(b.erased())
	print(&out)
	for _, line := range lines {
		out.WriteString(line + "\r\n")
	}
	b.lines = lines
	_, _ = io.WriteString(b.W, out.String())
}

// Erase removes the block.
func (b *Block) Erase() { _, _ = io.WriteString(b.W, b.erased()) }

func (b *Block) erased() string {
	columns, _ := b.Size()
	text := b.top(columns)
	if len(b.lines) > 0 {
		text += eraseDown
	}
	b.lines = nil
	return text
}

// top moves the cursor to the first line of the block. A terminal that has become narrower has wrapped its lines.
func (b *Block) top(columns int) string {
	up := 0
	for _, line := range b.lines {
		up++
		if columns > 0 {
			up += max(0, utf8.RuneCountInString(line)-1) / columns
		}
	}
	if up == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", up)
}

var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Word returns a text as a shell reads it as one word.
func Word(text string) string {
	if plainWord().MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Wrap breaks the lines of help that are longer than some columns. Lines of a paragraph are joined first, and so are those of a second
// column. A line that is indented goes on below its second column, and a command as the shell takes it.
func Wrap(text string, columns int) string {
	var b strings.Builder
	var pending, more string // a paragraph, or a row
	var indent, second, hang int
	end := func() {
		if pending != "" {
			wrapLine(&b, pending, columns, strings.Repeat(" ", min(hang, max(columns-30, columns/2))), more)
		}
		pending, more, indent, second, hang = "", "", 0, 0, 0
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		words := strings.TrimLeft(line, " \t")
		depth, column := len(line)-len(words), secondColumn(line)
		switch {
		case line == "":
			end()
			b.WriteByte('\n')
		case pending != "" && column == 0 && (depth == 0 && indent == 0 || second > 0 && depth > indent+4):
			pending += " " + words
		default:
			end()
			pending, indent, second, hang = line, depth, column, column
			if depth > 0 && column == 0 {
				if hang = depth; hang < 4 {
					hang += 4
				}
				if strings.HasPrefix(words, "agentx ") {
					hang, more = hang+2, ` \`
				}
			}
		}
		if depth == 0 && strings.HasSuffix(line, ":") {
			end()
		}
	}
	end()
	return b.String()
}

// secondColumn returns where the second column of a line begins: behind the first blanks that are more than one; 0: there is none.
func secondColumn(line string) int {
	words := strings.TrimLeft(line, " ")
	indent := len(line) - len(words)
	gap := strings.Index(words, "  ")
	if gap < 0 {
		return 0
	}
	return indent + gap + len(words[gap:]) - len(strings.TrimLeft(words[gap:], " "))
}

// wrapLine writes a line as lines of some columns at most, if its words are no longer. Those after the first begin with hang, the others end
// with more.
func wrapLine(b *strings.Builder, line string, columns int, hang, more string) {
	for len(line) > columns {
		body := len(line) - len(strings.TrimLeft(line, " "))
		at := strings.LastIndexByte(line[:columns+1-len(more)], ' ')
		if at <= body || strings.TrimSpace(line[:at]) == "" || at <= len(hang) {
			if at = strings.IndexByte(line[max(body, len(hang)):], ' '); at < 0 {
				break
			}
			at += max(body, len(hang))
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + more + "\n")
		line = hang + strings.TrimLeft(line[at:], " ")
	}
	b.WriteString(line + "\n")
}
