package journal

import (
	"errors"
	"os"
	"sync"
)

// Writer writes a journal: one write for each line. After an error it writes nothing more, so that the file ends with at most
// one torn line, and every method returns that error. It is safe for concurrent use.
type Writer struct {
	folder *Folder
	path   string

	mu    sync.Mutex
	file  *os.File // nil while nothing is written
	used  bool     // since the last call of rest
	line  []byte
	dirty bool
	err   error
}

// Write writes a line. Behind the final one comes Close, which syncs.
func (w *Writer) Write(e Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.line = encode(w.line, e)
	w.used = true
	if w.file == nil {
		if w.file, w.err = os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0); w.err != nil {
			return w.err
		}
	}
	if w.err = w.folder.step("write", w.path); w.err == nil {
		_, w.err = w.file.Write(w.line)
	}
	w.dirty = true
	if w.err == nil && w.folder.syncEach {
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
	if err := w.folder.step("sync", w.path); err != nil {
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
	w.folder.mu.Lock()
	delete(w.folder.open, w)
	w.folder.mu.Unlock()
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
