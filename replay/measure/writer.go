package measure

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Writer appends records to a file as JSON lines. Write encodes into memory; a goroutine flushes the buffer to the file when it
// is long, or every quarter of a second. All methods may be called by many goroutines at once.
type Writer struct {
	file io.WriteCloser

	mu     sync.Mutex
	room   sync.Cond // signals that buf has become shorter
	buf    []byte    // encoded records that the goroutine has not taken yet
	err    error     // the first error
	closed bool
	limit  int // bytes of buf from which Write waits

	wake chan struct{} // tells the goroutine that buf is long or the writer closed
	done chan struct{} // closed when the goroutine has ended
}

const (
	flushSize  = 256 << 10 // bytes
	flushEvery = 250 * time.Millisecond
	maxWaiting = 64 << 20 // bytes by which a slow disk may fall behind
)

// Create creates a file and returns a writer to it. A file that exists is an error that wraps fs.ErrExist. The caller must call
// Close.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("record file: %w", err)
	}
	return NewWriter(f), nil
}

// NewWriter returns a writer to an open file, which Close closes. The caller must call Close.
func NewWriter(file io.WriteCloser) *Writer {
	w := &Writer{file: file, wake: make(chan struct{}, 1), done: make(chan struct{}), limit: maxWaiting}
	w.room.L = &w.mu
	go w.flushLoop()
	return w
}

// Write adds a record. It waits for the disk only when 64 MiB are not flushed yet. The error is the first error of the writer,
// maybe of an earlier record; records after it are dropped.
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
		w.signal()
	}
	return nil
}

// Close flushes the buffer, closes the file and returns the first error of the writer. It may be called again.
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

// flushLoop is the goroutine: it swaps the buffer for an empty one and writes it while the other fills.
func (w *Writer) flushLoop() {
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
			_, err := w.file.Write(full)
			w.fail(err)
		}
	}
	w.fail(w.file.Close())
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
