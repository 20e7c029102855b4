package replay

import (
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// promptLog remembers which prompts a run has sent, for the count of what a prefix cache could have held of them
// (doc/spec/results.md 17.1).
type promptLog struct {
	warmup, profiling []sentPrompt // by credit
}

// sentPrompt is the prompt of one request.
type sentPrompt struct {
	tree     int32 // ordinal in the run
	turn     int32 // in the plan of its trace
	headline bool  // of a request that the headline numbers are over
	sent     bool
}

// add notes the prompt of a request that is over.
func (l *promptLog) add(r *measure.Record) {
	list := &l.profiling
	if r.Phase == measure.WarmupPhase {
		list = &l.warmup
	}
	if more := r.Credit + 1 - len(*list); more > 0 {
		*list = slices.Grow(*list, more)[:r.Credit+1]
	}
	(*list)[r.Credit] = sentPrompt{int32(r.Tree), int32(r.PlanTurn), r.Bucket == measure.Profiling && r.Error == nil, true}
}

// reuse counts the prompt tokens of the headline, and those of them that stand in a prefix that an earlier request had sent.
// played has the trace of every tree. The error is one of the cache.
func (l *promptLog) reuse(c *mmapcache.Cache, endpoint payload.Endpoint, target payload.MarkerTarget, played []int) (*measure.Prompts, error) {
	all := slices.DeleteFunc(slices.Concat(l.warmup, l.profiling), func(p sentPrompt) bool { return !p.sent })
	groups := map[int][]sentPrompt{}               // by trace; traces that may share blocks are one group
	shared := c.SharedTraces() > 0 || c.HasTexts() // sessions of logs share prefixes and system prompts
	for _, p := range all {
		group := played[p.tree]
		if shared {
			group = 0
		}
		groups[group] = append(groups[group], p)
	}
	total := &measure.Prompts{}
	for _, list := range groups {
		err := c.Guard(func() error {
			count := prefixCount{prefixTrie: newPrefixTrie(c, endpoint, target), total: total}
			return count.add(list, played)
		})
		if err != nil {
			return nil, err
		}
	}
	return total, nil
}

// prefixCount counts what prompts of the traces of a trie have in common with earlier ones.
type prefixCount struct {
	*prefixTrie
	total *measure.Prompts
}

// add counts prompts, in the order in which they were sent. The error is one of the cache.
func (c *prefixCount) add(list []sentPrompt, played []int) error {
	turns := map[int][]int32{} // by trace
	for _, p := range list {
		turns[played[p.tree]] = append(turns[played[p.tree]], p.turn)
	}
	ends := map[int]map[int32]int32{}
	for trace, list := range turns {
		slices.Sort(list)
		plan, err := c.cache.Plan(trace)
		if err != nil {
			return err
		}
		if ends[trace], err = c.prefixTrie.add(trace, plan, slices.Compact(list)); err != nil {
			return err
		}
	}
	type counted struct {
		sentPrompt
		end    int32
		reused int64
	}
	prompts := make([]counted, len(list))
	for k, p := range list { // what trees share, in the order of sending
		end := ends[played[p.tree]][p.turn]
		prompts[k] = counted{p, end, c.send(c.common(end), 1, false)}
	}
	slices.SortStableFunc(prompts, func(a, b counted) int { return int(a.tree) - int(b.tree) })
	for _, p := range prompts { // what belongs to one tree, tree by tree
		if c.nodes[p.end].own {
			p.reused = max(p.reused, c.send(p.end, 1+p.tree, true))
		}
		if p.headline {
			c.total.Tokens += c.nodes[p.end].depth
			c.total.Reused += p.reused
		}
	}
	return nil
}

// common returns the last node on the way to a node that all trees share.
func (c *prefixCount) common(n int32) int32 {
	for c.nodes[n].own {
		n = c.nodes[n].key.parent
	}
	return n
}

// send marks the way to a node, among those that belong to one tree or those that all share, and returns the tokens up to where
// it was marked before.
func (c *prefixCount) send(n, mark int32, own bool) int64 {
	for ; n != 0 && c.nodes[n].own == own; n = c.nodes[n].key.parent {
		node := &c.nodes[n]
		if node.mark == mark {
			return node.depth
		}
		node.mark = mark
	}
	return 0
}

// prefixTrie holds the prompts of some traces as sequences of windows of the prompt corpus, so that two prompts share the path of
// what they have in common, to the token. The beginning of a message is a node without tokens; the marker is a node, too,
// which stands for the markers of all trees: what lies below it belongs to one tree each.
type prefixTrie struct {
	cache      *mmapcache.Cache
	place      mmapcache.MarkerPlace
	marker     int // tokens of one; 0: there is none
	endpoint   payload.Endpoint
	nodes      []prefixNode
	children   map[prefixKey]int32
	windows    []mmapcache.Window // scratch
	corpusSize uint32
}

// prefixNode is the end of a window, of the beginning of a message, or of the marker.
type prefixNode struct {
	key    prefixKey
	tokens uint32
	depth  int64 // tokens from the root to here
	own    bool  // of one tree: the marker is on the way
	mark   int32 // for prefixCount: 1 + the tree that has sent it last, 1 where all trees share it; 0: none
}

// prefixKey finds a node below its parent. No two windows below one parent begin at the same token.
type prefixKey struct {
	parent int32
	kind   int32  // 0: a window; markerKey; else the beginning of a message
	start  uint32 // of a window; of a message, 1 + the turn whose tool result it is, 0: it is none
}

const markerKey = -1

// newPrefixTrie returns a trie of no prompt.
func newPrefixTrie(c *mmapcache.Cache, endpoint payload.Endpoint, target payload.MarkerTarget) *prefixTrie {
	t := &prefixTrie{
		cache: c, place: target.Place(), endpoint: endpoint, nodes: make([]prefixNode, 1), children: map[prefixKey]int32{}, corpusSize: uint32(c.CorpusTokens()),
	}
	if target != payload.NoMarker {
		t.marker = payload.MarkerTokens(c.Arenas.Marker)
	}
	return t
}

// markerState says where on its way to a segment a prompt has its marker.
type markerState uint8

const (
	unmarked markerState = iota // not yet
	due                         // behind the message that the segment belongs to
	marked                      // before the segment's end
)

// add adds the prompts of turns of a trace, and returns the node at which each ends. The error is one of the cache.
func (t *prefixTrie) add(trace int, p *mmapcache.Plan, turns []int32) (ends map[int32]int32, err error) {
	needed := make([]bool, len(p.Segments))
	for _, turn := range turns {
		for s := p.Turns[turn].Last; s != mmapcache.None && !needed[s]; s = p.Segments[s].Parent {
			needed[s] = true
		}
	}
	tools := map[int32]uint32{} // 1 + the turn whose result a segment is
	for _, r := range p.Tools {
		tools[r.Segment] = r.Turn + 1
	}
	nodes, states := make([]int32, len(p.Segments)), make([]markerState, len(p.Segments))
	for k := range p.Segments { // parents stand before their children
		if !needed[k] {
			continue
		}
		nodes[k], states[k] = t.addSegment(p, k, tools, nodes, states)
		if t.windows, err = t.cache.AppendWindows(t.windows[:0], trace, p, k); err != nil {
			return nil, err
		}
		for _, w := range t.windows {
			nodes[k] = t.window(nodes[k], w)
		}
	}
	ends = make(map[int32]int32, len(turns))
	for _, turn := range turns {
		ends[turn] = 0
		if last := p.Turns[turn].Last; last != mmapcache.None {
			ends[turn] = nodes[last]
			if states[last] == due {
				ends[turn] = t.mark(nodes[last])
			}
		}
	}
	return ends, nil
}

// addSegment adds what begins a segment behind its parent.
func (t *prefixTrie) addSegment(p *mmapcache.Plan, k int, tools map[int32]uint32, nodes []int32, states []markerState) (node int32, state markerState) {
	s := &p.Segments[k]
	first := s.Parent == mmapcache.None
	if !first {
		node, state = nodes[s.Parent], states[s.Parent]
	}
	if s.Flags&mmapcache.Continues == 0 {
		if state == due {
			node, state = t.mark(node), marked
		}
		answer := tools[int32(k)]
		node = t.beginMessage(node, s.Role, answer)
		if state == unmarked && t.takesMarker(s.Role, first, answer > 0) {
			if state = due; !t.place.After {
				node, state = t.mark(node), marked
			}
		}
	}
	return node, state
}

// beginMessage returns the node of the beginning of a message behind a node: what a body writes there. A list of token ids has
// nothing between messages, a text the same between all. The answer is 1 + the turn whose tool result the message is; 0: it is none.
func (t *prefixTrie) beginMessage(node int32, role mmapcache.Role, answer uint32) int32 {
	switch {
	case !t.endpoint.Separates():
		return node
	case !t.endpoint.Roles():
		role, answer = 0, 0
	}
	return t.child(prefixKey{node, 1 + int32(role), answer}, 0)
}

// takesMarker reports whether the marker stands at a message, of a prompt that has had none. A system prompt is the first message of
// its prompt.
func (t *prefixTrie) takesMarker(role mmapcache.Role, first, isTool bool) bool {
	switch {
	case t.marker == 0:
		return false
	case role == mmapcache.System:
		return t.place.System && first
	}
	return role == mmapcache.User && !isTool
}

// mark returns the node of the marker behind a node.
func (t *prefixTrie) mark(node int32) int32 {
	return t.child(prefixKey{node, markerKey, 0}, uint32(t.marker))
}

// child returns the node of a key, a new one where there is none.
func (t *prefixTrie) child(key prefixKey, tokens uint32) int32 {
	if n, ok := t.children[key]; ok {
		return n
	}
	parent := &t.nodes[key.parent]
	n := int32(len(t.nodes))
	t.nodes = append(t.nodes, prefixNode{key: key, tokens: tokens, depth: parent.depth + int64(tokens), own: parent.own || key.kind == markerKey})
	t.children[key] = n
	return n
}

// window returns the node at the end of a window behind a node. Where a longer window begins there, it splits that in two.
func (t *prefixTrie) window(node int32, w mmapcache.Window) int32 {
	for w.Tokens > 0 {
		n := t.child(prefixKey{node, 0, w.Start}, w.Tokens)
		have := t.nodes[n].tokens
		if have > w.Tokens {
			return t.split(n, w.Tokens)
		}
		node, w.Start, w.Tokens = n, (w.Start+have)%t.corpusSize, w.Tokens-have
	}
	return node
}

// split makes a node of the first tokens of a node, between its parent and it, and returns it.
func (t *prefixTrie) split(n int32, tokens uint32) int32 {
	old := &t.nodes[n]
	key, rest := old.key, old.tokens-tokens
	upper := prefixNode{key: key, tokens: tokens, depth: old.depth - int64(rest), own: old.own}
	m := int32(len(t.nodes))
	old.key, old.tokens = prefixKey{m, 0, (key.start + tokens) % t.corpusSize}, rest
	t.children[key], t.children[old.key] = m, n
	t.nodes = append(t.nodes, upper)
	return m
}
