package text

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"
)

// Store keeps each distinct text once. Up to a bound it keeps them in memory, the rest in a file without a name that no other user may
// read. It belongs to one goroutine.
type Store struct {
	dir     string // of the file; "": the directory for temporary files
	keep    int    // bytes kept in memory
	memory  []byte // the first bytes
	file    *os.File
	pending []byte   // behind those in the file
	written int64    // bytes in the file
	ends    []uint64 // of text k
	known   map[xxh3.Uint128]Text
	err     error // of the file

	Redact   *Redactor      // replaces secrets before texts are kept; nil: they are kept as they are
	Redacted map[string]int // secrets that were replaced, by class
}

// keptTexts is how many bytes of texts a Store keeps in memory, pendingTexts how many it writes at a time.
const (
	keptTexts    = 64 << 20
	pendingTexts = 1 << 20
)

// NewStore returns a store with the empty text, number 0. What does not fit into memory goes to a file in dir, "" for the directory for
// temporary files.
func NewStore(dir string) *Store {
	return &Store{dir: dir, keep: keptTexts, ends: []uint64{0}, known: map[xxh3.Uint128]Text{xxh3.Hash128(nil): 0}}
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
	if s.file == nil && len(s.pending) == 0 && len(s.memory)+len(b) <= s.keep {
		if len(s.memory)+len(b) > cap(s.memory) && len(s.memory) > pendingTexts {
			s.memory = append(make([]byte, 0, s.keep), s.memory...) // at once: what is not written to takes no memory
		}
		s.memory = append(s.memory, b...)
		return t, nil
	}
	s.pending = append(s.pending, b...)
	if len(s.pending) >= pendingTexts {
		s.err = s.flush()
	}
	return t, s.err
}

// flush writes what is pending.
func (s *Store) flush() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, ".texts-*"); err != nil {
			return err
		}
		_ = os.Remove(s.file.Name()) // where the system removes open files; Close removes it elsewhere
	}
	n, err := s.file.WriteAt(s.pending, s.written)
	s.written += int64(n)
	s.pending = s.pending[:0]
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
	if to <= uint64(len(s.memory)) {
		return append(dst, s.memory[from:to]...), nil
	}
	if s.err != nil { // what was to be written is gone
		return dst, s.err
	}
	at := int64(from) - int64(len(s.memory))
	if at >= s.written {
		at -= s.written
		return append(dst, s.pending[at:at+int64(to-from)]...), nil
	}
	n := len(dst)
	dst = append(dst, make([]byte, to-from)...)
	_, err := io.ReadFull(io.NewSectionReader(s.file, at, int64(to-from)), dst[n:])
	return dst, err
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
