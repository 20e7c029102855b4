package synth

import (
	"slices"

	"github.com/agentx/agentx/trace"
)

// tree is the tree of the blocks of a recorded trace. A stretch is a path of it on which no prompt ends before its end, and of
// which none leaves it: what stretches are made of may be longer or shorter, and the prompts share the same stretches.
type tree struct {
	parents []int32        // of nodes; node 0 is the root, and a parent comes before its children
	nodeOf  []int32        // of each block, 0 for none
	others  map[edge]int32 // of blocks that follow another one than at first
	ends    map[int32]bool // nodes at which prompts end

	stretchOf []int32 // of each node
	stretches []stretch
}

// edge is a block below a node.
type edge struct{ parent, block int32 }

// stretch is a stretch of the tree. -1 is above the topmost.
type stretch struct {
	above  int32
	first  int // number of its first block
	blocks int
}

func newTree(blocks int) *tree {
	return &tree{parents: []int32{-1}, nodeOf: make([]int32, blocks), others: map[edge]int32{}, ends: map[int32]bool{}}
}

// child returns the node of a block below another.
func (t *tree) child(parent, block int32) int32 {
	known := t.nodeOf[block]
	if known > 0 && t.parents[known] == parent {
		return known
	}
	if known > 0 {
		if node, ok := t.others[edge{parent, block}]; ok {
			return node
		}
	}
	node := int32(len(t.parents))
	t.parents = append(t.parents, parent)
	if known > 0 {
		t.others[edge{parent, block}] = node
	} else {
		t.nodeOf[block] = node
	}
	return node
}

// cut cuts the tree into stretches.
func (t *tree) cut() {
	children := make([]int32, len(t.parents))
	for _, parent := range t.parents[1:] {
		children[parent]++
	}
	t.stretchOf = make([]int32, len(t.parents))
	t.stretchOf[0] = -1
	for node := 1; node < len(t.parents); node++ {
		parent := t.parents[node]
		at := t.stretchOf[parent]
		if parent == 0 || children[parent] > 1 || t.ends[parent] {
			t.stretches = append(t.stretches, stretch{above: at})
			at = int32(len(t.stretches) - 1)
		}
		t.stretches[at].blocks++
		t.stretchOf[node] = at
	}
}

// blocks returns the number of blocks of all stretches.
func (t *tree) blocks() int {
	if len(t.stretches) == 0 {
		return 0
	}
	last := t.stretches[len(t.stretches)-1]
	return last.first + last.blocks
}

// prompt returns the blocks of a prompt that ends at a node.
func (t *tree) prompt(node int32) (ids trace.IDs) {
	for at := t.stretchOf[node]; at >= 0; at = t.stretches[at].above {
		s := t.stretches[at]
		ids.Runs = append(ids.Runs, trace.Run{First: int64(s.first), N: s.blocks})
		ids.Len += s.blocks
	}
	slices.Reverse(ids.Runs)
	return ids
}

// stretch changes the length of each stretch by a factor of its own.
func (s *resample) stretch() {
	s.tree.cut()
	first := 0
	for k := range s.tree.stretches {
		p := &s.tree.stretches[k]
		p.blocks = max(1, rounded(float64(p.blocks)*s.near()))
		p.first = first
		first += p.blocks
	}
}
