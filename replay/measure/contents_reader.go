package measure

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/wire"
)

// contentsReader reads a ContentsFile. After an error every further entry is empty.
type contentsReader struct {
	path  string
	file  *os.File // nil: there is none
	in    *bufio.Reader
	left  int64 // bytes after the entry read last
	size  int64
	entry []byte // read last
	err   error  // the first
	asked bool   // an entry was needed
}

// openContents opens the contents of a run, and reads so many bytes of them at a time.
func openContents(dir string, buffer int) contentsReader {
	c := contentsReader{path: filepath.Join(dir, ContentsFile)}
	if c.file, c.err = regular.Open(c.path); c.err != nil {
		if errors.Is(c.err, fs.ErrNotExist) {
			c.err = fmt.Errorf("%s: there is no such file", c.path)
		}
		return c
	}
	info, err := c.file.Stat()
	if err != nil {
		c.err = err
		return c
	}
	c.in, c.size, c.left = bufio.NewReaderSize(c.file, buffer), info.Size(), info.Size()
	return c
}

// next returns the entry of the next record that has content messages, and how many it must have. It is valid until the next call.
func (c *contentsReader) next(messages int) wire.Contents {
	c.asked = true
	if c.err != nil {
		return wire.Contents{}
	}
	at := c.size - c.left
	contents, err := c.read(messages)
	if err != nil {
		c.err = fmt.Errorf("%s: byte %d: %w", c.path, at, err)
		return wire.Contents{}
	}
	return contents
}

// problem returns why an entry that was needed could not be read; nil if all could.
func (c *contentsReader) problem() error {
	if !c.asked {
		return nil
	}
	return c.err
}

func (c *contentsReader) read(messages int) (none wire.Contents, err error) {
	length, err := binary.ReadUvarint(c)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return none, errors.New("the file ends before the entry of a record")
	case err != nil:
		return none, err
	case length > uint64(c.left):
		return none, fmt.Errorf("an entry of %d bytes, where %d are left: the file is cut off or damaged", length, c.left)
	}
	c.entry = append(c.entry[:0], make([]byte, length)...)
	if _, err := io.ReadFull(c.in, c.entry); err != nil {
		return none, err
	}
	c.left -= int64(length)
	contents, err := wire.UnpackContents(c.entry)
	if n := contents.Len(); err == nil && n != messages && length > 0 {
		err = fmt.Errorf("an entry of %d content messages, where the record has %d: the file is damaged or that of another run", n, messages)
	}
	return contents, err
}

// ReadByte reads one byte of the length of an entry.
func (c *contentsReader) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.left--
	}
	return b, err
}

func (c *contentsReader) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
