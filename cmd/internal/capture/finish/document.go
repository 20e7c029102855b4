package finish

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// document makes the trace of a session.
type document struct {
	*journal.Session
	reasons []journal.Reason
	cut     int // index of the first request that is a hole; -1: none
	times   []instants
	main    int            // the agent whose requests stand outside subagents
	agents  map[int][]int  // indexes of the recorded requests of each agent, in the order of arrival
	wheres  []string       // path of each recorded request in the trace
	names   map[int]string // agent_id of each subagent
	order   []int          // the subagents in the order of the trace
	mask    masks

	thinks    []weka.Millis // of each request
	blocks    []int32       // scratch
	numbers   []int64       // per block of the session, its id in the trace; -1: not yet seen
	nextBlock int64
}

// newDocument decides which requests of a session are in its trace, and computes their times, agents and think times.
func newDocument(s *journal.Session) *document {
	reasons, cut := judge(s)
	d := &document{Session: s, reasons: reasons, cut: cut, times: timesOf(s, reasons), wheres: make([]string, len(s.Requests)), names: map[int]string{}, mask: masks{s.Export.Masks, s.Trace, map[string]string{}}}
	d.numbers = slices.Repeat([]int64{-1}, s.Blocks())
	d.group()
	d.main = d.mainAgent()
	d.leaveOutOrphans()
	d.findThinkTimes()
	return d
}

// group finds the recorded requests of each agent.
func (d *document) group() {
	d.agents = map[int][]int{}
	for k := range d.Requests {
		if d.reasons[k] == "" {
			d.agents[d.Requests[k].Agent] = append(d.agents[d.Requests[k].Agent], k)
		}
	}
}

// mainAgent returns the agent without an id, or the one that arrived first where there is none.
func (d *document) mainAgent() int {
	if len(d.agents[0]) > 0 {
		return 0
	}
	if k := slices.Index(d.reasons, ""); k >= 0 {
		return d.Requests[k].Agent
	}
	return 0
}

// leaveOutOrphans leaves out subagents before any main request, which readers of the trace would drop.
func (d *document) leaveOutOrphans() {
	if len(d.agents) == 0 {
		return
	}
	begin := d.times[d.agents[d.main][0]].begin
	for agent, list := range d.agents {
		if agent == d.main || d.times[list[0]].begin >= begin {
			continue
		}
		for _, k := range list {
			d.reasons[k] = journal.ReasonOrphan
		}
		delete(d.agents, agent)
	}
}

// findThinkTimes computes the time between each request and the end of its predecessor.
func (d *document) findThinkTimes() {
	d.thinks = make([]weka.Millis, len(d.Requests))
	found := weka.NewPredecessors(d.Parents(), -1)
	for _, list := range d.agents {
		stays := make([]weka.Stay, len(list))
		for i, k := range list {
			stays[i] = weka.Stay{Begin: d.times[k].begin, End: d.times[k].end, Last: d.LastBlock(&d.Requests[k])}
		}
		for i, think := range found.ThinkTimes(stays) {
			d.thinks[list[i]] = think
		}
	}
}

// part is a main request, or a subagent, by the request with which it begins.
type part struct {
	agent, index int
}

// parts returns what the list of the trace consists of, in its order.
func (d *document) parts() []part {
	var parts []part
	for agent, list := range d.agents {
		if agent != d.main {
			list = list[:1]
		}
		for _, k := range list {
			parts = append(parts, part{agent, k})
		}
	}
	child := func(p part) int { return map[bool]int{true: 1}[p.agent != d.main] }
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(d.times[a.index].begin, d.times[b.index].begin), cmp.Compare(child(a), child(b)), cmp.Compare(a.index, b.index))
	})
	return parts
}

// recording returns the trace.
func (d *document) recording() *weka.Recording {
	r := &weka.Recording{ID: d.Trace, BlockSize: d.BlockSize, Global: d.Export.Scope == journal.ScopeDataset}
	r.ToolTokens, r.SystemTokens = d.prefix(d.agents[d.main])
	for _, p := range d.parts() {
		where := fmt.Sprintf("requests[%d]", len(r.Entries))
		if p.agent == d.main {
			r.Entries = append(r.Entries, weka.RecordedEntry{RecordedRequest: d.request(where, p.index)})
			continue
		}
		d.order = append(d.order, p.agent)
		d.names[p.agent] = fmt.Sprintf("agent_%03d", len(d.order))
		r.Entries = append(r.Entries, weka.RecordedEntry{Subagent: d.subagent(where, p.agent)})
	}
	return r
}

// prefix returns the tokens of tools and system prompt of an agent's first request that is no preamble. Readers of a trace find them in
// whole blocks of the agent's first request, so they are at most what these hold.
func (d *document) prefix(list []int) (tools, system int) {
	if len(list) == 0 || d.Export.Masks&journal.MaskPrefixCounts != 0 {
		return 0, 0
	}
	first, r := &d.Requests[list[0]], &d.Requests[list[0]]
	if d.preamble(list) {
		r = &d.Requests[list[1]]
	}
	room := min(first.Blocks(), r.Blocks()) * d.BlockSize
	tools = min(r.IDs.Tools, room)
	return tools, min(r.IDs.System, room-tools)
}

// preamble reports whether the first request of an agent, such as one that asks for a title, shares no block with any other.
func (d *document) preamble(list []int) bool {
	first := d.firstBlock(list[0])
	return len(list) > 1 && first >= 0 && !slices.ContainsFunc(list[1:], func(k int) bool { return d.firstBlock(k) == first })
}

// firstBlock returns the first block of a prompt, -1 where it has none.
func (d *document) firstBlock(k int) int32 {
	block := d.LastBlock(&d.Requests[k])
	for block >= 0 && d.Parents()[block] >= 0 {
		block = d.Parents()[block]
	}
	return block
}

// request returns a request as the trace has it.
func (d *document) request(where string, k int) weka.RecordedRequest {
	d.wheres[k] = where
	r, at := &d.Requests[k], d.times[k]
	q := weka.RecordedRequest{
		T: weka.Millis(at.begin), Streamed: r.IDs.Stream, Model: d.mask.model(d.Models[r.IDs.Model]),
		In: d.mask.in(d.BlockSize, r), Out: r.End.Out, IDs: d.ids(r),
		InputTypes: r.IDs.Input.Names(), OutputTypes: (r.End.Output &^ journal.ToolResult).Names(), Stop: r.End.Stop.String(),
		APITime: weka.Millis(at.end - at.begin), TTFT: weka.Unknown, ThinkTime: d.thinks[k],
	}
	if at.first >= 0 {
		q.TTFT = weka.Millis(at.first - at.begin)
	}
	if r.End.X == journal.Partial {
		q.Stop = journal.StopNone.String()
	}
	return q
}

// ids returns the blocks of a prompt, numbered by first sight in the trace, or as in all traces.
func (d *document) ids(r *journal.Request) (ids trace.IDs) {
	d.blocks = d.AppendBlocks(d.blocks[:0], r)
	for _, block := range d.blocks {
		if d.numbers[block] < 0 {
			if d.numbers[block] = d.nextBlock; d.Export.Scope == journal.ScopeDataset {
				d.numbers[block] = d.Number(block)
			}
			d.nextBlock++
		}
		ids.Append(d.numbers[block])
	}
	return ids
}

// subagent returns a subagent with its requests. One that went on beside the main agent has no sums.
func (d *document) subagent(where string, agent int) *weka.RecordedSubagent {
	list := d.agents[agent]
	s := &weka.RecordedSubagent{
		T: weka.Millis(d.times[list[0]].begin), AgentID: d.names[agent], Type: string(cmp.Or(d.Agents[agent].Type, journal.Custom)),
		Status: "completed",
	}
	s.ToolTokens, s.SystemTokens = d.prefix(list)
	end := int64(s.T)
	for i, k := range list {
		r := d.request(fmt.Sprintf("%s.requests[%d]", where, i), k)
		s.Requests = append(s.Requests, r)
		s.TotalTokens += int64(r.In) + int64(r.Out)
		s.ToolUses += int64(d.Requests[k].End.Calls)
		end = max(end, d.times[k].end)
	}
	s.Duration = weka.Millis(end) - s.T
	if d.inBackground(agent) {
		s.Status, s.Duration, s.TotalTokens, s.ToolUses = "async_launched", weka.Unknown, weka.Unknown, weka.Unknown
	}
	return s
}

// inBackground reports whether the main agent sent a request before the subagent's first answer ended, and no result was seen by then.
func (d *document) inBackground(agent int) bool {
	first := &d.Requests[d.agents[agent][0]]
	if result := d.Agents[agent].Result; result != 0 {
		seen := slices.IndexFunc(d.Requests, func(r journal.Request) bool { return r.Q == result })
		if d.Requests[seen].T <= first.End.T {
			return false
		}
	}
	return slices.ContainsFunc(d.Requests, func(r journal.Request) bool {
		return r.Agent == d.main && r.Q > first.Q && r.T < first.End.T
	})
}

// instants are the times of a request in the trace, in milliseconds.
type instants struct{ begin, first, end int64 } // first is -1 where there was no output

// timesOf returns the times of all requests that are in the trace: on the grid, with idle gaps cut to the longest allowed. Those of
// others are on the grid alone.
func timesOf(s *journal.Session, reasons []journal.Reason) []instants {
	e := s.Export.WithDefaults()
	grid := max(e.Grid.Milliseconds(), 1)
	floor := func(t int64) int64 { return t - t%grid }
	longest := floor(e.MaxGap.Milliseconds())
	times := make([]instants, len(s.Requests))
	shift, busy := int64(0), int64(0)
	for k := range s.Requests {
		r := &s.Requests[k]
		at := instants{floor(r.T), -1, floor(r.T)}
		if r.End != nil {
			at.end = floor(r.End.T)
			if r.End.First >= 0 {
				at.first = floor(r.End.First)
			}
		}
		if reasons[k] == "" && e.MaxGap > 0 {
			if idle := at.begin - busy; idle > longest {
				shift += idle - longest
			}
			busy = max(busy, at.end)
			at.begin, at.end = at.begin-shift, at.end-shift // nothing is cut within a request
			if at.first >= 0 {
				at.first -= shift
			}
		}
		times[k] = at
	}
	return times
}

// masks hides what the flags of a capture say.
type masks struct {
	journal.Masks
	trace  string
	models map[string]string // by name, in the order of first use
}

// model returns the name of a model as the trace has it.
func (m *masks) model(name string) string {
	if m.Masks&journal.MaskModels == 0 {
		return name
	}
	if m.models[name] == "" {
		m.models[name] = fmt.Sprintf("model-%d", len(m.models)+1)
	}
	return m.models[name]
}

// in returns the tokens of a prompt: of its blocks, and of a tail that a mask draws anew. The draw depends on the trace and the
// request alone, so that each reader of a journal draws the same.
func (m *masks) in(blockSize int, r *journal.Request) int {
	if m.Masks&journal.MaskTails == 0 {
		return r.IDs.In
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "tail %s %d", m.trace, r.Q))
	draw := binary.LittleEndian.Uint64(sum[:])
	if blocks := r.Blocks(); blocks > 0 {
		return blocks*blockSize + int(draw%uint64(blockSize))
	}
	return 1 + int(draw%uint64(blockSize-1)) // a prompt has at least one token
}

// retryWithin is how soon after an attempt, in milliseconds, an equal prompt counts as another attempt.
const retryWithin = 600_000

// judge says of each request of a session why it is not in its trace, "" where it is, and returns the index of the first that is a hole, -1
// where there is none: doc/spec/capture.md 6.2 and 8.4. Orphans are found later.
func judge(s *journal.Session) (reasons []journal.Reason, cut int) {
	retried := retries(s)
	for k := range s.Requests {
		reasons = append(reasons, reasonOf(&s.Requests[k], retried[k]))
	}
	cut = slices.IndexFunc(reasons, journal.Reason.LeavesHole)
	if cut < 0 || s.Export.Holes == journal.HolesKeep {
		return reasons, cut
	}
	left := reasons[cut:]
	if s.Export.Holes == journal.HolesDrop {
		left = reasons
	}
	for k := range left {
		left[k] = cmp.Or(left[k], reasons[cut])
	}
	return reasons, cut
}

// outcome returns how an exchange ended. What did not end was aborted.
func outcome(r *journal.Request) journal.Outcome {
	if r.End == nil {
		return journal.Aborted
	}
	return r.End.X
}

// reasonOf returns why a request is not in the trace, without regard to others but a later attempt.
func reasonOf(r *journal.Request, retried bool) journal.Reason {
	x := outcome(r)
	switch {
	case x == journal.BadStatus:
		return journal.ReasonStatus
	case x == journal.Transport:
		return journal.ReasonTransport
	case x == journal.NoOutput:
		return journal.ReasonNoOutput
	case r.Hole != "":
		return r.Hole
	case r.End != nil && r.End.Lost != "":
		return r.End.Lost
	case retried:
		return journal.ReasonRetry
	case r.IDs == nil || x == journal.Aborted:
		return journal.HoleAborted
	}
	return ""
}

// prompt is what attempts of one prompt have in common: the last block stands for all before it.
type prompt struct {
	agent, in int
	last      int32
}

// retries says of each request whether it is an attempt that did not complete, and was soon made again with success.
func retries(s *journal.Session) []bool {
	retried := make([]bool, len(s.Requests))
	next := map[prompt]int64{} // when the next request with the prompt began
	for k := len(s.Requests) - 1; k >= 0; k-- {
		r := &s.Requests[k]
		if r.IDs == nil {
			continue
		}
		p, end := prompt{r.Agent, r.IDs.In, s.LastBlock(r)}, r.T
		if r.End != nil {
			end = r.End.T
		}
		began, again := next[p]
		retried[k] = again && outcome(r) != journal.Complete && began-end <= retryWithin
		if outcome(r).Recorded() {
			next[p] = r.T
		}
	}
	return retried
}

// note is what is to know of a trace and no reader of traces would take: doc/spec/capture.md 9.3. It has no time of day.
type note struct {
	Trace      string `json:"trace"`
	Tokenizer  string `json:"tokenizer"`
	Canon      string `json:"canon"`
	By         string `json:"by"`
	Format     string `json:"format,omitempty"` // of the log
	Why        string `json:"why,omitempty"`    // "": the session did not end by itself
	Written    bool   `json:"written"`
	Incomplete bool   `json:"incomplete"`
	TornAt     int    `json:"torn_at_line,omitempty"`
	Requests   int    `json:"requests"`
	Recorded   int    `json:"recorded"`

	NotRecorded []notedReason `json:"not_recorded"`
	CutAt       *notedReason  `json:"cut_at,omitempty"`
	Marks       []notedMark   `json:"marks"`
	Agents      []notedAgent  `json:"agents"`
	Stops       []notedStop   `json:"stops"` // where the trace's own word says less

	Ratio       *notedRatio `json:"token_ratio,omitempty"` // tokens counted here to those that the API counted
	MediaTokens int         `json:"media_tokens"`

	// Of an import.
	Compactions int         `json:"compactions,omitempty"`
	ToolTimes   []notedTime `json:"tool_times,omitempty"` // which part of the time before a request tools ran

	GridMS      int64    `json:"grid_ms"`
	MaxGapMS    int64    `json:"max_gap_ms,omitempty"`
	Masks       []string `json:"masks,omitempty"`
	Holes       string   `json:"holes"`
	MinRequests int      `json:"min_requests"`

	Problems []string `json:"problems,omitempty"`
	Alarms   []string `json:"alarms,omitempty"`
}

type notedReason struct {
	Q      int            `json:"q"`
	Reason journal.Reason `json:"reason"`
}

type notedMark struct {
	Q     int    `json:"q"`
	Where string `json:"where"` // in the trace
	Mark  string `json:"mark"`
}

type notedAgent struct {
	ID     string       `json:"agent_id"`
	Parent string       `json:"parent"` // agent_id of another subagent, or "main"
	Tier   journal.Tier `json:"tier"`
}

type notedTime struct {
	Q     int    `json:"q"`
	Where string `json:"where"`
	MS    int64  `json:"ms"` // on the grid
}

type notedStop struct {
	Q     int    `json:"q"`
	Where string `json:"where"`
	Word  string `json:"word"`
}

type notedRatio struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// note returns the note of a trace that is made.
func (d *document) note(r *Result, alarms []string) []byte {
	e := d.Export.WithDefaults()
	n := note{
		Trace: d.Trace, Tokenizer: d.Tokenizer, Canon: d.Canon, By: string(d.By), Format: d.Format, Why: string(d.Why), Written: r.Written, Incomplete: r.Incomplete,
		Requests: r.Requests, Recorded: r.Recorded, NotRecorded: []notedReason{}, Marks: []notedMark{}, Agents: d.notedAgents(), Stops: []notedStop{},
		GridMS: e.Grid.Milliseconds(), MaxGapMS: e.MaxGap.Milliseconds(), Masks: e.Masks.Names(), Holes: cmp.Or(string(e.Holes), "cut"),
		MinRequests: e.MinRequests, Problems: r.Problems, Alarms: alarms,
	}
	if d.Torn != nil {
		n.TornAt = d.Torn.Line
	}
	if d.cut >= 0 && e.Holes != journal.HolesKeep {
		n.CutAt = &notedReason{d.Requests[d.cut].Q, d.reasons[d.cut]}
	}
	var ratios []float64
	for k := range d.Requests {
		q := &d.Requests[k]
		if d.reasons[k] != "" {
			n.NotRecorded = append(n.NotRecorded, notedReason{q.Q, d.reasons[k]})
			continue
		}
		n.recorded(q, d.wheres[k])
		if ms := q.IDs.Tool - q.IDs.Tool%n.GridMS; ms > 0 {
			n.ToolTimes = append(n.ToolTimes, notedTime{q.Q, d.wheres[k], ms})
		}
		if q.IDs.Anew {
			n.Compactions++
		}
		if q.End.API > 0 {
			ratios = append(ratios, float64(q.IDs.In)/float64(q.End.API))
		}
	}
	n.ratio(ratios)
	text, _ := json.Marshal(n) // numbers and words always marshal: a ratio is finite
	return append(text, '\n')
}

// recorded notes what the trace does not say of a request.
func (n *note) recorded(q *journal.Request, where string) {
	for _, mark := range marksOf(q).Names() {
		n.Marks = append(n.Marks, notedMark{q.Q, where, mark})
	}
	if q.End.Word != q.End.Stop.String() {
		n.Stops = append(n.Stops, notedStop{q.Q, where, q.End.Word})
	}
	n.MediaTokens += q.IDs.Media
}

// ratio notes percentiles of ratios: the least value that so many are not above.
func (n *note) ratio(ratios []float64) {
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	at := func(percent int) float64 { return ratios[(len(ratios)*percent+99)/100-1] }
	n.Ratio = &notedRatio{len(ratios), at(50), at(99)}
}

// notedAgents lists the subagents of the trace in its order.
func (d *document) notedAgents() []notedAgent {
	list := []notedAgent{}
	for _, agent := range d.order {
		place := d.Requests[d.agents[agent][0]].Place
		list = append(list, notedAgent{d.names[agent], cmp.Or(d.names[place.Parent], "main"), place.Via})
	}
	return list
}
