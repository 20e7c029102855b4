// Package regular opens files that another program may have put in place. It takes regular files alone: opening a pipe would wait
// for its writer, and a device may never end.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file, or what a link to one names.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file (%s)", info.Mode().Type())}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ErrTooLong is about a file that is longer than Read may read.
var ErrTooLong = errors.New("too long")

// Read reads a regular file of at most limit bytes. The error about a longer one is ErrTooLong, with both numbers; nothing of it is read.
func Read(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	var data []byte
	if size <= limit {
		b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
		if _, err := b.ReadFrom(io.LimitReader(file, limit+1)); err != nil { // it may grow meanwhile
			return nil, err
		}
		data, size = b.Bytes(), int64(b.Len())
	}
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: %d bytes or more, want at most %d", ErrTooLong, size, limit)}
	}
	return data, nil
}
