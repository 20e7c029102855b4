package chain

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// Request is what the journal has of a prompt's blocks: the first Keep ids of the list of request Base, then New ids
// from the counter.
type Request struct {
	Tokens  int // of the prompt
	Tools   int // of the definitions of tools
	System  int // of the system prompt
	Base    int // the request whose list begins the longest alike, the first of them; -1 for none
	Keep    int
	New     int
	firstID int // the first of the new ids
}

// Apply numbers the blocks of request q that are new. The error is errOrder or ErrErased. p cannot be used again.
func (t *Tree) Apply(q int, p *Prepared) (Request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer p.erase()
	if t.erased {
		return Request{}, ErrErased
	}
	if n := len(t.requests); q < 0 || n > 0 && q <= t.requests[n-1].q {
		return Request{}, errOrder
	}
	keep, base, loose := t.numbered(p.from)
	r := request{
		q: q, base: base, stand: p.stand,
		Request: Request{Tokens: int(p.tokens), Tools: int(p.tools), System: int(p.systems), Base: -1, Keep: keep, firstID: len(t.blocks.keys)},
	}
	for _, key := range append(loose, p.keys...) {
		if id, found := t.blocks.find(key); found {
			r.Keep++
			r.base = int32(t.creators[id])
			continue
		}
		t.blocks.add(key)
		t.creators = append(t.creators, uint32(len(t.requests)))
		r.New++
	}
	clear(loose)
	if r.base >= 0 {
		r.Base = t.requests[r.base].q
	}
	r.node = t.insert(p, false)
	t.requests = appendErasing(t.requests, r)
	return r.Request, nil
}

// numbered returns how many blocks before a node have numbers, the request that was the first to have the last of them,
// and the blocks that outputs left without numbers. These belong to a prompt now.
func (t *Tree) numbered(at uint32) (blocks int, base int32, loose []short) {
	var path []uint32
	for n := at; t.nodes[n].loose; n = t.nodes[n].parent {
		path = append(path, n)
		at = t.nodes[n].parent
	}
	for _, n := range slices.Backward(path) {
		loose = append(loose, t.loose[n]...)
		t.number(n)
	}
	base = -1
	if blocks = int(t.nodes[at].tokens) / t.options.BlockSize; blocks > 0 {
		id, _ := t.blocks.find(shorten(t.nodes[at].last))
		base = int32(t.creators[id])
	}
	return blocks, base, loose
}

// number says of a node of an output that a prompt has it now.
func (t *Tree) number(n uint32) {
	clear(t.loose[n])
	delete(t.loose, n)
	t.nodes[n].loose = false
}

// insert adds the segments of a prompt or of an output to the tree, and returns the last node.
func (t *Tree) insert(p *Prepared, output bool) uint32 {
	at, from := p.from, 0
	for i := range p.added {
		a := &p.added[i]
		n, found := t.segments.find(a.digest)
		switch {
		case !found:
			n = t.segments.add(a.digest)
			t.nodes = appendErasing(t.nodes, node{
				last: a.last, parent: at, depth: t.nodes[at].depth + 1, tokens: a.tokens, tail: a.tail,
				kinds: a.kinds, assistant: a.assistant, loose: output,
			})
			a.tail = nil // it is the tree's
			if output {
				t.loose[n] = slices.Clone(p.keys[from:a.keys])
			}
		case !output && t.nodes[n].loose:
			t.number(n)
		}
		at, from = n, a.keys
	}
	return at
}

// Remember keeps where a prompt goes on that names a response. p is of PrepareOutput, and cannot be used again.
func (t *Tree) Remember(id string, p *Prepared) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer p.erase()
	if t.erased {
		return ErrErased
	}
	p.node = t.insert(p, true)
	t.responses[t.signer.response(id)] = p.stand
	return nil
}

// index returns the index of a request.
func (t *Tree) index(q int) (int, bool) {
	return slices.BinarySearchFunc(t.requests, q, func(r request, q int) int { return cmp.Compare(r.q, q) })
}

// AppendIDs appends the ids of the blocks of a request.
func (t *Tree) AppendIDs(ids []uint32, q int) []uint32 {
	if i, found := t.index(q); found {
		return t.appendIDs(ids, i)
	}
	return ids
}

func (t *Tree) appendIDs(ids []uint32, i int) []uint32 {
	r := &t.requests[i]
	if r.base >= 0 {
		from := len(ids)
		ids = t.appendIDs(ids, int(r.base))[:from+r.Keep]
	}
	for k := range r.New {
		ids = append(ids, uint32(r.firstID+k))
	}
	return ids
}

// Shared is how much the list of an earlier request has in common with that of another.
type Shared struct {
	Q      int // the earlier request
	Blocks int // equal ids at the beginning of both lists
}

// AppendShared appends what each request before q shares with it, in their order.
func (t *Tree) AppendShared(list []Shared, q int) []Shared {
	last, found := t.index(q)
	if !found {
		return list
	}
	from := len(list)
	for i := range last {
		list = append(list, Shared{Q: t.requests[i].q, Blocks: -1})
	}
	shared := list[from:]
	for r := &t.requests[last]; r.base >= 0; r = &t.requests[r.base] {
		shared[r.base].Blocks = r.Keep // less than before: a base has more than it keeps
	}
	for i := range shared {
		if r := &t.requests[i]; shared[i].Blocks < 0 {
			shared[i].Blocks = 0
			if r.base >= 0 {
				shared[i].Blocks = min(r.Keep, shared[r.base].Blocks)
			}
		}
	}
	return list
}

// InputKinds returns the kinds of content that request q adds to its predecessor, -1 for none: of the segments behind those that
// both have, without the first ones of the assistant, which repeat what it answered. It is all of q if less than half of the
// predecessor's blocks are in q, which are as many as shared says.
func (t *Tree) InputKinds(q, predecessor, shared int) (kinds journal.Kinds) {
	i, found := t.index(q)
	if !found {
		return 0
	}
	r, common := &t.requests[i], uint32(0)
	if j, found := t.index(predecessor); found && predecessor < q {
		p := &t.requests[j]
		blocks := p.Tokens / t.options.BlockSize
		if 2*shared >= blocks {
			common = t.common(r.node, p.node)
		}
	}
	return t.kindsBehind(common, r.node)
}

// kindsBehind returns the kinds of content of the segments between two nodes.
func (t *Tree) kindsBehind(from, to uint32) (kinds journal.Kinds) {
	repeated := journal.Kinds(0) // of the assistant's segments before the first of somebody else
	for n := to; n != from; n = t.nodes[n].parent {
		at := &t.nodes[n]
		if at.assistant {
			repeated |= at.kinds
			continue
		}
		kinds |= repeated | at.kinds
		repeated = 0
	}
	if from == 0 {
		kinds |= repeated
	}
	return kinds
}

// common returns the last segment that is before or at both of two nodes.
func (t *Tree) common(a, b uint32) uint32 {
	for a != b {
		if t.nodes[a].depth < t.nodes[b].depth {
			a, b = b, a
		}
		a = t.nodes[a].parent
	}
	return a
}
