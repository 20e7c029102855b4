package measure

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/wire"
)

// RecordReader reads the files of a Writer, also those of a run that was killed.
type RecordReader struct {
	path     string
	file     *os.File
	in       *bufio.Reader
	line     []byte // read last, its line feed included
	n        int    // lines read
	torn     bool
	record   Record
	credits  credits
	contents contentsReader
}

// maxLine bounds the length of a line: a record has a few KB, and a message of 4 KiB at most.
const maxLine = 16 << 20

// OpenRecords opens the records in the directory of a run. A run without ContentsFile has records without instants of content
// messages. The caller must call Close.
func OpenRecords(dir string) (*RecordReader, error) { return OpenBuffered(dir, recordBuffer) }

// recordBuffer is how many bytes of records are read at a time.
const recordBuffer = 1 << 20

// OpenBuffered opens the records as OpenRecords does, and reads so many bytes of them at a time.
func OpenBuffered(dir string, buffer int) (*RecordReader, error) {
	r, err := OpenLines(dir, buffer)
	if err == nil {
		r.contents = openContents(dir, buffer/4)
	}
	return r, err
}

// OpenLines opens the records without the instants of their content messages, and reads so many bytes of them at a time.
func OpenLines(dir string, buffer int) (*RecordReader, error) {
	path := filepath.Join(dir, RecordsFile)
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	return &RecordReader{path: path, file: file, in: bufio.NewReaderSize(file, buffer), contents: contentsReader{err: errNoContents}}, nil
}

var errNoContents = errors.New("the instants of content messages are not read")

// Next returns the next record, and io.EOF at the end. The record is valid until the next call. An error names the file, the line,
// and the field whose value no run writes. A last line without a line feed, the part of a record that a killed run has written, is left out.
// After io.EOF a later call goes on with what was appended to the file.
func (r *RecordReader) Next() (*Record, error) {
	err := r.readLine()
	if err == io.EOF {
		r.torn = len(r.line) > 0
		return nil, io.EOF
	}
	r.n, r.torn = r.n+1, false
	if err == nil {
		r.record = Record{}
		err = parseRecord(r.line, &r.record)
	}
	if err == nil {
		err = r.record.check()
	}
	if err == nil {
		err = r.credits.add(&r.record)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: line %d: %w; no run writes this: restore the file, or cut it off before this line", r.path, r.n, err)
	}
	if r.record.Chunks > 0 {
		r.record.Contents = r.contents.next(r.record.Chunks)
	}
	return &r.record, nil
}

// readLine reads the next line into r.line, or the rest of one that is torn. After io.EOF the line has no line feed.
func (r *RecordReader) readLine() error {
	if !r.torn {
		r.line = r.line[:0]
	}
	for {
		part, err := r.in.ReadSlice('\n')
		r.line = append(r.line, part...)
		switch {
		case len(r.line) > maxLine:
			return fmt.Errorf("longer than %d bytes: not a record", maxLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// Torn reports, after the end, whether a last line without a line feed was left out.
func (r *RecordReader) Torn() bool { return r.torn }

// ContentsEnd returns where the entry of the record read last ends in ContentsFile: its packed bytes stand before.
func (r *RecordReader) ContentsEnd() int64 { return r.contents.size - r.contents.left }

// ContentsError returns why records have no instants of content messages from one on, although they have content messages; nil
// if all that were read have them.
func (r *RecordReader) ContentsError() error { return r.contents.problem() }

// Close closes the files.
func (r *RecordReader) Close() error { return errors.Join(r.file.Close(), r.contents.close()) }

// Records are the records of a run, one at a time: a RecordReader, or what joins those of the parts of a load.
type Records interface {
	// Next returns the next record, and io.EOF at the end. The record is valid until the next call.
	Next() (*Record, error)
	// Torn reports, after the end, whether a last line without a line feed was left out.
	Torn() bool
	// ContentsEnd returns where the entry of the record read last ends in ContentsFile, or in those of all parts one behind the other.
	ContentsEnd() int64
	// ContentsError returns why records have no instants of content messages; nil if all that were read have them.
	ContentsError() error
	Close() error
}

// All yields the records to their end, or to the first error. A record is valid until the next one.
func All(records Records) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			r, err := records.Next()
			if err == io.EOF || !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Move moves all instants of a record. Those that did not happen stay 0.
func (r *Record) Move(by Time) {
	for _, at := range []*Time{&r.Due, &r.Admitted, &r.Sent, &r.End} {
		*at += by
	}
	for _, at := range []*Time{
		&r.Acknowledged, &r.FirstToken, &r.SecondToken, &r.FirstOutput, &r.LastToken, &r.LastMessage, &r.CancelledAt, &r.Deadline,
		&r.WaitEnd, &r.ConnectStart, &r.ConnectEnd, &r.SendStart, &r.SendEnd, &r.FirstByte, &r.LastByte,
	} {
		if *at > 0 {
			*at += by
		}
	}
}

// credits are those of the records read so far. No run gives one twice in a phase.
type credits [2]ordinalSet

// add adds the credit of a record. An error says that another record of the phase has it.
func (c *credits) add(r *Record) error {
	set := &c[0]
	if r.Phase == WarmupPhase {
		set = &c[1]
	}
	if r.Credit < maxCredit && !set.add(r.Credit) {
		return fmt.Errorf("credit: %d: an earlier line of the phase %s has it: the file mixes records of two runs", r.Credit, r.Phase)
	}
	return nil
}

// maxCredit bounds the credits that are looked at: a run of so many requests has a terabyte of records.
const maxCredit = 1 << 30

// Follow reads the records in the directory of a run that is still writing them, in the order of its lines. After the last record that
// is whole it yields nil, and reads on at the next tick; the part of a line waits for its rest. When ctx ends it reads what the file has by
// then, yields nil and ends. A record is valid until the next one, and has no instants of content messages. An error ends it, too; so
// does one of a directory that has no RecordsFile yet.
//
// A Writer writes at least four times a second, so ticks closer than that find nothing new.
func Follow(ctx context.Context, dir string, tick <-chan time.Time) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		r, err := OpenLines(dir, recordBuffer)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for {
			ended := ctx.Err() != nil // before the read: what was written until then is read
			if !r.each(yield) || ended {
				return
			}
			select {
			case <-tick:
			case <-ctx.Done():
			}
		}
	}
}

// each yields the records up to the end of the file, then nil. It is false after an error, and when yield is.
func (r *RecordReader) each(yield func(*Record, error) bool) bool {
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return yield(nil, nil)
		}
		if !yield(record, err) || err != nil {
			return false
		}
	}
}

// contentsReader reads a ContentsFile. After an error every further entry is empty.
type contentsReader struct {
	path  string
	file  *os.File // nil: there is none
	in    *bufio.Reader
	left  int64 // bytes after the entry read last
	size  int64
	entry []byte // read last
	err   error  // the first
	asked bool   // an entry was needed
}

// openContents opens the contents of a run, and reads so many bytes of them at a time.
func openContents(dir string, buffer int) contentsReader {
	c := contentsReader{path: filepath.Join(dir, ContentsFile)}
	if c.file, c.err = regular.Open(c.path); c.err != nil {
		if errors.Is(c.err, fs.ErrNotExist) {
			c.err = fmt.Errorf("%s: there is no such file", c.path)
		}
		return c
	}
	info, err := c.file.Stat()
	if err != nil {
		c.err = err
		return c
	}
	c.in, c.size, c.left = bufio.NewReaderSize(c.file, buffer), info.Size(), info.Size()
	return c
}

// next returns the entry of the next record that has content messages, and how many it must have. It is valid until the next call.
func (c *contentsReader) next(messages int) wire.Contents {
	c.asked = true
	if c.err != nil {
		return wire.Contents{}
	}
	at := c.size - c.left
	contents, err := c.read(messages)
	if err != nil {
		c.err = fmt.Errorf("%s: byte %d: %w", c.path, at, err)
		return wire.Contents{}
	}
	return contents
}

// problem returns why an entry that was needed could not be read; nil if all could.
func (c *contentsReader) problem() error {
	if !c.asked {
		return nil
	}
	return c.err
}

// read reads the next entry. The error says how it does not fit the record, which has a number of messages.
func (c *contentsReader) read(messages int) (none wire.Contents, err error) {
	length, err := binary.ReadUvarint(c)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return none, errors.New("the file ends before the entry of a record")
	case err != nil:
		return none, err
	case length > uint64(c.left):
		return none, fmt.Errorf("an entry of %d bytes, where %d are left: the file is cut off or damaged", length, c.left)
	}
	c.entry = append(c.entry[:0], make([]byte, length)...)
	if _, err := io.ReadFull(c.in, c.entry); err != nil {
		return none, err
	}
	c.left -= int64(length)
	contents, err := wire.UnpackContents(c.entry)
	if n := contents.Len(); err == nil && n != messages && length > 0 {
		err = fmt.Errorf("an entry of %d content messages, where the record has %d: the file is damaged or that of another run", n, messages)
	}
	return contents, err
}

// ReadByte reads one byte of the length of an entry.
func (c *contentsReader) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.left--
	}
	return b, err
}

func (c *contentsReader) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
