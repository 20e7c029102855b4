package demo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agentx/agentx/internal/splitmix"
)

const blockSize = 64

// trace is a trace that is being built. Until record assigns the final ids, a block has a number in the order of creation.
type trace struct {
	id     string
	rng    rng
	blocks int // created so far
	root   *lane
	agents []*agent
	system map[string][]int // blocks of the system prompt, by role
}

// role is the kind of a conversation. All lanes of one role in a trace begin with the same system prompt, and so with the
// same blocks.
type role struct {
	name          string // as the type of a subagent in the record
	model         string
	tools, system int  // tokens of the tools and of the system prompt
	inherits      bool // a lane begins with its parent's prompt instead
}

// Model names that no vendor has.
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
	t := &trace{id: id, rng: rng{splitmix.Rand(seed)}, system: make(map[string][]int)}
	t.root = t.lane(coder)
	return t
}

// lane is one conversation: that of the parent, or of a subagent, whose clock starts at 0.
type lane struct {
	trace    *trace
	role     role
	in       int   // length of the prompt, tokens
	prompt   []int // its whole blocks
	requests []*request
	omitted  map[*request]bool // their blocks are numbered, but the record lacks them

	answeredAt   millis // when the last response ended
	blockedUntil millis // earliest time of the next request
	streamed     bool
}

func (t *trace) lane(r role) *lane {
	l := &lane{trace: t, role: r, omitted: make(map[*request]bool)}
	if t.system[r.name] == nil {
		t.system[r.name] = t.newBlocks((r.tools + r.system) / blockSize)
	}
	l.prompt = slices.Clone(t.system[r.name])
	l.in = r.tools + r.system
	return l
}

func (t *trace) newBlocks(n int) []int {
	blocks := make([]int, n)
	for i := range blocks {
		t.blocks++
		blocks[i] = t.blocks
	}
	return blocks
}

// ---- Requests of a lane ----

// start sends the first prompt: the system prompt and a task of some tokens.
func (l *lane) start(task int) *request { return l.grow(task) }

// grow appends to the prompt.
func (l *lane) grow(tokens int) *request {
	l.in += tokens
	l.prompt = append(l.prompt, l.trace.newBlocks(l.in/blockSize-len(l.prompt))...)
	return l.send(l.role.model, l.in, l.prompt)
}

// align appends whole blocks, and less than one more, so that the prompt ends with a whole block.
func (l *lane) align(blocks int) *request { return l.grow(blocks*blockSize - l.in%blockSize) }

// edit replaces off tokens at the end of the prompt by on others.
func (l *lane) edit(off, on int) *request {
	l.in -= off
	l.prompt = l.prompt[:l.in/blockSize]
	return l.grow(on)
}

// cutBack is an edit that removes a part of the prompt, in percent.
func (l *lane) cutBack(percent, on int) *request { return l.edit(l.in*percent/100, on) }

// reset replaces the whole prompt, with the system prompt.
func (l *lane) reset(tokens int) *request { return l.edit(l.in, tokens) }

// repeat sends the last prompt once more.
func (l *lane) repeat() *request { return l.grow(0) }

// sideRequest asks another model something short that has no part of the prompt, such as a title.
func (l *lane) sideRequest(model string, tokens int) *request {
	return l.send(model, tokens, l.trace.newBlocks(tokens/blockSize))
}

// growTimes sends n requests. Each appends 200 to 1700 tokens.
func (l *lane) growTimes(n int) {
	for range n {
		l.grow(l.trace.rng.between(200, 1700))
	}
}

// cutFromRecord leaves a request out of the record. Its blocks keep their ids.
func (l *lane) cutFromRecord(r *request) { l.omitted[r] = true }

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
		r.T = max(l.answeredAt, l.blockedUntil) + rng.thinkTime()
		// The recorder knew a response's end only by api_time; without it, it counted from the request.
		think = r.T - last.T
		if last.APITime != nil {
			think -= *last.APITime
		}
	}
	took := millis(rng.between(100, 800))
	l.answeredAt = r.T + took
	r.ThinkTime, r.APITime = &think, &took
	l.requests = append(l.requests, r)
	if l.streamed {
		r.streamed()
	}
	return r
}

// ---- Properties of a request ----

// streamed makes the request a streamed one, with the time of its first token.
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

// noAPITime and noThinkTime leave out what recorders sometimes do not record.
func (r *request) noAPITime() *request   { r.APITime = nil; return r }
func (r *request) noThinkTime() *request { r.ThinkTime = nil; return r }

// ---- Subagents ----

// agent is a run of a subagent.
type agent struct {
	id    string
	start millis // on the parent's clock
	lane  *lane
	async bool
}

func (a *agent) end() millis { return a.start + a.lane.answeredAt }

// spawn runs a subagent soon after the parent's last answer, and the parent waits for it. Two spawns in a row run in
// parallel.
func (l *lane) spawn(r role, run func(*lane)) {
	l.blockedUntil = max(l.blockedUntil, l.fork(r, run).end())
}

// fork runs a subagent while the parent continues. The parent's first turn after its end joins it.
func (l *lane) fork(r role, run func(*lane)) *agent {
	t := l.trace
	a := &agent{
		id:    fmt.Sprintf("agent_%03d", len(t.agents)+1),
		start: l.answeredAt + millis(t.rng.between(20, 90)),
	}
	if r.inherits {
		r.tools, r.system = l.role.tools, l.role.system
		a.lane = &lane{trace: t, role: r, in: l.in, prompt: slices.Clone(l.prompt)}
	} else {
		a.lane = t.lane(r)
	}
	run(a.lane)
	t.agents = append(t.agents, a)
	return a
}

// forkAsync runs a subagent in the background. The record has its start but not its end.
func (l *lane) forkAsync(r role, run func(*lane)) { l.fork(r, run).async = true }

// record returns the marker of the subagent in the parent's list of requests.
func (a *agent) record() *subagent {
	s := &subagent{
		T: a.start, Type: "subagent", AgentID: a.id, SubagentType: a.lane.role.name, Status: "async_launched",
		Requests: a.lane.requests, Models: models(a.lane.requests),
		ToolTokens: a.lane.role.tools, SystemTokens: a.lane.role.system,
	}
	if !a.async { // the public set records the time at which a subagent returned
		last := s.Requests[len(s.Requests)-1]
		duration, size, tools := int(a.lane.answeredAt), last.In+last.Out, len(s.Requests)-1
		s.T, s.Status = a.end(), "completed"
		s.DurationMS, s.TotalTokens, s.ToolUseCount = &duration, &size, &tools
	}
	return s
}

// ---- The record ----

// record assigns the ids of the blocks, and puts requests and subagents in the order of time.
func (t *trace) record() *record {
	agents := make([]*subagent, len(t.agents))
	for i, a := range t.agents {
		agents[i] = a.record()
	}
	slices.SortStableFunc(agents, func(a, b *subagent) int { return cmp.Compare(a.T, b.T) })

	// Ids count from 1 in the order of first use, those of the parent first.
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
	kept := slices.DeleteFunc(t.root.requests, func(r *request) bool { return t.root.omitted[r] })

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

// ---- Random numbers ----

type rng struct{ splitmix.Rand }

// between draws a number from lo to hi, both included.
func (r *rng) between(lo, hi int) int { return lo + int(r.Next()%uint64(hi-lo+1)) }

// thinkTime draws a time of 0.1 to 3 s, mostly short.
func (r *rng) thinkTime() millis {
	x := int64(r.between(0, 1000))
	return millis(100 + 2900*x*x/1_000_000)
}
