package demo

import (
	"cmp"
	"fmt"
	"slices"
)

const blockSize = 64

// A trace is one in the making. While it is told, a block is known by the number under which it was first written;
// record gives out the final ids.
type trace struct {
	id     string
	rng    rng
	blocks int // numbers given out
	root   *lane
	agents []*agent
	system map[string][]int // blocks of the system prompt, by role
}

// A role is what a lane is sent to do: who it is for the record, which model answers, and how many tokens its tools
// and its system prompt take. All lanes of one role in a trace begin with the same blocks.
type role struct {
	name, model   string
	tools, system int
	inherits      bool // it begins with the parent's prompt instead
}

// The models have no makers; nobody is compared here.
const (
	large = "demo-large"
	small = "demo-small"
)

var (
	coder   = role{name: "coder", model: large, tools: 900, system: 412}
	explore = role{name: "Explore", model: small, tools: 640, system: 230}
	planner = role{name: "Plan", model: large, tools: 700, system: 390}
	general = role{name: "general-purpose", model: large, tools: 800, system: 301}
	clone   = role{name: "general-purpose", model: large, inherits: true}
)

func newTrace(id string, seed uint64) *trace {
	t := &trace{id: id, rng: rng(seed), system: make(map[string][]int)}
	t.root = t.lane(coder)
	return t
}

// A lane is one conversation: the parent's, or that of a subagent, whose clock starts at 0. Its prompt is in tokens
// long and covered by blocks up to the last whole one.
type lane struct {
	trace    *trace
	role     role
	in       int
	prompt   []int
	requests []*request
	cut      map[*request]bool // numbered, but left out of the record

	answered millis // end of the last response
	free     millis // before this the next request cannot go
	streams  bool
}

func (t *trace) lane(r role) *lane {
	l := &lane{trace: t, role: r, cut: make(map[*request]bool)}
	if t.system[r.name] == nil {
		t.system[r.name] = t.fresh((r.tools + r.system) / blockSize)
	}
	l.prompt = slices.Clone(t.system[r.name])
	l.in = r.tools + r.system
	return l
}

func (t *trace) fresh(n int) []int {
	blocks := make([]int, n)
	for i := range blocks {
		t.blocks++
		blocks[i] = t.blocks
	}
	return blocks
}

// ---- what can happen in a lane; each verb is one request ----

// start sends the first prompt: the system prompt, which is there already, and so many tokens of task.
func (l *lane) start(task int) *request { return l.grow(task) }

// grow appends to the prompt.
func (l *lane) grow(tokens int) *request {
	l.in += tokens
	l.prompt = append(l.prompt, l.trace.fresh(l.in/blockSize-len(l.prompt))...)
	return l.send(l.role.model, l.in, l.prompt)
}

// align appends to the prompt so that it ends with its last block.
func (l *lane) align(blocks int) *request { return l.grow(blocks*blockSize - l.in%blockSize) }

// edit takes tokens off the end of the prompt and appends others.
func (l *lane) edit(off, on int) *request {
	l.in -= off
	l.prompt = l.prompt[:l.in/blockSize]
	return l.grow(on)
}

// pullback is an edit that takes off a part of the prompt, in percent.
func (l *lane) pullback(percent, on int) *request { return l.edit(l.in*percent/100, on) }

// reset forgets everything, the system prompt too.
func (l *lane) reset(tokens int) *request { return l.edit(l.in, tokens) }

// again sends the last prompt once more.
func (l *lane) again() *request { return l.grow(0) }

// aside asks another model something small that has nothing to do with the prompt, such as a title.
func (l *lane) aside(model string, tokens int) *request {
	return l.send(model, tokens, l.trace.fresh(tokens/blockSize))
}

// work appends n times, by some hundred tokens each.
func (l *lane) work(n int) {
	for range n {
		l.grow(l.trace.rng.between(200, 1700))
	}
}

// lost is a request that went out and had its part in the numbering, but was cut from the record.
func (l *lane) lost(r *request) { l.cut[r] = true }

func (l *lane) send(model string, in int, prompt []int) *request {
	rng := &l.trace.rng
	r := &request{
		Type: "n", Model: model, In: in, Out: rng.between(40, 320), HashIDs: slices.Clone(prompt),
		InputTypes: []string{"text"}, OutputTypes: []string{"text", "tool_use"}, Stop: "tool_use",
	}
	if rng.between(1, 6) == 1 {
		r.OutputTypes, r.Stop = []string{"text"}, "end_turn"
	}
	think := millis(0)
	if len(l.requests) > 0 {
		last := l.requests[len(l.requests)-1]
		if last.Stop == "tool_use" {
			r.InputTypes[0] = "tool_result"
		}
		r.T = max(l.answered, l.free) + rng.pause()
		// The recorder knew a response's end only by api_time; without it, it counted from the request.
		think = r.T - last.T
		if last.APITime != nil {
			think -= *last.APITime
		}
	}
	took := millis(rng.between(100, 800))
	l.answered = r.T + took
	r.ThinkTime, r.APITime = &think, &took
	l.requests = append(l.requests, r)
	if l.streams {
		r.streamed()
	}
	return r
}

// ---- what can be said of a request ----

// streamed makes it a request whose first token was timed.
func (r *request) streamed() *request {
	ttft := *r.APITime / 3
	r.Type, r.TTFT = "s", &ttft
	return r
}

// outputs sets the length of the answer.
func (r *request) outputs(n int) *request {
	r.Out = n
	if n == 0 {
		r.OutputTypes, r.Stop = []string{}, ""
	}
	return r
}

// noAPITime and noThinkTime are the recorder's gaps.
func (r *request) noAPITime() *request   { r.APITime = nil; return r }
func (r *request) noThinkTime() *request { r.ThinkTime = nil; return r }

// ---- subagents ----

type agent struct {
	id    string
	start millis // on the parent's clock
	lane  *lane
	async bool
}

func (a *agent) end() millis { return a.start + a.lane.answered }

// spawn runs a subagent soon after the parent's last answer; the parent waits for it. Two spawns in a row run side by side.
func (l *lane) spawn(r role, story func(*lane)) {
	l.free = max(l.free, l.fork(r, story).end())
}

// fork runs a subagent while the parent goes on; the next turn after its end hears of it.
func (l *lane) fork(r role, story func(*lane)) *agent {
	t := l.trace
	a := &agent{
		id:    fmt.Sprintf("agent_%03d", len(t.agents)+1),
		start: l.answered + millis(t.rng.between(20, 90)),
	}
	if r.inherits {
		r.tools, r.system = l.role.tools, l.role.system
		a.lane = &lane{trace: t, role: r, in: l.in, prompt: slices.Clone(l.prompt)}
	} else {
		a.lane = t.lane(r)
	}
	story(a.lane)
	t.agents = append(t.agents, a)
	return a
}

// launch runs a subagent in the background: the record has its start, and no end.
func (l *lane) launch(r role, story func(*lane)) { l.fork(r, story).async = true }

func (a *agent) record() *subagent {
	s := &subagent{
		T: a.start, Type: "subagent", AgentID: a.id, SubagentType: a.lane.role.name, Status: "async_launched",
		Requests: a.lane.requests, Models: models(a.lane.requests),
		ToolTokens: a.lane.role.tools, SystemTokens: a.lane.role.system,
	}
	if !a.async { // of a subagent that reports back, the set records when it did
		last := s.Requests[len(s.Requests)-1]
		duration, size, tools := int(a.lane.answered), last.In+last.Out, len(s.Requests)-1
		s.T, s.Status = a.end(), "completed"
		s.DurationMS, s.TotalTokens, s.ToolUseCount = &duration, &size, &tools
	}
	return s
}

// ---- the record ----

// record numbers the blocks and puts everything in the order of time.
func (t *trace) record() *record {
	agents := make([]*subagent, len(t.agents))
	for i, a := range t.agents {
		agents[i] = a.record()
	}
	slices.SortStableFunc(agents, func(a, b *subagent) int { return cmp.Compare(a.T, b.T) })

	// Ids count from 1 in the order of first appearance, the whole parent first.
	ids := make(map[int]int)
	number := func(requests []*request) {
		for _, r := range requests {
			for i, block := range r.HashIDs {
				if ids[block] == 0 {
					ids[block] = len(ids) + 1
				}
				r.HashIDs[i] = ids[block]
			}
		}
	}
	number(t.root.requests)
	kept := slices.DeleteFunc(t.root.requests, func(r *request) bool { return t.root.cut[r] })

	rec := &record{
		ID: t.id, Models: models(kept), BlockSize: blockSize, HashIDScope: "local",
		ToolTokens: t.root.role.tools, SystemTokens: t.root.role.system,
	}
	rec.Totals.Parent.add(kept)
	rec.Totals.Combined.add(kept)
	rec.Totals.Count = len(agents)
	for _, a := range agents {
		number(a.Requests)
		rec.Totals.Subagents.add(a.Requests)
		rec.Totals.Combined.add(a.Requests)
		for len(kept) > 0 && kept[0].T < a.T {
			rec.Requests = append(rec.Requests, kept[0])
			kept = kept[1:]
		}
		rec.Requests = append(rec.Requests, a)
	}
	for _, r := range kept {
		rec.Requests = append(rec.Requests, r)
	}
	return rec
}

func models(requests []*request) []string {
	var names []string
	for _, r := range requests {
		if !slices.Contains(names, r.Model) {
			names = append(names, r.Model)
		}
	}
	return names
}

// ---- chance ----

// rng is splitmix64: a few lines, and the same numbers for ever.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between draws from lo to hi, both included.
func (r *rng) between(lo, hi int) int { return lo + int(r.next()%uint64(hi-lo+1)) }

// pause draws a think time of 0.1 to 3 s, mostly short.
func (r *rng) pause() millis {
	x := int64(r.between(0, 1000))
	return millis(100 + 2900*x*x/1_000_000)
}
