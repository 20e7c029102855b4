// Package regular opens files that another program may have put in place. It takes regular files alone: opening a pipe would wait
// for its writer, and a device may never end.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file, or what a link to one names.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("no regular file (%s)", info.Mode().Type())}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Read reads a regular file of at most limit bytes. A longer one is an error that names it.
func Read(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("longer than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
