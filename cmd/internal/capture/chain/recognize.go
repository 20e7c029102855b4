package chain

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
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

// repeated is the beginning of the messages of a body that a session has had before.
type repeated struct {
	outside       // of the body that has it
	before  *seen // that body; nil if nothing is repeated
	known   []mark
	last    mark // of them
}

// recognize returns the longest beginning of the messages of a body that the session has had.
func (t *Tree) recognize(format canon.Format, text []byte) (r repeated) {
	t.marks.RLock()
	defer t.marks.RUnlock()
	for _, s := range t.latest() {
		if s.format == format {
			if marks := s.match(&r, text, t.raw); len(marks) > len(r.known) {
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
func (s *seen) match(best *repeated, text []byte, key uint64) []mark {
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
		if s.start+m.end > len(text) || xxh3.Hash128Seed(text[from:s.start+m.end], key) != m.digest {
			return s.marks[:i:i]
		}
		from = s.start + m.end
	}
	return s.marks
}
