// Package chain cuts the canonical streams of a session into blocks, and numbers the blocks: doc/spec/capture.md 5.3 to 5.5.
//
// A block is a keyed digest of its tokens and of the block before it. Equal beginnings of streams have equal blocks, and a
// number is all of a block that leaves the tree. A Tree is what a session remembers: digests of the segments that it has
// seen, so that a prompt costs what it adds.
//
//	tree, err := chain.New(key, chain.Options{Tokenizer: t, Name: "o200k_base", BlockSize: 64})
//	prompt, prepared, err := tree.Read(canon.Chat, body) // parses, tokenizes; any goroutine, many at a time
//	request, err := tree.Apply(q, prepared)              // numbers; one goroutine, in order of q
//
// Prepare is Read for a body that was parsed before its session was known. Neither adds segments to the tree: the result does
// not depend on who else reads, or when. A response of OpenAI's Responses is remembered by PrepareOutput and Remember, so that
// a prompt that names it goes on there.
package chain

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// Errors of a tree.
var (
	// ErrErased is about a tree that was erased.
	ErrErased = errors.New("the session is over and its tree erased")
	// errOrder is about requests that are not applied in the order of their numbers.
	errOrder = errors.New("the blocks of an earlier request are numbered after those of a later one: this is a bug in agentx")
	// errNoRequest is about a request that was not applied.
	errNoRequest = errors.New("the blocks of the request are not numbered yet: this is a bug in agentx")

	errOtherHead = errors.New("the request repeats known messages behind another head, or at another place")
)

// maxBlockSize bounds the tokens of a block.
const maxBlockSize = 1 << 16

// Tokenizer turns text into token ids. Several goroutines call it.
type Tokenizer interface {
	AppendIDs(ids []uint32, text string) []uint32
}

// Options say how streams become blocks. All of them are in every digest.
type Options struct {
	Tokenizer Tokenizer
	Name      string // of the tokenizer
	BlockSize int    // tokens of a block
}

// Validate returns an error about options with which there are no blocks.
func (o Options) Validate() error {
	if o.Tokenizer == nil || o.Name == "" {
		return errors.New("a chain of blocks needs a tokenizer and its name")
	}
	if o.BlockSize < 1 || o.BlockSize > maxBlockSize {
		return fmt.Errorf("a block of %d tokens: want 1 to %d", o.BlockSize, maxBlockSize)
	}
	return nil
}

// Tree is what a session remembers of its prompts. Prepare and PrepareOutput may run in many goroutines; all other methods are for
// one goroutine, that which applies.
type Tree struct {
	options Options

	mu        sync.Mutex // guards what follows: Prepare reads, the others write; nothing slow happens under it
	erased    bool
	signer    *signer
	segments  table // the number of a segment is that of its node
	nodes     []node
	blocks    table // a block's number is its id in the journal
	creators  []uint32
	requests  []request
	loose     map[uint32][]short // blocks of outputs by node, until a prompt has them
	responses map[short]stand
	seen      []*seen // the latest first

	marks sync.RWMutex // held where marks are read: Erase overwrites them
	raw   uint64       // the key of rawDigest
}

// node is the end of a segment behind others. Node 0 is before all segments.
type node struct {
	last      digest // of the last whole block
	parent    uint32
	depth     uint32
	tokens    uint32
	tail      []uint32 // the tokens behind the last whole block
	kinds     journal.Kinds
	assistant bool // the segment is the assistant's
	loose     bool // its blocks have no numbers: it is of an output, and no prompt has it
}

// request is a prompt that was applied: the first blocks of another one, then new ones.
type request struct {
	Request
	stand
	q    int
	base int32 // its index, -1 for none
}

// stand is where a prompt, or one that names a response, goes on.
type stand struct {
	node           uint32
	tools, systems uint32 // tokens
	head           short  // digest of the segments up to the head's end
}

// New returns the tree of a session. key is drawn for the session; the caller overwrites its own copy.
func New(key [sha256.Size]byte, o Options) (*Tree, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Tree{options: o, signer: newSigner(key), loose: map[uint32][]short{}, responses: map[short]stand{}}
	t.raw = t.signer.raw()
	root := t.signer.root(o.Name, o.BlockSize)
	t.segments.add(shorten(root))
	t.nodes = append(t.nodes, node{last: root})
	return t, nil
}

// Blocks returns how many blocks have a number. Any goroutine may call it.
func (t *Tree) Blocks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.blocks.keys)
}

// Nodes returns how many segments the tree has. Any goroutine may call it.
func (t *Tree) Nodes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.nodes)
}

// Erase overwrites the key and all that was made with it. The tree cannot be used again.
func (t *Tree) Erase() {
	t.marks.Lock()
	defer t.marks.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erased = true
	t.signer.erase()
	t.segments.erase()
	t.blocks.erase()
	for i := range t.nodes {
		clear(t.nodes[i].tail)
	}
	clear(t.nodes[:cap(t.nodes)])
	t.nodes = nil
	for _, keys := range t.loose {
		clear(keys[:cap(keys)])
	}
	clear(t.requests[:cap(t.requests)])
	clear(t.responses)
	clear(t.loose)
	for _, s := range t.seen {
		clear(s.marks[:cap(s.marks)])
		*s = seen{}
	}
	t.raw = 0
	t.requests, t.creators, t.seen = nil, nil, nil
}

// table numbers digests in the order in which they are added. It is a hash table whose keys are random already. Unlike a map it
// can be overwritten.
type table struct {
	keys  []short  // by number
	slots []uint32 // a number and one, 0 where there is none; a power of two of them
}

// find returns the number of a digest.
func (t *table) find(key short) (number uint32, found bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	n := t.slots[t.slot(key)]
	return n - 1, n != 0
}

// add numbers a digest that the table does not have.
func (t *table) add(key short) uint32 {
	if 4*len(t.keys) >= 3*len(t.slots) {
		t.grow()
	}
	t.keys = appendErasing(t.keys, key)
	t.slots[t.slot(key)] = uint32(len(t.keys))
	return uint32(len(t.keys) - 1)
}

// slot returns the slot in which a digest is, or the free one where it belongs.
func (t *table) slot(key short) int {
	mask := len(t.slots) - 1
	for i := int(binary.LittleEndian.Uint32(key[:])) & mask; ; i = (i + 1) & mask {
		if n := t.slots[i]; n == 0 || t.keys[n-1] == key {
			return i
		}
	}
}

// grow doubles the slots.
func (t *table) grow() {
	t.slots = make([]uint32, max(64, 2*len(t.slots)))
	for i, key := range t.keys {
		t.slots[t.slot(key)] = uint32(i + 1)
	}
}

// erase overwrites the digests.
func (t *table) erase() {
	clear(t.keys[:cap(t.keys)])
	clear(t.slots)
	*t = table{}
}

// appendErasing appends to a list of secrets. What it leaves behind is overwritten.
func appendErasing[T any](list []T, elements ...T) []T {
	if size := len(list) + len(elements); size > cap(list) {
		longer := make([]T, len(list), max(16, size, len(list)+len(list)/2))
		copy(longer, list)
		clear(list)
		list = longer
	}
	return append(list, elements...)
}

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

// number marks a node of an output as one that a prompt has, whose blocks get numbers.
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

// appendIDs appends the ids of the request of an index: the first ones are those of its base.
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

// Numbers numbers the blocks of several trees of one key together, in the order in which they are asked for: equal blocks have equal
// numbers.
type Numbers struct{ blocks table }

// AppendRuns appends the numbers of the new blocks of a request of a tree, as runs: the first, and how many.
func (n *Numbers) AppendRuns(runs []int64, t *Tree, q int) []int64 {
	i, found := t.index(q)
	if !found {
		return runs
	}
	for k := range t.requests[i].New {
		key := t.blocks.keys[t.requests[i].firstID+k]
		number, known := n.blocks.find(key)
		if !known {
			number = n.blocks.add(key)
		}
		if last := len(runs) - 1; last > 0 && runs[last-1]+runs[last] == int64(number) {
			runs[last]++
		} else {
			runs = append(runs, int64(number), 1)
		}
	}
	return runs
}

// Erase overwrites what was made with the key.
func (n *Numbers) Erase() { n.blocks.erase() }

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

// Predecessor returns the request that another goes on from, by what that shares with each before it, and how many blocks both have: of
// those that ended returns the end of, the one with most, and of these the one that ended last; -1 for none.
func Predecessor(shared []Shared, ended func(q int) (end int64, ok bool)) (q, blocks int) {
	q, last := -1, int64(-1)
	for _, s := range slices.Backward(shared) { // the latest has most of them, as a rule
		if s.Blocks == 0 || s.Blocks < blocks {
			continue
		}
		if end, ok := ended(s.Q); ok && (s.Blocks > blocks || end > last) {
			q, blocks, last = s.Q, s.Blocks, end
		}
	}
	return q, blocks
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
