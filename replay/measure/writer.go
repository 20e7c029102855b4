package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The files of a Writer.
const (
	RecordsFile  = "records.jsonl" // a line for each record
	ContentsFile = "contents.bin"  // an entry for each record with content messages, in the order of the lines
)

// Writer appends records to a file as JSON lines, and the instants of their content messages to a file beside it. Write encodes
// into memory; a goroutine flushes the buffers to the files when they are long, or every quarter of a second. It flushes the
// contents first, so a whole line always has its entry. All methods may be called by many goroutines at once.
type Writer struct {
	lines, contents io.WriteCloser

	mu     sync.Mutex
	room   sync.Cond // signals that the buffers have become shorter
	buf    buffers   // that the goroutine has not taken yet
	err    error     // the first error
	closed bool
	limit  int // bytes of buf from which Write waits

	wake chan struct{} // tells the goroutine that buf is long or the writer closed
	done chan struct{} // closed when the goroutine has ended
}

// buffers hold encoded records.
type buffers struct{ lines, contents []byte }

func (b *buffers) len() int { return len(b.lines) + len(b.contents) }

const (
	flushSize  = 256 << 10 // bytes
	flushEvery = 250 * time.Millisecond
	maxWaiting = 64 << 20 // bytes by which a slow disk may fall behind
)

// Create creates the files of a writer in a directory. One that exists is an error that wraps fs.ErrExist. The caller must call
// Close.
func Create(dir string) (*Writer, error) {
	lines, err := create(dir, RecordsFile)
	if err != nil {
		return nil, err
	}
	contents, err := create(dir, ContentsFile)
	if err != nil {
		return nil, errors.Join(err, lines.Close(), os.Remove(lines.Name()))
	}
	return NewWriter(lines, contents), nil
}

// create makes a file that does not exist yet.
func create(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("record file: %w", err)
	}
	return f, nil
}

// NewWriter returns a writer to two open files, which Close closes. The caller must call Close.
func NewWriter(lines, contents io.WriteCloser) *Writer {
	w := &Writer{lines: lines, contents: contents, wake: make(chan struct{}, 1), done: make(chan struct{}), limit: maxWaiting}
	w.room.L = &w.mu
	go w.flushLoop()
	return w
}

// Write adds a record. It waits for the disk only when 64 MiB are not flushed yet. The error is the first error of the writer,
// maybe of an earlier record; records after it are dropped.
func (w *Writer) Write(r *Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.buf.len() >= w.limit && w.err == nil && !w.closed {
		w.room.Wait()
	}
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return ErrClosed
	}
	w.buf.lines = append(r.AppendJSON(w.buf.lines), '\n')
	if r.Chunks > 0 {
		packed := r.Contents.Packed()
		w.buf.contents = binary.AppendUvarint(w.buf.contents, uint64(len(packed)))
		w.buf.contents = append(w.buf.contents, packed...)
	}
	if w.buf.len() >= flushSize {
		w.signal()
	}
	return nil
}

// Close flushes the buffers, closes the files and returns the first error of the writer. It may be called again.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.room.Broadcast()
	w.mu.Unlock()
	<-w.done
	return w.err // no lock: the goroutine, its last writer, has ended
}

// signal wakes the goroutine.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// flushLoop is the goroutine: it swaps the buffers for empty ones and writes them while the others fill.
func (w *Writer) flushLoop() {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var full buffers
	for closed := false; !closed; {
		select {
		case <-w.wake:
		case <-tick.C:
		}
		w.mu.Lock()
		full, w.buf = w.buf, buffers{full.lines[:0], full.contents[:0]}
		closed = w.closed
		w.room.Broadcast()
		w.mu.Unlock()
		w.fail(w.flush(full))
	}
	w.fail(errors.Join(w.contents.Close(), w.lines.Close()))
}

// flush writes the contents, then the lines that need them. After an error it writes nothing more.
func (w *Writer) flush(full buffers) error {
	if w.failed() || len(full.lines) == 0 {
		return nil
	}
	if len(full.contents) > 0 {
		if _, err := w.contents.Write(full.contents); err != nil {
			return err
		}
	}
	_, err := w.lines.Write(full.lines)
	return err
}

// failed reports whether something could not be written.
func (w *Writer) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// fail records the first error.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("writing records: %w", err)
		w.room.Broadcast()
	}
}

// ErrClosed is returned by Writer.Write after Close.
var ErrClosed = errors.New("record writer is closed")
