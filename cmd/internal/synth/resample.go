package synth

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// resampled draws a trace of a cache and changes its lengths and times.
func resampled(d *draws, c *mmapcache.Cache) (*weka.Recording, error) {
	plan, err := c.Plan(d.below(c.Traces()))
	if err != nil {
		return nil, err
	}
	s := &resample{draws: d, plan: plan, tree: newTree(int(plan.Trace.Blocks)), block: int(plan.Trace.BlockSize)}
	s.gather()
	s.stretch()
	s.warp()
	return s.recording(), nil
}

// resample is a trace of a cache on its way to one that is made up.
type resample struct {
	*draws
	plan  *mmapcache.Plan
	tree  *tree
	block int // tokens
	turns []turn
}

// turn is a request of the trace.
type turn struct {
	mmapcache.Turn
	session    *mmapcache.Session
	node       int32   // at which its prompt ends
	system     float64 // share of its prompt that the first message of the system has
	begin, end int64   // milliseconds from the first request
}

// child reports whether a request is that of a subagent, which number Outer stands for.
func (t *turn) child() bool { return t.Inner != mmapcache.None }

// gather reads the requests in the order of their times.
func (s *resample) gather() {
	for n := range s.plan.Sessions {
		session := &s.plan.Sessions[n]
		for k := session.FirstTurn; k < session.FirstTurn+session.Turns; k++ {
			t := turn{Turn: s.plan.Turns[k], session: session}
			t.begin = int64(math.Round(t.T * 1000))
			t.end = t.begin + s.duration(&t)
			t.node, t.system = s.prompt(t.Last)
			s.turns = append(s.turns, t)
		}
	}
	slices.SortStableFunc(s.turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.Outer, b.Outer), cmp.Compare(a.Inner, b.Inner))
	})
	s.cutUnknown()
}

// duration returns how long the answer to a request took, in milliseconds. What was not recorded is drawn.
func (s *resample) duration(t *turn) int64 {
	if t.APITime >= 0 { // neither NaN nor damaged
		return int64(math.Round(t.APITime * 1000))
	}
	return int64(s.answerTime(int(t.Out)))
}

// cutUnknown ends drawn durations no later than the next request of the session begins.
func (s *resample) cutUnknown() {
	next := map[*mmapcache.Session]int64{}
	for k := len(s.turns) - 1; k >= 0; k-- {
		t := &s.turns[k]
		if begin, known := next[t.session]; known && !(t.APITime >= 0) {
			t.end = min(t.end, begin)
		}
		next[t.session] = t.begin
	}
}

// prompt adds a prompt to the tree, and returns the node at which it ends and which share of it is the message of the system that
// it begins with.
func (s *resample) prompt(last int32) (node int32, system float64) {
	var path []int32
	for at := last; at != mmapcache.None; at = s.plan.Segments[at].Parent {
		path = append(path, at)
	}
	blocks, ofSystem, begins := 0, 0, true
	for _, at := range slices.Backward(path) {
		segment := &s.plan.Segments[at]
		begins = begins && segment.Role == mmapcache.System
		if segment.Flags&(mmapcache.Filler|mmapcache.Head) != 0 {
			continue // less than a block
		}
		for k := range segment.Count {
			node = s.tree.child(node, int32(segment.First+k))
		}
		blocks += int(segment.Count)
		if begins {
			ofSystem = blocks
		}
	}
	s.tree.ends[node] = true
	return node, float64(ofSystem) / float64(max(blocks, 1))
}

// recording writes the requests down.
func (s *resample) recording() *weka.Recording {
	r := &weka.Recording{BlockSize: s.block}
	children := map[uint32]*weka.RecordedSubagent{}
	begun, l := false, &lane{draws: s.draws, streamed: s.chance(streamed), turnEnds: s.number(turnEnds)}
	for k := range s.turns {
		t := &s.turns[k]
		q := s.request(t, l)
		prefix := int(t.system*float64(q.IDs.Len)) * s.block
		if !t.child() {
			if !begun {
				r.ToolTokens, r.SystemTokens = prefix-prefix/5, prefix/5
				begun = true
			}
			r.Entries = append(r.Entries, weka.RecordedEntry{RecordedRequest: q})
			continue
		}
		child := children[t.Outer]
		if child == nil {
			child = s.subagent(t, len(children)+1, prefix)
			children[t.Outer] = child
			r.Entries = append(r.Entries, weka.RecordedEntry{Subagent: child})
		}
		s.add(child, q)
	}
	number(r, s.tree.blocks())
	return r
}

// modelName is what a trace may call a model.
var modelName = lazyregexp.New(`^[A-Za-z0-9._:/@-]{1,128}$`)

// request writes a request.
func (s *resample) request(t *turn, l *lane) weka.RecordedRequest {
	q := weka.RecordedRequest{T: weka.Millis(t.begin), APITime: weka.Millis(t.end - t.begin), Streamed: l.streamed, TTFT: weka.Unknown, ThinkTime: weka.Unknown}
	q.IDs = s.tree.prompt(t.node)
	q.In = max(q.IDs.Len*s.block+s.below(s.block), 1)
	q.Out = rounded(float64(t.Out) * s.near())
	if q.Model = t.Model; !modelName().MatchString(q.Model) {
		q.Model = "unknown"
	}
	switch t.Input {
	case mmapcache.UserInput:
		q.InputTypes = inputOfUsers
	case mmapcache.ToolResult:
		q.InputTypes = afterTools[0].value
	}
	q.OutputTypes, q.Stop = l.answer()
	if q.Streamed {
		q.TTFT = min(millis(s.number(firstToken)), q.APITime)
	}
	return q
}

// subagent begins a subagent with its first request.
func (s *resample) subagent(t *turn, number, prefix int) *weka.RecordedSubagent {
	child := &weka.RecordedSubagent{
		T: weka.Millis(t.begin), AgentID: fmt.Sprintf("agent_%03d", number), Type: one(s.draws, subagentTypes), Status: "completed",
		ToolTokens: prefix - prefix/5, SystemTokens: prefix / 5, Duration: weka.Unknown, TotalTokens: weka.Unknown, ToolUses: weka.Unknown,
	}
	if t.session.JoinTurn != t.session.SpawnTurn+1 { // the main agent goes on meanwhile
		child.Status = "async_launched"
	}
	return child
}

// add adds the next request of a subagent.
func (s *resample) add(child *weka.RecordedSubagent, q weka.RecordedRequest) {
	child.Requests = append(child.Requests, q)
	if child.Status != "completed" {
		return
	}
	child.Duration = max(child.Duration, q.T+q.APITime-child.T)
	child.TotalTokens = int64(q.In + q.Out)
	child.ToolUses = max(child.ToolUses, 0)
	if q.Stop == "tool_use" {
		child.ToolUses++
	}
}

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

// warp changes all times of the trace, and lets the first be 0. Each interval between two events gets a factor of its own, so
// events keep their order, and what overlapped overlaps.
func (s *resample) warp() {
	var events []int64
	for k := range s.turns {
		events = append(events, s.turns[k].begin, s.turns[k].end)
	}
	slices.Sort(events)
	events = slices.Compact(events)
	moved := make([]int64, len(events))
	for k := 1; k < len(events); k++ {
		moved[k] = moved[k-1] + max(1, int64(rounded(float64(events[k]-events[k-1])*s.near())))
	}
	at := func(event int64) int64 {
		k, _ := slices.BinarySearch(events, event)
		return moved[k]
	}
	for k := range s.turns {
		t := &s.turns[k]
		t.begin, t.end = at(t.begin), at(t.end)
	}
}
