package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

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
