package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// chunkFile reads the instants of the content messages of requests, a request at a time.
type chunkFile struct {
	path   string
	file   *os.File // nil: they are not known
	buffer []byte
}

// openChunks opens the instants of content messages of a run. damage is why they are not known, nil if they are.
func openChunks(dir string, damage error) (*chunkFile, error) {
	c := &chunkFile{path: filepath.Join(dir, measure.ContentsFile)}
	if damage != nil {
		return c, nil
	}
	file, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) { // no record has content messages
		return c, nil
	}
	c.file = file
	return c, err
}

func (c *chunkFile) known() bool { return c.file != nil }

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
	_, err := c.file.ReadAt(c.buffer, r.contents)
	if err != nil {
		return wire.Contents{}, fmt.Errorf("%s: byte %d: %w", c.path, r.contents, err)
	}
	contents, err := wire.UnpackContents(c.buffer)
	if err != nil {
		return contents, fmt.Errorf("%s: byte %d: %w", c.path, r.contents, err)
	}
	return contents, nil
}
