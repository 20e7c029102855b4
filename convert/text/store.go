package text

import (
	"errors"
	"fmt"
	"os"

	"github.com/zeebo/xxh3"
)

// Store keeps each distinct text once. Up to a bound it keeps them in memory, the rest in a file without a name that no other user may
// read. It belongs to one goroutine.
type Store struct {
	dir     string   // of the file; "": the directory for temporary files
	size    int      // bytes of a block
	keep    int      // blocks kept in memory
	memory  [][]byte // the first blocks
	file    *os.File // the next ones
	written int64    // bytes in the file
	last    []byte   // the block that is not full yet
	ends    []uint64 // of text k
	known   map[xxh3.Uint128]Text
	err     error // of the file

	Redact   *Redactor      // replaces secrets before texts are kept; nil: they are kept as they are
	Redacted map[string]int // secrets that were replaced, by class
}

// blockSize is how many bytes a block of a Store has, keptBlocks how many it keeps in memory.
const (
	blockSize  = 1 << 20
	keptBlocks = 64
)

// NewStore returns a store with the empty text, number 0. What does not fit into memory goes to a file in dir, "" for the directory for
// temporary files.
func NewStore(dir string) *Store {
	return &Store{dir: dir, size: blockSize, keep: keptBlocks, ends: []uint64{0}, known: map[xxh3.Uint128]Text{xxh3.Hash128(nil): 0}}
}

// maxText is how long a text may be, bytes.
const maxText = 1<<31 - 1

// Add returns the number of a text, whose bytes it copies. The error is of the file, or of a text that is too long.
func (s *Store) Add(b []byte) (Text, error) {
	if len(b) == 0 {
		return 0, nil
	}
	digest := xxh3.Hash128(b)
	if t, ok := s.known[digest]; ok {
		return t, nil
	}
	if s.Redact != nil {
		if clean := s.Redact.Apply(b, s.countRedacted); len(clean) > 0 && &clean[0] != &b[0] {
			t, err := s.keepText(xxh3.Hash128(clean), clean)
			s.known[digest] = t
			return t, err
		}
	}
	return s.keepText(digest, b)
}

func (s *Store) countRedacted(class string) {
	if s.Redacted == nil {
		s.Redacted = map[string]int{}
	}
	s.Redacted[class]++
}

// keepText keeps a text of a digest, unless it is kept already.
func (s *Store) keepText(digest xxh3.Uint128, b []byte) (Text, error) {
	if t, ok := s.known[digest]; ok {
		return t, nil
	}
	switch {
	case s.err != nil:
		return 0, s.err
	case len(b) > maxText:
		return 0, fmt.Errorf("a text of %d bytes: at most %d", len(b), maxText)
	case len(s.ends) == 1<<32-1:
		return 0, errors.New("more than 4 billion texts: split the input")
	}
	t := Text(len(s.ends))
	s.known[digest] = t
	s.ends = append(s.ends, s.ends[t-1]+uint64(len(b)))
	for len(b) > 0 && s.err == nil {
		n := min(len(b), s.size-len(s.last))
		s.last, b = append(s.last, b[:n]...), b[n:]
		if len(s.last) == s.size {
			s.err = s.flush()
		}
	}
	return t, s.err
}

// flush puts the last block, which is full, behind the others.
func (s *Store) flush() (err error) {
	if len(s.memory) < s.keep {
		s.memory, s.last = append(s.memory, s.last), make([]byte, 0, s.size)
		return nil
	}
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, ".texts-*"); err != nil {
			return err
		}
		_ = os.Remove(s.file.Name()) // where the system removes open files; Close removes it elsewhere
	}
	n, err := s.file.WriteAt(s.last, s.written)
	s.written += int64(n)
	s.last = s.last[:0]
	return err
}

// Len returns the length of a text in bytes.
func (s *Store) Len(t Text) int {
	if t == 0 {
		return 0
	}
	return int(s.ends[t] - s.ends[t-1])
}

// Count returns how many texts there are, the empty one among them.
func (s *Store) Count() int { return len(s.ends) }

// Append appends a text to dst.
func (s *Store) Append(dst []byte, t Text) ([]byte, error) {
	if t == 0 {
		return dst, nil
	}
	from, to := s.ends[t-1], s.ends[t]
	kept := uint64(len(s.memory) * s.size)
	for from < min(to, kept) {
		block := s.memory[from/uint64(s.size)][from%uint64(s.size):]
		n := min(uint64(len(block)), to-from)
		dst, from = append(dst, block[:n]...), from+n
	}
	if from < to && s.err != nil { // what was to be written is gone
		return dst, s.err
	}
	inFile := kept + uint64(s.written)
	if n := min(to, inFile); from < n {
		at := len(dst)
		dst = append(dst, make([]byte, n-from)...)
		if _, err := s.file.ReadAt(dst[at:], int64(from-kept)); err != nil {
			return dst, err
		}
		from = n
	}
	if from < to {
		dst = append(dst, s.last[from-inFile:to-inFile]...)
	}
	return dst, nil
}

// String returns a text. It is for names and messages of tests: an error is an empty text.
func (s *Store) String(t Text) string {
	b, _ := s.Append(nil, t)
	return string(b)
}

// Close removes the file.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name()) // it is gone where the system let it go before
	s.file = nil
	return err
}
