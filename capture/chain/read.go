package chain

import (
	"hash/maphash"
	"slices"

	"github.com/agentx/agentx/capture/canon"
)

// maxSeen bounds the bodies whose messages a tree recognizes: those of as many agents that take turns.
const maxSeen = 8

// seen is the list of messages of a body. It does not change.
type seen struct {
	head           short
	tools, systems uint32
	marks          []mark
}

// mark is the end of a message.
type mark struct {
	digest  rawDigest // of the bytes from the mark before
	segment short     // of the segments up to here
	end     int
	media   int
	role    uint32
}

// rawDigest is a digest of bytes of a body, by two keys that are drawn for the tree.
type rawDigest [2]uint64

func (t *Tree) rawDigest(text []byte) rawDigest {
	return rawDigest{maphash.Bytes(t.raw[0], text), maphash.Bytes(t.raw[1], text)}
}

// Read is canon.Parse and Prepare of a body. Messages that the session has had with the same bytes are not parsed again, so
// that a body costs what it adds. The prompt lacks their segments and the ids of their results.
func (t *Tree) Read(format canon.Format, body []byte) (*canon.Prompt, *Prepared, error) {
	var before *seen
	var known []mark
	prompt, err := canon.ParseBehind(format, body, func(list []byte) (canon.Prefix, bool) {
		if before, known = t.recognize(list); len(known) == 0 {
			return canon.Prefix{}, false
		}
		last := known[len(known)-1]
		return canon.Prefix{Bytes: last.end, Role: last.role, Media: last.media}, true
	})
	if err != nil {
		return nil, nil, err
	}
	var prepared *Prepared
	if prompt.Prefix.Bytes > 0 {
		prepared, err = t.prepareBehind(prompt, before, known[len(known)-1])
	} else {
		prepared, err = t.Prepare(prompt)
	}
	if err == errOtherHead {
		before, known = nil, nil
		prompt, err = canon.ParseBehind(format, body, func([]byte) (canon.Prefix, bool) { return canon.Prefix{}, false })
		if err == nil {
			prepared, err = t.Prepare(prompt)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if prompt.Previous == "" {
		t.see(prompt, prepared, before, known)
	}
	return prompt, prepared, nil
}

// recognize returns the longest beginning of a list of messages that the session has had, and the list that had it.
func (t *Tree) recognize(list []byte) (before *seen, known []mark) {
	t.mu.Lock()
	lists := slices.Clone(t.seen)
	t.mu.Unlock()
	t.marks.RLock()
	defer t.marks.RUnlock()
	for _, s := range lists {
		if marks := t.match(s.marks, list); len(marks) > 0 && (len(known) == 0 || marks[len(marks)-1].end > known[len(known)-1].end) {
			before, known = s, marks
			if 2*known[len(known)-1].end >= len(list) { // another one can hardly have more
				break
			}
		}
	}
	return before, t.applied(known)
}

// applied returns the first marks up to the last whose segments the tree has: those of a request that was dropped, or is not applied
// yet, it has not.
func (t *Tree) applied(marks []mark) []mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(marks) > 0 {
		if _, found := t.segments.find(marks[len(marks)-1].segment); found {
			break
		}
		marks = marks[:len(marks)-1]
	}
	return slices.Clip(marks)
}

// match returns the first marks of a list that a text has.
func (t *Tree) match(marks []mark, text []byte) []mark {
	from := 0
	for i, m := range marks {
		if m.end > len(text) || t.rawDigest(text[from:m.end]) != m.digest {
			return marks[:i:i]
		}
		from = m.end
	}
	return slices.Clip(marks)
}

// prepareBehind prepares a prompt whose first messages were recognized. The error is errOtherHead if these had another head.
func (t *Tree) prepareBehind(p *canon.Prompt, before *seen, last mark) (*Prepared, error) {
	c, root, err := t.cutter()
	if err != nil {
		return nil, err
	}
	defer c.erase()
	head := c.signer.headOf(root, p)
	t.mu.Lock()
	at, found := t.segments.find(last.segment)
	t.mu.Unlock()
	if !found || head != before.head || p.Previous != "" {
		return nil, errOtherHead
	}
	segments := p.Segments[p.Head:]
	r := &Prepared{head: head, tools: before.tools, systems: before.systems}
	return r, t.cut(c, r, at, c.signer.chain(last.segment, segments), segments)
}

// see keeps the messages of a prompt, to recognize them in the next one. Those up to the system prompt's last come with the
// first that is none of it.
func (t *Tree) see(p *canon.Prompt, r *Prepared, before *seen, known []mark) {
	t.marks.RLock()
	defer t.marks.RUnlock()
	s := &seen{head: r.head, tools: r.tools, systems: r.systems, marks: known}
	from, first := p.Prefix.Bytes, len(p.Segments)-len(r.digests) // the first segment of which there is a digest
	for _, e := range p.Elements {
		if p.Prefix.Bytes == 0 && e.Segments <= p.System {
			continue
		}
		s.marks = append(s.marks, mark{
			digest: t.rawDigest(p.List[from:e.End]), segment: r.digests[e.Segments-1-first], end: e.End, media: e.Media, role: e.Role,
		})
		from = e.End
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.erased || len(s.marks) == 0 {
		return
	}
	// The list that it continues is not needed any more, except for a rewind far back.
	if before != nil && 2*len(known) >= len(before.marks) {
		t.seen = slices.DeleteFunc(t.seen, func(other *seen) bool { return other == before })
	}
	t.seen = slices.Insert(t.seen, 0, s)
	t.seen = t.seen[:min(len(t.seen), maxSeen)]
}
