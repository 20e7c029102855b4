package chain

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/capture/canon"
)

// maxSeen bounds the bodies whose messages a tree recognizes: those of as many agents that take turns.
const maxSeen = 8

// seen is a body that the session has had: where its messages end, and its tools. It does not change.
type seen struct {
	outside
	marks []mark
}

// outside is what is known of a body beside its messages.
type outside struct {
	format    canon.Format
	start     int // of the list of messages, behind its bracket
	stand         // of its head; its node is of no use
	toolsText rawDigest
	toolsSize int // of the text of the tools, 0 for none that can be recognized
	toolsEnd  short
}

// mark is the end of a message.
type mark struct {
	digest  rawDigest // of the bytes from the mark before
	segment short     // of the segments up to here
	end     int       // behind the bracket of the list
	media   int
	role    uint32
}

// rawDigest is a digest of bytes of a body, by a key that is drawn for the tree.
type rawDigest = xxh3.Uint128

// pieces are a text that does not stand in one piece.
type pieces struct {
	list   [][]byte
	ends   []int // of each
	seed   uint64
	hasher *xxh3.Hasher // of texts in several pieces; nil before the first of them
}

func newPieces(list [][]byte, seed uint64) *pieces {
	p := &pieces{list: list, ends: make([]int, 0, len(list)), seed: seed}
	size := 0
	for _, b := range list {
		size += len(b)
		p.ends = append(p.ends, size)
	}
	return p
}

func (p *pieces) size() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// digest returns the digest of the bytes between two places.
func (p *pieces) digest(from, to int) rawDigest {
	i, _ := slices.BinarySearch(p.ends, from+1) // the piece that has the first byte
	if from == to {
		return xxh3.Hash128Seed(nil, p.seed)
	}
	begin := p.ends[i] - len(p.list[i])
	if to <= p.ends[i] {
		return xxh3.Hash128Seed(p.list[i][from-begin:to-begin], p.seed)
	}
	if p.hasher == nil {
		p.hasher = xxh3.NewSeed(p.seed)
	}
	p.hasher.Reset()
	for ; from < to; i++ {
		begin = p.ends[i] - len(p.list[i])
		end := min(to, p.ends[i])
		_, _ = p.hasher.Write(p.list[i][from-begin : end-begin]) // a hash takes everything
		from = end
	}
	return p.hasher.Sum128()
}

// erase overwrites what a hash keeps of the text.
func (p *pieces) erase() {
	if p.hasher != nil {
		*p.hasher = xxh3.Hasher{}
	}
}

// repeated is the beginning of the messages of a body that a session has had before.
type repeated struct {
	outside       // of the body that has it
	before  *seen // that body; nil if nothing is repeated
	known   []mark
	last    mark // of them
}

// recognize returns the longest beginning of the messages of a body that the session has had.
func (t *Tree) recognize(format canon.Format, list [][]byte) (r repeated) {
	t.marks.RLock()
	defer t.marks.RUnlock()
	text := newPieces(list, t.raw)
	defer text.erase()
	for _, s := range t.latest() {
		if s.format == format {
			if marks := s.match(&r, text); len(marks) > len(r.known) {
				r.before, r.known = s, marks
			}
		}
	}
	// A request that was dropped, or is not applied yet, has no segments in the tree.
	for len(r.known) > 0 && !t.has(r.known[len(r.known)-1].segment) {
		r.known = r.known[:len(r.known)-1]
	}
	if len(r.known) == 0 {
		return repeated{}
	}
	r.known = slices.Clip(r.known)
	r.outside, r.last = r.before.outside, r.known[len(r.known)-1]
	return r
}

// latest returns the bodies that are kept, the latest first.
func (t *Tree) latest() []*seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.seen)
}

// has reports whether the tree has a segment.
func (t *Tree) has(segment short) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.segments.find(segment)
	return found
}

// match returns the first marks of a body that a text has, or none if these are surely not more than the best so far.
func (s *seen) match(best *repeated, text *pieces) []mark {
	same := 0
	if best.before != nil && best.before.start == s.start {
		for same < min(len(s.marks), len(best.known)) && s.marks[same].digest == best.known[same].digest && s.marks[same].end == best.known[same].end {
			same++
		}
		if same < len(best.known) { // the text has another message here
			return nil
		}
	}
	from := s.start
	if same > 0 {
		from += s.marks[same-1].end
	}
	for i := same; i < len(s.marks); i++ {
		m := &s.marks[i]
		if s.start+m.end > text.size() || text.digest(from, s.start+m.end) != m.digest {
			return s.marks[:i:i]
		}
		from = s.start + m.end
	}
	return s.marks
}
