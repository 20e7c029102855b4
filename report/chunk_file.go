package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/wire"
)

// chunkFile reads the instants of the content messages of requests, a request at a time: of a run from one file, of a load from one of
// each part, which count as one behind the other. Requests that ended at about the same time lie together in a file, so it keeps
// pages of each.
type chunkFile struct {
	files    []contentsFile
	buffer   []byte
	pageSize int64
	pages    []page // those of a file in places of its own, as many as of the others
}

// contentsFile is a file of instants.
type contentsFile struct {
	path string
	file *os.File // nil: there is none
	from int64    // bytes of the files before
}

// page is a part of a file.
type page struct {
	number int64
	data   []byte // shorter at the end of the file; nil: not read
}

const (
	keptPages   = 32
	keptBytes   = keptPages << 16 // of all pages, unless there are more than half as many files
	minPageSize = 4 << 10
)

// openChunks opens the instants of content messages of a run. damage is why they are not known, nil if they are.
func openChunks(paths []string, damage error) (*chunkFile, error) {
	c := newChunks(make([]contentsFile, len(paths)))
	if damage != nil {
		c.files = nil
		return c, nil
	}
	from := int64(0)
	for k, path := range paths {
		c.files[k] = contentsFile{path: path, from: from}
		file, err := regular.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // no record has content messages
			continue
		}
		var info fs.FileInfo
		if err == nil {
			c.files[k].file = file
			info, err = file.Stat()
		}
		if err != nil {
			c.close()
			return nil, err
		}
		from += info.Size()
	}
	return c, nil
}

// newChunks returns a reader of files, with room for at least two pages of each.
func newChunks(files []contentsFile) *chunkFile {
	n := max(1, len(files))
	each := max(2, keptPages/n)
	return &chunkFile{files: files, pages: make([]page, n*each), pageSize: int64(max(minPageSize, keptBytes/(n*each)))}
}

func (c *chunkFile) known() bool {
	for _, f := range c.files {
		if f.file != nil {
			return true
		}
	}
	return false
}

// another returns a reader of the same files, for another goroutine.
func (c *chunkFile) another() *chunkFile { return newChunks(c.files) }

func (c *chunkFile) close() {
	for _, f := range c.files {
		if f.file != nil {
			f.file.Close()
		}
	}
}

// of returns the content messages of a request: none where they are not known. They are valid until the next call.
func (c *chunkFile) of(r *row) (wire.Contents, error) {
	if !c.known() || r.packed == 0 {
		return wire.Contents{}, nil
	}
	if cap(c.buffer) < int(r.packed) {
		c.buffer = make([]byte, r.packed)
	}
	c.buffer = c.buffer[:r.packed]
	k := sort.Search(len(c.files), func(k int) bool { return c.files[k].from > r.contents }) - 1
	at := r.contents - c.files[k].from
	err := c.read(c.buffer, k, at)
	if err != nil {
		return wire.Contents{}, fmt.Errorf("%s: byte %d: %w", c.files[k].path, at, err)
	}
	contents, err := wire.UnpackContents(c.buffer)
	if err != nil {
		return contents, fmt.Errorf("%s: byte %d: %w", c.files[k].path, at, err)
	}
	return contents, nil
}

// read fills a buffer with the bytes of file k from one on.
func (c *chunkFile) read(b []byte, k int, at int64) error {
	each := len(c.pages) / len(c.files)
	for len(b) > 0 {
		number := at / c.pageSize
		p := &c.pages[k*each+int(number%int64(each))]
		if p.data == nil || p.number != number {
			if err := p.load(c.files[k].file, number, c.pageSize); err != nil {
				return err
			}
		}
		from := at % c.pageSize
		if from >= int64(len(p.data)) {
			return io.ErrUnexpectedEOF
		}
		n := copy(b, p.data[from:])
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// load reads a page.
func (p *page) load(file *os.File, number, size int64) error {
	if int64(cap(p.data)) < size {
		p.data = make([]byte, size)
	}
	n, err := file.ReadAt(p.data[:size], number*size)
	if err != nil && !errors.Is(err, io.EOF) {
		p.data = nil
		return err
	}
	p.number, p.data = number, p.data[:n]
	return nil
}
