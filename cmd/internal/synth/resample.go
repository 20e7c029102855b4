package synth

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
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
var modelName = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)

// request writes a request.
func (s *resample) request(t *turn, l *lane) weka.RecordedRequest {
	q := weka.RecordedRequest{T: weka.Millis(t.begin), APITime: weka.Millis(t.end - t.begin), Streamed: l.streamed, TTFT: weka.Unknown, ThinkTime: weka.Unknown}
	q.IDs = s.tree.prompt(t.node)
	q.In = max(q.IDs.Len*s.block+s.below(s.block), 1)
	q.Out = rounded(float64(t.Out) * s.near())
	if q.Model = t.Model; !modelName.MatchString(q.Model) {
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
