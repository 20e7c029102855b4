package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/agentx/agentx/internal/durable"
)

// Folder is the directory of a capture. One process at a time has it: lock is the lease. Open sessions lie in journal,
// finished ones in traces, what is to know of them in notes.
type Folder struct {
	dir      string
	syncEach bool // sync after each line, which costs a disk's latency each time
	disk     durable.Options
	lease    *durable.Lease

	mu   sync.Mutex
	open map[*Writer]bool
}

// Names in the directory of a capture.
const (
	lockDir    = "lock"
	journalDir = "journal"
	TracesDir  = "traces"
	NotesDir   = "notes"
	suffix     = ".jnl"
)

// ErrBusy is wrapped by the error of OpenFolder while another process has the directory.
var ErrBusy = errors.New("another process captures into it")

// OpenFolder takes the directory of a capture, which it creates where it is missing. It does not wait for another process, and removes what
// processes that were killed have left half written. Journals are synced after each line, or by Sync alone. ctx ends the lease, besides Close.
func OpenFolder(ctx context.Context, dir string, syncEach bool) (*Folder, error) {
	for _, name := range []string{lockDir, journalDir, TracesDir, NotesDir} {
		if err := durable.MkdirAll(dir, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	lease, err := durable.Acquire(ctx, filepath.Join(dir, lockDir), "capture", func() (bool, error) { return false, nil }, durable.Waiting{Limit: -1})
	if errors.Is(err, durable.ErrBusy) {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrBusy, err)
	} else if err != nil {
		return nil, err
	}
	for _, name := range []string{TracesDir, NotesDir} {
		ofTrace := func(file string) bool { return traceOf(file) != "" }
		if err := durable.RemoveUnfinished(filepath.Join(dir, name), ofTrace); err != nil {
			return nil, errors.Join(err, lease.Release())
		}
	}
	return &Folder{dir: dir, syncEach: syncEach, disk: durable.OptionsOf(ctx), lease: lease, open: map[*Writer]bool{}}, nil
}

// traceOf returns the trace that a file of this name is of; "" if it is of none.
func traceOf(file string) string {
	if trace, _, _ := strings.Cut(file, "."); traceName().MatchString(trace) {
		return trace
	}
	return ""
}

// Context ends when another process has taken the directory, because it saw no heartbeat of this one.
func (f *Folder) Context() context.Context { return f.lease.Context() }

// Dir returns the directory.
func (f *Folder) Dir() string { return f.dir }

// Close gives the directory back. Journals that are open stay open.
func (f *Folder) Close() error { return f.lease.Release() }

// Path returns where the journal of a trace lies.
func (f *Folder) Path(trace string) string { return filepath.Join(f.dir, journalDir, trace+suffix) }

// step lets a test fail a step that changes the disk.
func (f *Folder) step(name, path string) error {
	if f.disk.Step == nil {
		return nil
	}
	if err := f.disk.Step(name, path); err != nil {
		return fmt.Errorf("%s %s: %w", name, path, err)
	}
	return nil
}

// Create creates the journal of a session and writes its head. The journal is on disk, under its name, when Create returns.
func (f *Folder) Create(h Head) (*Writer, error) {
	path := f.Path(h.Trace)
	if err := cmp.Or(h.Validate(), f.step("create", path)); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{folder: f, path: path, file: file}
	err = w.Write(h)
	if err == nil {
		err = w.Sync()
	}
	if err == nil {
		err = f.syncDir(journalDir)
	}
	if err != nil { // nothing is recorded, so that nothing is left to be finished
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[w] = true
	return w, nil
}

// Sync forces to disk what was written to open journals, and closes the files of those that rest. Call it every --sync. The errors
// stay with their journals.
func (f *Folder) Sync() {
	f.mu.Lock()
	list := make([]*Writer, 0, len(f.open))
	for w := range f.open {
		list = append(list, w)
	}
	f.mu.Unlock()
	for _, w := range list {
		_ = w.Sync() // its next call returns the error
		w.rest()
	}
}

// syncDir forces to disk which names a directory of the folder has.
func (f *Folder) syncDir(name string) error {
	return f.disk.SyncDir(filepath.Join(f.dir, name))
}

// Traces lists the traces of which the folder has a file of any kind, some of them more than once.
func (f *Folder) Traces() (traces []string, err error) {
	for _, dir := range []string{journalDir, TracesDir, NotesDir} {
		if traces, err = f.list(traces, dir, ""); err != nil {
			return nil, err
		}
	}
	return traces, nil
}

// Unfinished lists the traces whose journals lie in the folder, sorted.
func (f *Folder) Unfinished() ([]string, error) { return f.list(nil, journalDir, suffix) }

// list appends the traces of the files of a directory: those whose names end with the suffix behind that of the trace, or all for "".
func (f *Folder) list(traces []string, dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, dir)) // sorted
	for _, e := range entries {
		if trace := traceOf(e.Name()); trace != "" && (suffix == "" || e.Name() == trace+suffix) {
			traces = append(traces, trace)
		}
	}
	return traces, err
}

// Remove removes the journal of a trace, whose trace and note are on disk. It does nothing where there is none.
func (f *Folder) Remove(trace string) error {
	path := f.Path(trace)
	if err := f.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.syncDir(journalDir)
}

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

// sync forces the file to disk. The lock is held.
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
