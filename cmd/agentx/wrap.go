package main

import (
	"io"
	"strings"
)

// helpColumns returns how wide help is: as the terminal, at most 100; 80 for another writer.
func helpColumns(w io.Writer) int {
	if n := terminalWidth(w); n > 0 {
		return min(n, 100)
	}
	return 80
}

// wrapHelp breaks the lines of help that are longer than some columns. Lines of a paragraph are joined first. A line that is indented goes on
// below its second column, and a command as the shell takes it.
func wrapHelp(text string, columns int) string {
	var b strings.Builder
	paragraph := ""
	end := func() {
		if paragraph != "" {
			wrapLine(&b, paragraph, columns, "", "")
		}
		paragraph = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			end()
			b.WriteByte('\n')
		case line[0] != ' ' && line[0] != '\t':
			paragraph = strings.TrimSpace(paragraph + " " + line)
			if strings.HasSuffix(line, ":") {
				end()
			}
		default:
			end()
			hang, more := secondColumn(line), ""
			if hang == 0 {
				if hang = len(line) - len(strings.TrimLeft(line, " ")); hang < 4 {
					hang += 4
				}
				if strings.HasPrefix(strings.TrimLeft(line, " "), "agentx ") {
					hang, more = hang+2, ` \`
				}
			}
			wrapLine(&b, line, columns, strings.Repeat(" ", min(hang, max(columns-30, columns/2))), more)
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
