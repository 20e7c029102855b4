// Package lines reads the lines of a text file, each with its number, and none that is longer than a limit.
package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
)

// limit is how many bytes a line may have: a row with the gaps between a million chunks has about 20 MB.
const limit = 64 << 20

// Line is a line without its end: LF or CRLF.
type Line struct {
	Number int // from 1
	Text   []byte
	Whole  bool // it has its end; the last line of a file may lack it
}

// Each yields the lines of a file. A text is valid until the next line. An error ends the lines and names the one at which it
// occurred.
func Each(file io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(file, 1<<16)
		var long []byte
		for n := 1; ; n++ {
			text, err := read(in, &long)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{Number: n}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			whole := err == nil
			if !whole && len(text) == 0 {
				return
			}
			if !yield(Line{n, trimEnd(text), whole}, nil) || !whole {
				return
			}
		}
	}
}

// read returns the next line with its end, in the memory of the reader if it fits, else in long.
func read(in *bufio.Reader, long *[]byte) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	for *long = (*long)[:0]; ; text, err = in.ReadSlice('\n') {
		if len(*long)+len(text) > limit {
			return nil, fmt.Errorf("longer than %d bytes", limit)
		}
		*long = append(*long, text...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return *long, err
		}
	}
}

// trimEnd removes the end of a line, LF or CR LF.
func trimEnd(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	return text
}
