package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// row has the numbers of one record. Of a run that was played as the harness plays, End is when its last message came.
type row struct {
	measure.Numbers
	measure.Transfer

	rowEnd measure.Time // when it ends in a row of the harness, of a run that was played as that plays
	done   measure.Time // when the client was done with it

	contents int64 // where the packed instants of the content messages begin in their file
	packed   int32 // bytes of these; 0: there are none

	failed bool
	good   bool // it meets the service levels
	apart  bool // it failed, and is counted apart: cancelled, or it did not fit the context

	noContent bool // it failed because its answer was complete and had no content
}

const (
	never   = 0 // instants of a record are 0 where they did not happen
	unknown = measure.Unknown
)

// newRow returns the numbers of a record.
func newRow(r *measure.Record) row {
	x := row{Numbers: r.Numbers, Transfer: r.Transfer, done: r.End, failed: r.Error != nil}
	if x.failed {
		x.apart = r.Error.Category == wire.Cancelled || r.Error.Category == wire.ContextOverflow
		x.noContent = r.Error.Category == wire.NoContent
	}
	return x
}

// rows are the numbers of many records, in blocks, so that growing copies none.
type rows struct {
	blocks [][]row
	n      int
}

const rowsOfBlock = 4096

// add adds the numbers of a record.
func (r *rows) add(x row) {
	if r.n%rowsOfBlock == 0 {
		r.blocks = append(r.blocks, make([]row, 0, rowsOfBlock))
	}
	last := len(r.blocks) - 1
	r.blocks[last] = append(r.blocks[last], x)
	r.n++
}

// each calls visit for every row of several sets.
func each(sets []*rows, visit func(r *row)) {
	for _, s := range sets {
		for _, block := range s.blocks {
			for k := range block {
				visit(&block[k])
			}
		}
	}
}

// chunkFile reads the instants of the content messages of one request at a time. A run has one file of them, a load one for each part,
// which count as one file. It keeps nothing: the system caches what was read a moment ago.
type chunkFile struct {
	files  []contentsFile
	buffer []byte
}

// contentsFile is a file of instants.
type contentsFile struct {
	path string
	file *os.File // nil: there is none
	from int64    // bytes of all files before this one
}

// openChunks opens the instants of content messages of a run. damage is why they are not known, nil if they are.
func openChunks(paths []string, damage error) (*chunkFile, error) {
	c := &chunkFile{}
	if damage != nil {
		return c, nil
	}
	from := int64(0)
	for _, path := range paths {
		one := contentsFile{path: path, from: from}
		file, err := regular.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // no record has content messages
			c.files = append(c.files, one)
			continue
		}
		var info fs.FileInfo
		if err == nil {
			one.file = file
			c.files = append(c.files, one)
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

// known reports whether any instants are known.
func (c *chunkFile) known() bool {
	return slices.ContainsFunc(c.files, func(f contentsFile) bool { return f.file != nil })
}

// another returns a reader of the same files, for another goroutine.
func (c *chunkFile) another() *chunkFile { return &chunkFile{files: c.files} }

// close closes the files.
func (c *chunkFile) close() {
	for _, f := range c.files {
		if f.file != nil {
			f.file.Close()
		}
	}
}

// of returns the content messages of a request, none if they are not known. They are valid until the next call.
func (c *chunkFile) of(r *row) (contents wire.Contents, err error) {
	if !c.known() || r.packed == 0 {
		return contents, nil
	}
	if cap(c.buffer) < int(r.packed) {
		c.buffer = make([]byte, r.packed)
	}
	c.buffer = c.buffer[:r.packed]
	f := &c.files[sort.Search(len(c.files), func(k int) bool { return c.files[k].from > r.contents })-1]
	if _, err = f.file.ReadAt(c.buffer, r.contents-f.from); err == nil {
		contents, err = wire.UnpackContents(c.buffer)
	}
	if err != nil {
		err = fmt.Errorf("%s: byte %d: %w", f.path, r.contents-f.from, err)
	}
	return contents, err
}
