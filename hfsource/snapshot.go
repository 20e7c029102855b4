package hfsource

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agentx/agentx/hfsource/hub"
)

// FileFormat says how rows are stored in a file. The zero value is one JSON value in the file.
type FileFormat struct {
	Lines       bool   // one JSON value per line
	Compression string // "", "zst" or "gz"
	Parquet     bool
}

// formats lists the file names that are read, by suffix.
var formats = []struct {
	suffix string
	format FileFormat
}{
	{".jsonl.zst", FileFormat{Lines: true, Compression: "zst"}}, {".jsonl.gz", FileFormat{Lines: true, Compression: "gz"}}, {".jsonl", FileFormat{Lines: true}},
	{".json.zst", FileFormat{Compression: "zst"}}, {".json.gz", FileFormat{Compression: "gz"}}, {".json", FileFormat{}},
	{".parquet", FileFormat{Parquet: true}},
}

// formatOf returns the format of a file name.
func formatOf(name string) (FileFormat, bool) {
	for _, f := range formats {
		if strings.HasSuffix(name, f.suffix) {
			return f.format, true
		}
	}
	return FileFormat{}, false
}

// File is one file of a snapshot.
type File struct {
	Path   string // for messages
	Format FileFormat
	Size   int64  // bytes, as stored
	SHA256 string // of the file as stored, 64 hex digits
	Split  string // of a dataset of the hub that was asked for as a whole: the same for all its files; else ""

	// LacksChecksums is set by Rows: a part of the file has no checksum in the file, so that damage from before it was
	// hashed can go unnoticed.
	LacksChecksums bool

	open       func() (io.ReadCloser, error)
	changedErr error // replaces ErrChanged for a file of the hub; else nil
}

// FromHub reports whether the file belongs to a dataset of the hub, so that SHA256 is the digest that the hub names.
func (f *File) FromHub() bool { return f.changedErr != nil }

// changedError returns the error about a file whose content differs from its digest.
func (f *File) changedError() error {
	err := f.changedErr
	if err == nil {
		err = ErrChanged
	}
	return fmt.Errorf("input %s: %w", f.Path, err)
}

// Snapshot is the resolved inputs: files in order, with their content fixed by digests.
type Snapshot struct {
	Files    []File
	Skipped  []SkippedEntry // entries of directories that are not read
	Datasets []Dataset      // of the hub
	Memory   *MemoryBudget  // for rows in flight; nil: Rows creates one

	tempFiles    []*os.File // without a name
	hubSnapshots []*hub.Snapshot
}

// Bytes returns the size of all files, as stored.
func (s *Snapshot) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// Slice returns the files from to to-1 as a snapshot of their own, numbered from 0. It stays valid until s is closed.
func (s *Snapshot) Slice(from, to int) *Snapshot { return &Snapshot{Files: s.Files[from:to:to]} }

// Close closes the files, and removes temporary ones.
func (s *Snapshot) Close() error {
	var errs []error
	for _, h := range s.hubSnapshots {
		errs = append(errs, h.Close())
	}
	for _, f := range s.tempFiles {
		errs = append(errs, f.Close())
	}
	s.hubSnapshots, s.tempFiles = nil, nil
	return errors.Join(errs...)
}
