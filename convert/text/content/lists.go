package content

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"

	"github.com/agentx/agentx/internal/jsonlex"
)

// Lists reads lists of messages. A client sends its whole list with each request, so most lists of a log begin like one before. Of such a
// list only what is new is read.
type Lists struct {
	recent []*list // the latest first
	quoted []byte
	pieces [][2]int
}

// list is a list that was read.
type list struct {
	raw  []byte  // as it stands in the log: a list, or a string that says one
	text []byte  // what it says
	ends []int   // of the messages, in text
	ids  []int32 // what the messages became
}

// keptLists is how many lists are remembered, keptBytes how many bytes of them. The latest always is.
const (
	keptLists = 32
	keptBytes = 32 << 20
)

// Read returns what message makes of each message of a list, which is JSON or a string of JSON. It is false for a text that is no list, or
// is cut off. The result is valid until the next call, and message may keep no part of what it gets.
func (s *Lists) Read(v Raw, message func(Raw) (int32, error)) (ids []int32, ok bool, err error) {
	if !v.IsString() && !v.IsArray() {
		return nil, false, nil
	}
	l, same := s.continued(v)
	before := len(l.text) - len(s.decode(nil, l.raw[same:]))
	l.text = s.decode(l.text[:before], v[same:])
	l.raw = append(l.raw[:same], v[same:]...)
	known := sort.Search(len(l.ends), func(k int) bool { return l.ends[k] > before })
	l.ends, l.ids = l.ends[:known], l.ids[:known]
	if ok = s.find(l); ok {
		for _, p := range s.pieces {
			id, failed := message(l.text[p[0]:p[1]:p[1]])
			if err = failed; err != nil {
				break
			}
			l.ends, l.ids = append(l.ends, p[1]), append(l.ids, id)
		}
	}
	if !ok || err != nil {
		s.recent = s.recent[1:]
		return nil, false, err
	}
	return l.ids, true, nil
}

// continued returns the list of which half or more is the beginning of another, now the first of the recent ones, and how many bytes of both
// are the same: up to the end of an object. Where there is none, it is a new one.
func (s *Lists) continued(v Raw) (*list, int) {
	found, same := 0, 0
	for k, l := range s.recent {
		if n := commonPrefix(l.raw, v); n > same && 2*n > len(l.raw) {
			found, same = k, n
		}
	}
	if same = bytes.LastIndexByte(v[:same], '}') + 1; same > 0 { // no escape has a brace, so none is cut
		l := s.recent[found]
		s.recent = slices.Insert(slices.Delete(s.recent, found, found+1), 0, l)
		return l, same
	}
	size := 0
	for k, l := range s.recent {
		if size += len(l.raw) + len(l.text); size > keptBytes || k == keptLists-1 {
			clear(s.recent[k:])
			s.recent = s.recent[:k]
			break
		}
	}
	s.recent = slices.Insert(s.recent, 0, &list{})
	return s.recent[0], 0
}

// decode appends what the rest of a string says; the rest of a list is what it says.
func (s *Lists) decode(dst, rest []byte) []byte {
	if len(rest) == 0 || rest[len(rest)-1] != '"' {
		return append(dst, rest...)
	}
	if rest[0] != '"' || len(rest) == 1 {
		s.quoted = append(append(s.quoted[:0], '"'), rest...)
		rest = s.quoted
	}
	return Raw(rest).AppendString(dst)
}

// find finds the messages of a list behind those that are known.
func (s *Lists) find(l *list) bool {
	s.pieces = s.pieces[:0]
	x := jsonlex.Lexer{Data: l.text, MaxDepth: MaxDepth - 1}
	first := byte('[')
	if n := len(l.ends); n > 0 {
		x.Pos, first = l.ends[n-1], ','
	}
	for c := x.Peek(); c == first; c = x.Peek() {
		x.Pos++
		if first == '[' && x.Peek() == ']' {
			break
		}
		x.Peek()
		from := x.Pos
		if x.Skip() != nil {
			return false
		}
		s.pieces = append(s.pieces, [2]int{from, x.Pos})
		first = ','
	}
	if x.Peek() != ']' {
		return false
	}
	x.Pos++
	return x.End() == nil
}

// commonPrefix returns how many bytes two texts begin with alike.
func commonPrefix(a, b []byte) (n int) {
	const chunk = 4096
	for n+chunk <= min(len(a), len(b)) && bytes.Equal(a[n:n+chunk], b[n:n+chunk]) {
		n += chunk
	}
	for n+8 <= min(len(a), len(b)) {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
