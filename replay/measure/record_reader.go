package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/internal/regular"
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
			return fmt.Errorf("longer than %d bytes: this is no record", maxLine)
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
