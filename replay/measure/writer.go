package measure

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Writer appends records as JSON lines. Write only encodes into memory; a goroutine carries what has gathered to
// the file, at the latest a quarter of a second after it was written.
type Writer struct {
	out  io.Writer
	file io.Closer // nil: nothing to close

	mu     sync.Mutex
	room   sync.Cond // buf has become shorter
	buf    []byte    // encoded, not yet taken by the goroutine
	err    error     // the first one
	closed bool
	limit  int // of buf: what is longer makes Write wait

	wake chan struct{} // buf has grown long, or the writer is closed
	done chan struct{} // the goroutine has ended
}

const (
	flushSize  = 256 << 10
	flushEvery = 250 * time.Millisecond
	maxWaiting = 64 << 20 // a disk that falls this far behind makes Write wait
)

// ErrClosed is returned by Write after Close.
var ErrClosed = errors.New("record writer is closed")

// Create returns a writer to a new file: one that is there is an error. The caller must call Close.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("record file: %w", err)
	}
	return NewWriter(f), nil
}

// NewWriter returns a writer to an open file, which it closes. The caller must call Close.
func NewWriter(file io.WriteCloser) *Writer { return newWriter(file, file) }

func newWriter(out io.Writer, file io.Closer) *Writer {
	w := &Writer{out: out, file: file, wake: make(chan struct{}, 1), done: make(chan struct{}), limit: maxWaiting}
	w.room.L = &w.mu
	go w.carry()
	return w
}

// Write adds a record. It does not wait for the disk, unless 64 MiB wait for it already. The error is the first
// one that writing met, maybe of an earlier record; records after an error are dropped.
func (w *Writer) Write(r *Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf) >= w.limit && w.err == nil && !w.closed {
		w.room.Wait()
	}
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return ErrClosed
	}
	w.buf = append(r.AppendJSON(w.buf), '\n')
	if len(w.buf) >= flushSize {
		w.nudge()
	}
	return nil
}

// Close writes what is left, closes a file of the writer's own, and returns the first error of the writer's life.
// It may be called again.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.nudge()
	w.room.Broadcast()
	w.mu.Unlock()
	<-w.done
	return w.err // the goroutine has ended: nobody else writes it
}

func (w *Writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// carry is the goroutine: it swaps the buffer for an empty one and writes it while the next one fills.
func (w *Writer) carry() {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var full []byte
	for closed := false; !closed; {
		select {
		case <-w.wake:
		case <-tick.C:
		}
		w.mu.Lock()
		full, w.buf = w.buf, full[:0]
		closed = w.closed
		w.room.Broadcast()
		w.mu.Unlock()
		if len(full) > 0 {
			_, err := w.out.Write(full)
			w.fail(err)
		}
	}
	if w.file != nil {
		w.fail(w.file.Close())
	}
}

// fail notes the first error.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("writing records: %w", err)
		w.room.Broadcast()
	}
}
