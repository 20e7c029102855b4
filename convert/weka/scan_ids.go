package weka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// idList is a hash_ids list that a later one may repeat.
type idList struct {
	text []byte // between the brackets; nil where it is not canonical: plain digits and single commas
	ids  trace.IDs
}

// ids reads a hash_ids list. Canonical lists never reach the lexer: readRepeated compares them with the list before, and
// readCanonical reads the digits of the rest. Everything else goes to readAnyIDs.
func (s *scanner) ids() trace.IDs {
	if !s.want(jsonlex.Array) {
		return trace.IDs{}
	}
	s.lex.Pos++
	start := s.lex.Pos
	s.reservedRuns = 0
	ids := s.readRepeated()
	s.reserve(&ids)
	canonical := true
	if s.lex.Pos == start || s.lex.Data[s.lex.Pos-1] != ']' {
		canonical = s.readCanonical(&ids)
	}
	s.prev = idList{ids: ids}
	if canonical && s.err == nil {
		s.prev.text = s.lex.Data[start : s.lex.Pos-1]
	}
	return ids
}

// push appends an id, and reserves memory for it.
func (s *scanner) push(ids *trace.IDs, id int64) {
	if ids.Append(id); len(ids.Runs) > s.reservedRuns {
		s.reserve(ids)
	}
}

// reserve reserves memory for twice the runs of a list.
func (s *scanner) reserve(ids *trace.IDs) {
	room := 2 * len(ids.Runs)
	s.need((room - s.reservedRuns) * trace.RunBytes)
	s.reservedRuns = room
}

// readRepeated reads the leading ids that equal those of the previous list byte for byte: up to the bracket that closes the
// list, or to the first id that differs.
func (s *scanner) readRepeated() trace.IDs {
	rest, prev := s.lex.Data[s.lex.Pos:], s.prev.text
	n := sameBytes(rest, prev)
	if n == len(prev) && n > 0 && n < len(rest) {
		switch rest[n] {
		case ']':
			s.lex.Pos += n + 1
			return trace.IDs{Runs: append([]trace.Run(nil), s.prev.ids.Runs...), Len: s.prev.ids.Len}
		case ',':
			s.lex.Pos += n + 1
			return trace.IDs{Runs: append(make([]trace.Run, 0, len(s.prev.ids.Runs)+4), s.prev.ids.Runs...), Len: s.prev.ids.Len}
		}
	}
	n = 1 + bytes.LastIndexByte(prev[:min(n, len(prev))], ',')
	s.lex.Pos += n
	return textPrefix(s.prev.ids, n)
}

// readCanonical reads the rest of a list. It reports whether all of it is canonical.
func (s *scanner) readCanonical(ids *trace.IDs) bool {
	i, b := s.lex.Pos, s.lex.Data
	if ids.Len == 0 && i < len(b) && b[i] == ']' {
		s.lex.Pos++
		return true
	}
	for {
		from := i
		var v uint64
		for i < len(b) && b[i]-'0' <= 9 {
			v = v*10 + uint64(b[i]-'0')
			i++
		}
		n := i - from
		if n == 0 || n > 18 || i >= len(b) || b[from] == '0' && n > 1 || b[i] != ',' && b[i] != ']' {
			s.lex.Pos = from
			s.readAnyIDs(ids)
			return false
		}
		s.push(ids, int64(v))
		i++
		if b[i-1] == ']' {
			s.lex.Pos = i
			return true
		}
		if s.err != nil {
			return false
		}
		more := countUp(b, from, i)
		ids.Runs[len(ids.Runs)-1].N += more
		ids.Len += more
		i += more * (n + 1)
	}
}

// countUp returns how many ids from byte at on count up from the one before, which begins at byte from, and differ from it in the last
// digit alone. Each has its comma.
func countUp(b []byte, from, at int) (n int) {
	size := at - from
	if size > 8 || from+8 > len(b) {
		return 0
	}
	mask := uint64(1)<<(8*size) - 1
	text := binary.LittleEndian.Uint64(b[from:]) & mask
	for digit := b[at-2]; digit < '9' && at+8 <= len(b); digit++ {
		text += 1 << (8 * (size - 2))
		if binary.LittleEndian.Uint64(b[at:])&mask != text {
			break
		}
		at += size
		n++
	}
	return n
}

// readAnyIDs reads the rest of a list with white space, signs, exponents such as 1e3, or an error.
func (s *scanner) readAnyIDs(ids *trace.IDs) {
	if s.lex.Peek() == ']' && ids.Len == 0 {
		s.lex.Pos++
		return
	}
	for s.err == nil {
		_ = s.inside(step{index: ids.Len}, func() {
			if v := s.id(); s.err == nil {
				s.push(ids, v)
			}
		})
		if s.err != nil {
			return
		}
		switch s.lex.Peek() {
		case ',':
			s.lex.Pos++
		case ']':
			s.lex.Pos++
			return
		default:
			s.checkSyntax(s.lex.Expected("',' or ']'"))
		}
	}
}

// looseIDs is what ids of Mooncake rows may be besides numbers that fit into int64: digits in a string, and numbers up to 2^64 - 1, which
// are kept as their 64 bits.
type looseIDs struct {
	allowed         bool
	large, negative bool // there is one from 2^63 on, below 0
}

// id reads an id.
func (s *scanner) id() int64 {
	if !s.loose.allowed {
		return s.whole()
	}
	var text []byte
	if s.lex.Kind() == jsonlex.String {
		text = []byte(s.text())
		if len(text) == 0 || len(bytes.Trim(text, "0123456789")) > 0 {
			s.fail(trace.WrongType, "want a whole number or a string of its digits, found %q", trace.Clip(text))
			return 0
		}
	} else {
		text, _ = s.number()
	}
	if s.err != nil {
		return 0
	}
	v, err := jsonlex.Whole(text)
	switch {
	case errors.Is(err, jsonlex.ErrNotWhole):
		s.fail(trace.NotInteger, "want a whole number, found %s", trace.Clip(text))
	case err != nil:
		large, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			s.fail(trace.IDRange, "%s is outside -2^63 to 2^64 - 1", trace.Clip(text))
		}
		s.loose.large, v = true, int64(large)
	case v < 0:
		s.loose.negative = true
	}
	return v
}

// sameBytes returns the length of the longest common prefix of a and b.
func sameBytes(a, b []byte) int {
	const stride = 512 // compared at once, by vectors
	n := min(len(a), len(b))
	i := 0
	for i+stride <= n && string(a[i:i+stride]) == string(b[i:i+stride]) {
		i += stride
	}
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// textLen returns the number of bytes of a run of ids >= 0 in decimal, with one comma after each.
func textLen(r trace.Run) int {
	n := 0
	for done := 0; done < r.N; {
		digits, k := equalWidth(r.First+int64(done), r.N-done)
		n += k * (digits + 1)
		done += k
	}
	return n
}

// idsWithin returns how many ids of the run, each with its comma, fit into the first n bytes of its text.
func idsWithin(r trace.Run, n int) int {
	done := 0
	for done < r.N {
		digits, k := equalWidth(r.First+int64(done), r.N-done)
		fit := min(k, n/(digits+1))
		done += fit
		n -= fit * (digits + 1)
		if fit < k {
			break
		}
	}
	return done
}

// textPrefix returns the ids that the first n bytes of the list's text hold, each with its comma.
func textPrefix(l trace.IDs, n int) trace.IDs {
	var head trace.IDs
	for _, r := range l.Runs {
		if n == 0 {
			break
		}
		size := textLen(r)
		if size > n {
			r.N = idsWithin(r, n)
			size = n
		}
		n -= size
		head.Runs = append(head.Runs, r)
		head.Len += r.N
	}
	return head
}

// equalWidth returns the number of decimal digits of id >= 0, and how many of the n ids from id on have that many digits.
func equalWidth(id int64, n int) (digits, equal int) {
	digits, limit := 1, int64(10)
	for id >= limit {
		digits++
		if digits == 19 {
			return digits, n // the last width of int64
		}
		limit *= 10
	}
	return digits, int(min(int64(n), limit-id))
}
