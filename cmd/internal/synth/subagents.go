package synth

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// family makes the subagents of a trace.
type family struct {
	parent   *lane
	groups   map[int]int // how many begin after a request, by its number
	born     int
	common   trace.IDs         // blocks that all their prompts begin with
	prefixes map[string]prefix // by type
}

// prefix is what the prompts of subagents of one type begin with.
type prefix struct {
	tools, system int
	ids           trace.IDs
}

// newFamily draws how many subagents a trace of n requests has, and after which of them each begins. The last begins none.
func newFamily(parent *lane, n int) *family {
	f := &family{parent: parent, groups: map[int]int{}, prefixes: map[string]prefix{}}
	if n < 2 || !parent.chance(withSubagents) {
		return f
	}
	for left := parent.whole(subagents); left > 0; {
		size := min(left, one(parent.draws, groups))
		f.groups[parent.below(n-1)] += size
		left -= size
	}
	return f
}

// due reports whether subagents begin after a request.
func (f *family) due(request int) bool { return f.groups[request] > 0 }

// spawn makes the subagents that begin after a request, in the order of their times. The parent waits for those that are not in
// the background.
func (f *family) spawn(request int) (list []*weka.RecordedSubagent) {
	answered := f.parent.now
	for range f.groups[request] {
		begin := answered + millis(f.parent.number(childStart))
		s, end := f.child(begin)
		f.parent.now = max(f.parent.now, begin)
		if s.Status == "completed" {
			f.parent.now = max(f.parent.now, end+millis(f.parent.number(childStart)))
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b *weka.RecordedSubagent) int { return int(a.T - b.T) })
	for _, s := range list {
		f.born++
		s.AgentID = fmt.Sprintf("agent_%03d", f.born)
	}
	return list
}

// child makes a subagent, and returns when its last answer ended.
func (f *family) child(begin weka.Millis) (s *weka.RecordedSubagent, end weka.Millis) {
	d := f.parent.draws
	s = &weka.RecordedSubagent{T: begin, Type: one(d, subagentTypes), Status: "completed", Duration: weka.Unknown, TotalTokens: weka.Unknown, ToolUses: weka.Unknown}
	p := f.prefix(s.Type)
	s.ToolTokens, s.SystemTokens = p.tools, p.system
	l := &lane{draws: d, made: f.parent.made, growth: childNewBlocks, longest: 200_000, model: f.parent.model, streamed: f.parent.streamed, now: begin}
	if s.Type == "Explore" {
		l.model = smallModel
	}
	l.begin(p.ids, (p.tools+p.system+d.whole(childTask))/blockSize)
	tools := int64(0)
	for k, n := 0, d.whole(childRequests); k < n; k++ {
		if k > 0 {
			l.now += millis(d.number(childThink))
			l.grow(max(1, min(d.whole(l.growth), l.longest/blockSize-l.prompt.Len)))
		}
		q := l.next(k == 0)
		if s.Requests = append(s.Requests, q); q.Stop == "tool_use" {
			tools++
		}
	}
	if d.chance(inBackground) {
		s.Status = "async_launched"
	} else {
		last := s.Requests[len(s.Requests)-1]
		s.Duration, s.TotalTokens, s.ToolUses = l.now-begin, int64(last.In+last.Out), tools
	}
	return s, l.now
}

// prefix returns the prefix of a type, which is drawn for the first subagent of it.
func (f *family) prefix(kind string) prefix {
	if p, known := f.prefixes[kind]; known {
		return p
	}
	d := f.parent.draws
	l := &lane{draws: d, made: f.parent.made}
	if f.common.Len == 0 {
		l.grow(sharedByTypes)
		f.common = l.ids()
	}
	p := prefix{tools: d.whole(childTools), system: d.whole(childSystem)}
	l.begin(f.common, (p.tools+p.system)/blockSize)
	p.ids = l.ids()
	f.prefixes[kind] = p
	return p
}
