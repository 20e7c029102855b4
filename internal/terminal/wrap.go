package terminal

import "strings"

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
