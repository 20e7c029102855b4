package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Printer prints what is asked of texts.
type Printer struct {
	Tokenizer *Tokenizer
	Out       *bufio.Writer

	IDs    bool // the ids, not their number
	Decode bool // texts are ids, and their text is printed
	Lines  bool // every line is a text of its own
	JSON   bool // an object a text
	Named  bool // each text by its name
}

// Print prints what is asked of a text that is read.
func (t *Printer) Print(name string, r io.Reader) error {
	var err error
	switch {
	case t.Decode:
		err = t.writeText(r)
	case t.Lines:
		err = t.eachLine(name, r)
	default:
		err = t.one(name, r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// maxTextLine bounds a line of --lines, in bytes.
const maxTextLine = 64 << 20

func (t *Printer) eachLine(name string, r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxTextLine)
	n := 0
	for s.Scan() {
		n++
		if err := t.one(fmt.Sprintf("%s:%d", name, n), bytes.NewReader(s.Bytes())); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d bytes", n+1, maxTextLine)
	}
	return s.Err()
}

// one prints what is asked of one text. Its ids are written as they come.
func (t *Printer) one(name string, r io.Reader) error {
	tokens, between := 0, ""
	if t.IDs && t.JSON {
		t.Out.WriteString(`{"ids":[`)
	}
	size, err := t.Tokenizer.EncodeReader(r, func(ids []uint32) error {
		tokens += len(ids)
		for k := 0; t.IDs && k < len(ids); k++ {
			t.Out.WriteString(between)
			t.Out.Write(strconv.AppendUint(t.Out.AvailableBuffer(), uint64(ids[k]), 10))
			if between = " "; t.JSON {
				between = ","
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.end(name, tokens, size)
}

// end prints what follows the ids of a text.
func (t *Printer) end(name string, tokens int, size int64) (err error) {
	named := t.Named || t.Lines
	switch {
	case t.JSON:
		open, suffix := "{", ""
		if t.IDs {
			open = "],"
		}
		if named {
			quoted, _ := json.Marshal(name) // a string always marshals
			suffix = `,"name":` + string(quoted)
		}
		_, err = fmt.Fprintf(t.Out, "%s\"tokens\":%d,\"bytes\":%d%s}\n", open, tokens, size, suffix)
	case t.IDs:
		err = t.Out.WriteByte('\n')
	case t.Named:
		_, err = fmt.Fprintf(t.Out, "%d\t%s\n", tokens, name)
	default:
		_, err = fmt.Fprintln(t.Out, tokens)
	}
	return err
}

// writeText writes the bytes of ids. JSON lists of ids are read as well.
func (t *Printer) writeText(r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Split(scanIDs)
	for n := 1; s.Scan(); n++ {
		word := s.Text()
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return fmt.Errorf("id %d, %q: want whole numbers, with blanks, commas or line breaks between them", n, word[:min(len(word), 40)])
		}
		b, ok := t.Tokenizer.Bytes(uint32(id))
		if !ok {
			return fmt.Errorf("id %d, %s: %s has no such token (its ids are below %d)", n, word, t.Tokenizer.Name(), t.Tokenizer.Size())
		}
		if _, err := t.Out.Write(b); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a word of more than %d bytes: want ids", bufio.MaxScanTokenSize)
	}
	return s.Err()
}

// scanIDs is a split function for the words between blanks, commas, brackets and line breaks.
func scanIDs(data []byte, atEOF bool) (advance int, token []byte, err error) {
	const between = " \t\r\n,[]"
	from := 0
	for from < len(data) && strings.IndexByte(between, data[from]) >= 0 {
		from++
	}
	to := from
	for to < len(data) && strings.IndexByte(between, data[to]) < 0 {
		to++
	}
	switch {
	case to < len(data) || atEOF && to > from:
		return to, data[from:to], nil
	case atEOF:
		return len(data), nil, nil
	}
	return from, nil, nil
}
