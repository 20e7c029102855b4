package synth

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// madeUp draws a trace from the distributions of the public corpus.
func madeUp(d *draws) *weka.Recording {
	first := d.whole(firstPrompt)
	n := d.whole(requests)
	if first >= longPrompt {
		n = d.whole(requestsOfBig)
	}
	r := &weka.Recording{BlockSize: blockSize}
	r.ToolTokens, r.SystemTokens = min(d.whole(toolPrefix), first*3/4), min(d.whole(systemPrefix), first/5)
	l := &lane{draws: d, made: new(int), growth: newBlocks, longest: d.limit(first), model: one(d, models), streamed: d.chance(streamed), turnEnds: d.number(turnEnds)}
	l.begin(trace.IDs{}, first/blockSize)
	children := newFamily(l, n)
	for k := range n {
		if k > 0 {
			l.think()
			l.change()
		}
		q := l.next(k == 0)
		if children.due(k) { // it ends with the call that begins them
			q.OutputTypes, q.Stop = []string{"tool_use"}, "tool_use"
			l.last = q.Stop
		}
		r.Entries = append(r.Entries, weka.RecordedEntry{RecordedRequest: q})
		for _, s := range children.spawn(k) {
			r.Entries = append(r.Entries, weka.RecordedEntry{Subagent: s})
		}
	}
	number(r, *l.made)
	return r
}

// limit draws how long the prompts of a trace may become that begins with a prompt of some tokens.
func (d *draws) limit(first int) int {
	longest := d.whole(longest)
	if longest < first*5/4 {
		return longestAtMost
	}
	return longest
}

// lane makes the requests of one agent, one after the other. The blocks of its prompts have numbers in the order in which they
// are made; number gives them those of the trace.
type lane struct {
	*draws
	made     *int // blocks of the trace so far
	prompt   trace.IDs
	growth   *curve
	longest  int // tokens
	model    string
	streamed bool
	now      weka.Millis // when the answer to the request before ended
	last     string      // stop of that answer
	turnEnds float64     // share of answers that call no tools
}

// next makes the next request. It begins at the time now, which moves to its end.
func (l *lane) next(first bool) weka.RecordedRequest {
	r := weka.RecordedRequest{T: l.now, Streamed: l.streamed, In: l.length(), IDs: l.ids(), Out: l.whole(completion), TTFT: weka.Unknown, ThinkTime: weka.Unknown}
	r.Model, r.InputTypes = l.model, inputOfUsers
	if !first && l.last == "tool_use" {
		r.InputTypes = one(l.draws, afterTools)
	}
	r.OutputTypes, r.Stop = l.answer()
	r.APITime = l.answerTime(r.Out)
	if r.Streamed {
		r.TTFT = millis(l.number(firstToken))
		r.APITime = max(r.APITime, r.TTFT)
	}
	l.now += r.APITime
	l.last = r.Stop
	return r
}

// length returns the tokens of a prompt that ends within a block.
func (l *lane) length() int { return max(l.prompt.Len*blockSize+l.below(blockSize), 1) }

// ids returns the blocks of the prompt, for a request to keep.
func (l *lane) ids() trace.IDs {
	return trace.IDs{Runs: slices.Clone(l.prompt.Runs), Len: l.prompt.Len}
}

// answer draws what an answer consists of, and why it ends.
func (d *lane) answer() (types []string, stop string) {
	switch {
	case d.streamed && d.chance(unknownStop):
		return nil, ""
	case d.chance(d.turnEnds):
		return one(d.draws, turnOutput), "end_turn"
	}
	return one(d.draws, toolOutput), "tool_use"
}

// answerTime draws how long an answer of some tokens takes.
func (d *draws) answerTime(tokens int) weka.Millis {
	return millis(min((answerBase+float64(answerToken*float64(tokens)))*d.number(answerPace), answerMost))
}

func millis(seconds float64) weka.Millis { return weka.Millis(rounded(seconds * 1000)) }

// think lets the time pass until the next request.
func (l *lane) think() {
	switch l.last {
	case "tool_use":
		l.now += millis(l.number(thinkAfterTools))
	case "end_turn":
		l.now += millis(l.number(thinkAfterTurn))
	default:
		l.now += millis(l.number(thinkUnknown))
	}
}

// begin sets the first prompt: so many blocks, those of a prefix first.
func (l *lane) begin(prefix trace.IDs, blocks int) {
	l.prompt = trace.IDs{Runs: slices.Clone(prefix.Runs), Len: prefix.Len}
	l.grow(blocks - prefix.Len)
}

// change makes the next prompt from the one before. A prompt that would exceed the longest is pulled back instead.
func (l *lane) change() {
	how, more := one(l.draws, changes), max(l.whole(l.growth), 1)
	if how <= tailEdited && (l.prompt.Len+more)*blockSize > l.longest {
		how = pulledBack
	}
	switch how {
	case appended:
		l.grow(more)
	case lastChanged:
		l.cut(l.prompt.Len - 1)
		l.grow(more)
	case tailEdited:
		l.cut(l.prompt.Len - max(1, min(l.whole(editedBlocks), l.prompt.Len/10)))
		l.grow(l.whole(afterEdit))
	case pulledBack:
		l.cut(max(1, int(float64(l.prompt.Len)*l.number(kept))))
		l.grow(max(1, min(l.whole(afterPull), l.longest*9/10/blockSize-l.prompt.Len)))
	case begunAnew:
		length := float64(l.prompt.Len) * l.number(anew)
		l.cut(0)
		l.grow(max(1, min(int(length), l.longest/blockSize)))
		if l.chance(otherModel) {
			l.model = one(l.draws, models)
		}
	}
}

// grow appends n new blocks to the prompt.
func (l *lane) grow(n int) {
	if n <= 0 {
		return
	}
	l.prompt.Runs = append(l.prompt.Runs, trace.Run{First: int64(*l.made), N: n})
	l.prompt.Len += n
	*l.made += n
}

// cut leaves the first blocks of the prompt.
func (l *lane) cut(n int) { l.prompt = l.prompt.Head(n) }

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
