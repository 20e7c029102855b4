package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// chunkFile reads the instants of the content messages of requests, a request at a time. Requests that ended at about the same time
// lie together in the file, so it keeps pages of it.
type chunkFile struct {
	path   string
	file   *os.File // nil: they are not known
	buffer []byte
	pages  [keptPages]page // each in the place of its number modulo keptPages
}

// page is a part of a file.
type page struct {
	number int64
	data   []byte // shorter at the end of the file; nil: not read
}

const (
	keptPages = 32
	pageSize  = 64 << 10
)

// openChunks opens the instants of content messages of a run. damage is why they are not known, nil if they are.
func openChunks(dir string, damage error) (*chunkFile, error) {
	c := &chunkFile{path: filepath.Join(dir, measure.ContentsFile)}
	if damage != nil {
		return c, nil
	}
	file, err := regular.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) { // no record has content messages
		return c, nil
	}
	c.file = file
	return c, err
}

func (c *chunkFile) known() bool { return c.file != nil }

// another returns a reader of the same file, for another goroutine.
func (c *chunkFile) another() *chunkFile { return &chunkFile{path: c.path, file: c.file} }

func (c *chunkFile) close() {
	if c.file != nil {
		c.file.Close()
	}
}

// of returns the content messages of a request: none where they are not known. They are valid until the next call.
func (c *chunkFile) of(r *row) (wire.Contents, error) {
	if c.file == nil || r.packed == 0 {
		return wire.Contents{}, nil
	}
	if cap(c.buffer) < int(r.packed) {
		c.buffer = make([]byte, r.packed)
	}
	c.buffer = c.buffer[:r.packed]
	err := c.read(c.buffer, r.contents)
	if err != nil {
		return wire.Contents{}, fmt.Errorf("%s: byte %d: %w", c.path, r.contents, err)
	}
	contents, err := wire.UnpackContents(c.buffer)
	if err != nil {
		return contents, fmt.Errorf("%s: byte %d: %w", c.path, r.contents, err)
	}
	return contents, nil
}

// read fills a buffer with the bytes of the file from one on.
func (c *chunkFile) read(b []byte, at int64) error {
	for len(b) > 0 {
		p := &c.pages[at/pageSize%keptPages]
		if p.data == nil || p.number != at/pageSize {
			if err := p.load(c.file, at/pageSize); err != nil {
				return err
			}
		}
		from := at % pageSize
		if from >= int64(len(p.data)) {
			return io.ErrUnexpectedEOF
		}
		n := copy(b, p.data[from:])
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// load reads a page.
func (p *page) load(file *os.File, number int64) error {
	if cap(p.data) < pageSize {
		p.data = make([]byte, pageSize)
	}
	n, err := file.ReadAt(p.data[:pageSize], number*pageSize)
	if err != nil && !errors.Is(err, io.EOF) {
		p.data = nil
		return err
	}
	p.number, p.data = number, p.data[:n]
	return nil
}
