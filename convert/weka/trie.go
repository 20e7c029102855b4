package weka

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/agentx/agentx/trace"
)

// Trie is the trie of all hash_ids lists of a trace, subagents included, in one namespace. What it says of a trace depends
// neither on how blocks are numbered nor on the order of requests.
type Trie struct {
	parents []int32 // of each node; the root is node 0, and a parent comes before its children
	ends    []trieEnd
	next    map[trieEdge]int32
	before  []int32   // the nodes on the path of the list before
	last    trace.IDs // that list
}

// trieEnd is a request that ends at a node.
type trieEnd struct {
	node int32
	in   uint64
}

type trieEdge struct {
	parent int32
	id     int64
}

// TrieOf returns the trie of a trace.
func TrieOf(t *trace.Trace) *Trie {
	trie := &Trie{parents: []int32{-1}, next: map[trieEdge]int32{}}
	for _, r := range t.Requests() {
		trie.add(r)
	}
	return trie
}

// add adds a request. It begins behind what the list shares with the list before, which most often is all but its end.
func (t *Trie) add(r *trace.Request) {
	shared := trace.CommonPrefix(t.last, r.IDs)
	t.before, t.last = t.before[:shared], r.IDs
	at := 0
	for _, run := range r.IDs.Runs {
		for k := range run.N {
			if at++; at > shared {
				t.before = append(t.before, t.child(t.tip(), run.First+int64(k)))
			}
		}
	}
	t.ends = append(t.ends, trieEnd{t.tip(), uint64(r.In)})
}

// tip returns the last node of the path, the root where it is empty.
func (t *Trie) tip() int32 {
	if len(t.before) == 0 {
		return 0
	}
	return t.before[len(t.before)-1]
}

// child returns the node of an id below a parent, which it makes where it is missing.
func (t *Trie) child(parent int32, id int64) int32 {
	at := trieEdge{parent, id}
	node, ok := t.next[at]
	if !ok {
		node = int32(len(t.parents))
		t.parents = append(t.parents, parent)
		t.next[at] = node
	}
	return node
}

// Nodes returns the number of nodes, the root left out.
func (t *Trie) Nodes() int { return len(t.parents) - 1 }

// Digest returns the digest of the root: doc/spec/capture.md 10. That of a node is the SHA-256 of "n", the number of requests
// that end there (u32), their lengths ascending (u64), and the digests of its children ascending. Integers are little-endian.
func (t *Trie) Digest() [sha256.Size]byte {
	lengths := make([][]uint64, len(t.parents))
	for _, e := range t.ends {
		lengths[e.node] = append(lengths[e.node], e.in)
	}
	children := make([][][sha256.Size]byte, len(t.parents))
	for node := len(t.parents) - 1; node > 0; node-- {
		parent := t.parents[node]
		children[parent] = append(children[parent], nodeDigest(lengths[node], children[node]))
		children[node] = nil
	}
	return nodeDigest(lengths[0], children[0])
}

// nodeDigest returns the digest of a node. It sorts both lists.
func nodeDigest(lengths []uint64, children [][sha256.Size]byte) [sha256.Size]byte {
	slices.Sort(lengths)
	slices.SortFunc(children, func(a, b [sha256.Size]byte) int { return slices.Compare(a[:], b[:]) })
	text := binary.LittleEndian.AppendUint32([]byte{'n'}, uint32(len(lengths)))
	for _, n := range lengths {
		text = binary.LittleEndian.AppendUint64(text, n)
	}
	for _, d := range children {
		text = append(text, d[:]...)
	}
	return sha256.Sum256(text)
}

// leaves returns how many prompts no other goes on from, and how many of the nodes below the root there are.
func (t *Trie) leaves() (leaves, roots int) {
	inner := make([]bool, len(t.parents))
	for _, parent := range t.parents[1:] {
		inner[parent] = true
		if parent == 0 {
			roots++
		}
	}
	for _, is := range inner[1:] {
		if !is {
			leaves++
		}
	}
	return leaves, roots
}

// Predecessors finds, for requests of one agent after the other, the request that each goes on from: of those before it that
// had ended, one that shares the most leading blocks, and of these the one that ended last. It takes time proportional to the
// blocks of all prompts.
type Predecessors struct {
	parents []int32 // of each block, the block before it in every prompt that has it
	root    int32   // parent of first blocks
	latest  []int32 // per block: number of the ended request with it that ended last
	next    int32   // number of the first request of the next agent; lower numbers are of other agents
}

// Stay is a request as Predecessors sees it. Times have any unit.
type Stay struct {
	Begin, End int64
	Last       int32 // last block of its prompt, the root where it has none
}

// Predecessor is the request that a request goes on from.
type Predecessor struct {
	Index  int // in the list of requests; -1: none
	Shared int // leading blocks that the two share
}

// NewPredecessors takes the tree of the blocks of a trace.
func NewPredecessors(parents []int32, root int32) *Predecessors {
	return &Predecessors{parents: parents, root: root, latest: make([]int32, len(parents)), next: 1}
}

// Of returns the predecessor of each request of an agent. The requests are in the order of their arrival.
func (p *Predecessors) Of(requests []Stay) []Predecessor {
	ended := make([]int, len(requests)) // in the order in which they ended
	for k := range ended {
		ended[k] = k
	}
	slices.SortFunc(ended, func(a, b int) int { return cmp.Or(cmp.Compare(requests[a].End, requests[b].End), cmp.Compare(a, b)) })
	found := make([]Predecessor, len(requests))
	for k, r := range requests {
		for len(ended) > 0 && ended[0] < k && requests[ended[0]].End <= r.Begin {
			p.mark(requests[ended[0]].Last, p.next+int32(ended[0]))
			ended = ended[1:]
		}
		found[k] = p.deepest(r.Last)
	}
	p.next += int32(len(requests))
	return found
}

// ThinkTimes returns, of each request of an agent, the time since the end of the one that it goes on from; Unknown where there is none.
func (p *Predecessors) ThinkTimes(requests []Stay) []Millis {
	thinks := make([]Millis, len(requests))
	for k, found := range p.Of(requests) {
		if thinks[k] = Unknown; found.Index >= 0 {
			thinks[k] = Millis(requests[k].Begin - requests[found.Index].End)
		}
	}
	return thinks
}

// mark notes a request at every block of its prompt.
func (p *Predecessors) mark(block, number int32) {
	for ; block != p.root; block = p.parents[block] {
		p.latest[block] = number
	}
}

// deepest returns the request noted at the last block of a prompt at which one of this agent is.
func (p *Predecessors) deepest(block int32) Predecessor {
	for block != p.root && p.latest[block] < p.next {
		block = p.parents[block]
	}
	if block == p.root {
		return Predecessor{Index: -1}
	}
	found := Predecessor{Index: int(p.latest[block] - p.next)}
	for ; block != p.root; block = p.parents[block] {
		found.Shared++
	}
	return found
}
