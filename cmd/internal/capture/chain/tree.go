package chain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// Errors of a tree.
var (
	// ErrErased is about a tree that was erased.
	ErrErased = errors.New("the session is over and its tree erased")
	// errOrder is about requests that are not applied in the order of their numbers.
	errOrder = errors.New("requests are applied out of order")
	// errNoRequest is about a request that was not applied.
	errNoRequest = errors.New("the request was not applied")

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
