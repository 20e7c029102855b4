package journal

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/agentx/agentx/internal/durable"
)

// Writer writes a journal: one write for each line. After an error it writes nothing more, so that the file ends with at most
// one torn line, and every method returns that error. It is safe for concurrent use.
type Writer struct {
	path   string
	disk   disk
	closed func() // the folder forgets it

	mu    sync.Mutex
	file  *os.File // nil while nothing is written
	used  bool     // since the last call of rest
	line  []byte
	dirty bool
	err   error
}

// Options says how journals are written. The zero value syncs when Sync is called.
type Options struct {
	SyncEach bool // sync after each line, which costs a disk's latency each time
}

// disk changes the disk, with the faults that tests inject.
type disk struct {
	own Options
	durable.Options
}

func (d disk) step(name, path string) error {
	if d.Step == nil {
		return nil
	}
	if err := d.Step(name, path); err != nil {
		return fmt.Errorf("%s %s: %w", name, path, err)
	}
	return nil
}

// create creates a journal and writes its head.
func create(path string, h Head, d disk) (*Writer, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if err := d.step("create", path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, disk: d, file: file}
	err = w.Write(h)
	if err == nil {
		err = w.Sync()
	}
	if err != nil { // nothing is recorded, so that nothing is left to be finished
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return w, nil
}

// Err returns the error after which nothing was written.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Write writes a line. Behind the final one comes Close, which syncs.
func (w *Writer) Write(e Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.line = e.append(w.line)
	w.used = true
	if w.file == nil {
		if w.file, w.err = os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0); w.err != nil {
			return w.err
		}
	}
	if w.err = w.disk.step("write", w.path); w.err == nil {
		_, w.err = w.file.Write(w.line)
	}
	w.dirty = true
	if w.err == nil && w.disk.own.SyncEach {
		w.err = w.sync()
	}
	return w.err
}

// Sync forces what was written to disk. It does nothing where nothing was written since.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.dirty {
		w.err = w.sync()
	}
	return w.err
}

func (w *Writer) sync() error {
	if err := w.disk.step("sync", w.path); err != nil {
		return err
	}
	w.dirty = false
	return w.file.Sync()
}

// rest closes the file of a journal that was synced and not written since the last call: sessions that are idle for hours take no
// descriptors from the traffic.
func (w *Writer) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && !w.used && !w.dirty && w.file != nil {
		w.err = w.file.Close()
		w.file = nil
	}
	w.used = false
}

// Close syncs and closes the file, which stays.
func (w *Writer) Close() error {
	err := w.Sync()
	if w.closed != nil {
		w.closed()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = os.ErrClosed
	}
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}

// Path returns where the journal lies.
func (w *Writer) Path() string { return w.path }
