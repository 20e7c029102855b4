package merge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// Records opens the records of the run, in the order in which requests ended. The caller must call Close.
func (r *Run) Records() (measure.Records, error) {
	if r.parts == nil {
		return measure.OpenRecords(r.Dir)
	}
	m := &merged{}
	base := int64(0)
	for _, p := range r.parts {
		reader, err := measure.OpenBuffered(p.dir, smallBuffer)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.all = append(m.all, &stream{RecordReader: reader, part: p, base: base})
		base += sizeOf(filepath.Join(p.dir, measure.ContentsFile))
	}
	for _, s := range m.all {
		if err := m.advance(s); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// Line names the n-th record, from 1, as errors do.
func (r *Run) Line(n int) string {
	if r.parts == nil {
		return fmt.Sprintf("%s: line %d", filepath.Join(r.Dir, measure.RecordsFile), n)
	}
	return fmt.Sprintf("%s: record %d of all parts", r.Dir, n)
}

// RecordFiles returns the paths of the files of records, by the numbers of their parts.
func (r *Run) RecordFiles() []string { return r.files(measure.RecordsFile) }

// ContentsFiles returns the paths of the files of the instants of content messages, by the numbers of their parts. Some may not exist.
func (r *Run) ContentsFiles() []string { return r.files(measure.ContentsFile) }

// files returns the paths of a file of results, of every part.
func (r *Run) files(name string) (paths []string) {
	if r.parts == nil {
		return []string{filepath.Join(r.Dir, name)}
	}
	for _, p := range r.parts {
		paths = append(paths, filepath.Join(p.dir, name))
	}
	return paths
}

// sizeOf returns the bytes of a file, 0 of one that does not exist.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err != nil { // what reads the file reports other errors
		return 0
	}
	return info.Size()
}

// stream are the records of a part, and the next of them.
type stream struct {
	*measure.RecordReader
	part   *part
	base   int64 // bytes of the contents of the parts before
	record *measure.Record
	at     int64 // when its request ended, nanoseconds since 1970, on the clock of part 0
}

// merged joins the records of parts.
type merged struct {
	all     []*stream
	waiting []*stream // that have a record, the one that is next last
	last    *stream   // whose record was returned last
}

// advance reads the next record of a stream that does not wait, and lets it wait; at the end it does not.
func (m *merged) advance(s *stream) error {
	r, err := s.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = s.part.adopt(r)
	}
	if err != nil {
		return err
	}
	r.Pass = s.part.passes[r.Tree]
	s.record, s.at = r, s.part.phases[r.Phase].origin+int64(r.End)
	k, _ := slices.BinarySearchFunc(m.waiting, s, func(x, s *stream) int {
		return cmp.Or(cmp.Compare(s.at, x.at), cmp.Compare(s.part.number, x.part.number))
	})
	m.waiting = slices.Insert(m.waiting, k, s)
	return nil
}

// Next returns the next record of all parts.
func (m *merged) Next() (*measure.Record, error) {
	if m.last != nil { // its record was valid until now
		s := m.last
		m.last = nil
		if err := m.advance(s); err != nil {
			return nil, err
		}
	}
	next := len(m.waiting) - 1
	if next < 0 {
		return nil, io.EOF
	}
	m.last, m.waiting = m.waiting[next], m.waiting[:next]
	return m.last.record, nil
}

// Torn is false: Run.Missing says which parts were lost.
func (m *merged) Torn() bool { return false }

// ContentsEnd returns where the entry of the record read last ends in the contents of all parts, one behind the other.
func (m *merged) ContentsEnd() int64 { return m.last.base + m.last.ContentsEnd() }

// ContentsError returns what is wrong with the contents of the first part that has such a problem.
func (m *merged) ContentsError() error {
	for _, s := range m.all {
		if err := s.ContentsError(); err != nil {
			return err
		}
	}
	return nil
}

func (m *merged) Close() error {
	var errs []error
	for _, s := range m.all {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
