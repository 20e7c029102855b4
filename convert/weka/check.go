package weka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/trace"
)

// Checked is what Check finds.
type Checked struct {
	Trace    *trace.Trace // nil where the text is no trace
	Requests int          // those of subagents included
	Problems []string     // why the trace is bad, each with its place; at most maxProblems
	More     int          // further ones
	Alarms   []string     // what makes its prompts doubtful; the trace is not bad
}

// maxProblems bounds how many problems of a trace are reported.
const maxProblems = 20

// Check checks a trace as capture writes it, which is stricter than what Scan reads: doc/spec/capture.md 10.
func Check(data []byte) *Checked {
	s := newScanner(rules.AIPerf(), nil)
	s.values = map[string]any{}
	s.read(data)
	s.readTrace()
	c := &checker{values: s.values}
	tr, err := s.result()
	if err == nil {
		err = c.readTotals(tr)
	}
	if err != nil {
		c.fail("", "%v", err)
		return &c.Checked
	}
	c.Trace = tr
	if !checkedID().MatchString(tr.ID) {
		c.fail("id", "%q: want %s", trace.Clip([]byte(tr.ID)), checkedID())
	}
	c.count("tool_tokens", 0, false)
	c.count("system_tokens", 0, false)
	c.sums(c.entries())
	c.blocks()
	return &c.Checked
}

// readTotals reads the totals, and refuses the second names of in and out.
func (c *checker) readTotals(tr *trace.Trace) error {
	for at := range tr.Requests() {
		for _, name := range []string{"input_length", "output_length"} {
			if _, has := c.values[at.String()+"."+name]; has {
				return fmt.Errorf("json: unknown field %q", name)
			}
		}
	}
	text, has := c.values["totals"].([]byte)
	if !has {
		return nil
	}
	c.totals = &Totals{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c.totals); err != nil {
		return fmt.Errorf("totals: %w", err)
	}
	return nil
}

// checker collects what Check finds.
type checker struct {
	Checked
	values  map[string]any  // see scanner
	totals  *Totals         // nil: there are none
	prompts []checkedPrompt // of all requests, in the order of the file
}

// checkedPrompt is a request with what its blocks are checked with.
type checkedPrompt struct {
	where string
	agent int // 0 the main one, then one for each subagent
	*trace.Request
}

// fail notes a problem.
func (c *checker) fail(where, format string, args ...any) {
	if len(c.Problems) == maxProblems {
		c.More++
		return
	}
	problem := fmt.Sprintf(format, args...)
	if where != "" {
		problem = where + ": " + problem
	}
	c.Problems = append(c.Problems, problem)
}

// Patterns of the names in a trace.
var (
	checkedID    = lazyregexp.New(`^[A-Za-z0-9._-]{1,128}$`)
	checkedModel = lazyregexp.New(`^[A-Za-z0-9._:/@-]{1,128}$`)
	checkedAgent = lazyregexp.New(`^agent_[0-9]{3,}$`)
)

// Words of a trace. The lists are sorted.
var (
	inputWords    = []string{"text", "thinking", "tool_result", "tool_use"}
	outputWords   = []string{"text", "thinking", "tool_use"}
	stopWords     = []string{"", "end_turn", "tool_use"}
	statusWords   = []string{"async_launched", "completed"}
	subagentWords = []string{"Explore", "Plan", "custom", "general-purpose"}
)

// count checks a whole number, which may be left out.
func (c *checker) count(where string, least int64, optional bool) {
	v, has := c.values[where].(int64)
	if !has && !optional {
		c.fail(where, "it is missing")
	} else if has && v < least {
		c.fail(where, "%d: want at least %d", v, least)
	}
}

// entries checks the requests and subagents, one after the other. It returns how many subagents there are.
func (c *checker) entries() (subagents int) {
	last := int64(0)
	for k := range c.Trace.Entries {
		e, at := &c.Trace.Entries[k], fmt.Sprintf("requests[%d]", k)
		if e.Subagent == nil {
			last = c.time(at, e.T, last, "the entry before")
			c.request(at, 0, &e.Request)
			continue
		}
		subagents++
		last = c.time(at, e.Subagent.T, last, "the entry before")
		c.subagent(at, subagents, e.Subagent)
	}
	names := map[string]int{}
	for k, e := range c.Trace.Entries {
		if e.Subagent == nil {
			continue
		}
		if before, twice := names[e.Subagent.AgentID]; twice {
			c.fail(fmt.Sprintf("requests[%d].agent_id", k), "%q is that of requests[%d]", e.Subagent.AgentID, before)
		}
		names[e.Subagent.AgentID] = k
	}
	return subagents
}

// time checks a time in milliseconds against the one before it, and returns it.
func (c *checker) time(at string, seconds float64, before int64, what string) int64 {
	t := inMillis(seconds)
	if t < 0 {
		c.fail(at+".t", "%v: want at least 0", seconds)
	} else if t < before {
		c.fail(at+".t", "%v: before that of %s, %v", seconds, what, float64(before)/1000)
	}
	return t
}

// inMillis returns seconds in whole milliseconds, as a trace has them.
func inMillis(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

// subagent checks a subagent at a path, whose number among the agents is given, and its requests.
func (c *checker) subagent(at string, agent int, s *trace.Subagent) {
	if !checkedAgent().MatchString(s.AgentID) {
		c.fail(at+".agent_id", "%q: want %s", trace.Clip([]byte(s.AgentID)), checkedAgent())
	}
	c.word(at+".subagent_type", subagentWords)
	c.word(at+".status", statusWords)
	for k, name := range []string{".tool_tokens", ".system_tokens", ".duration_ms", ".total_tokens", ".tool_use_count"} {
		c.count(at+name, 0, k > 1)
	}
	last := inMillis(s.T)
	for k := range s.Requests {
		inner := fmt.Sprintf("%s.requests[%d]", at, k)
		last = c.time(inner, s.Requests[k].T, last, map[bool]string{true: "the subagent", false: "the request before"}[k == 0])
		c.request(inner, agent, &s.Requests[k])
	}
	var models []string
	for _, r := range s.Requests {
		models = addName(models, c.Trace.Models[r.Model])
	}
	c.models(at+".models", models)
}

// word checks a word against its list.
func (c *checker) word(at string, list []string) {
	if word, has := c.values[at].(string); !has {
		c.fail(at, "it is missing")
	} else if !slices.Contains(list, word) {
		c.fail(at, "%q: want one of %q", trace.Clip([]byte(word)), list)
	}
}

// texts returns a list of strings.
func (c *checker) texts(at string) (list []string, has bool) {
	n, has := c.values[at].(int)
	for k := range n {
		word, _ := c.values[fmt.Sprintf("%s[%d]", at, k)].(string)
		list = append(list, word)
	}
	return list, has
}

// words checks a list of words: of their list, sorted, none twice.
func (c *checker) words(at string, list []string) {
	words, has := c.texts(at)
	if !has {
		c.fail(at, "it is missing")
	}
	for k, w := range words {
		c.word(fmt.Sprintf("%s[%d]", at, k), list)
		if k > 0 && w <= words[k-1] {
			c.fail(at, "%q: want each once, and sorted", words)
			return
		}
	}
}

// request checks a request at a path, which an agent of a number has sent: 0 is the main one.
func (c *checker) request(at string, agent int, r *trace.Request) {
	c.Requests++
	c.prompts = append(c.prompts, checkedPrompt{at, agent, r})
	if model := c.Trace.Models[r.Model]; !checkedModel().MatchString(model) {
		c.fail(at+".model", "%q: want %s", trace.Clip([]byte(model)), checkedModel())
	}
	c.count(at+".in", 1, false)
	c.count(at+".out", 0, false)
	if want := r.In / c.Trace.BlockSize; int64(r.IDs.Len) != want {
		c.fail(at+".hash_ids", "%d ids: want %d, for %d tokens in blocks of %d", r.IDs.Len, want, r.In, c.Trace.BlockSize)
	}
	c.words(at+".input_types", inputWords)
	c.words(at+".output_types", outputWords)
	c.word(at+".stop", stopWords)
	ttft, has := c.values[at+".ttft"].(float64)
	switch {
	case !r.APITime.OK:
		c.fail(at+".api_time", "it is missing")
	case r.APITime.V < 0:
		c.fail(at+".api_time", "%v: want at least 0", r.APITime.V)
	case has && (ttft < 0 || inMillis(ttft) > inMillis(r.APITime.V)):
		c.fail(at+".ttft", "%v: want 0 to api_time, %v", ttft, r.APITime.V)
	}
}

// sums checks models and totals.
func (c *checker) sums(subagents int) {
	c.models("models", c.Trace.Models)
	if c.totals == nil {
		c.fail("totals", "it is missing")
		return
	}
	want := Totals{Count: subagents}
	for at, r := range c.Trace.Requests() {
		want.add(at.Inner != trace.None, r.In, r.Out)
	}
	c.total("parent_tokens", c.totals.Parent, want.Parent)
	c.total("subagent_tokens", c.totals.Subagents, want.Subagents)
	c.total("combined_tokens", c.totals.Combined, want.Combined)
	if c.totals.Count != want.Count {
		c.fail("totals.subagent_count", "%d: it has %d", c.totals.Count, want.Count)
	}
}

// models compares a list of models with those of its requests.
func (c *checker) models(where string, want []string) {
	if got, _ := c.texts(where); !slices.Equal(got, want) {
		c.fail(where, "%q: its requests have %q", got, want)
	}
}

// total compares a sum of the totals with what the requests add up to.
func (c *checker) total(name string, got, want TokenTotals) {
	if got != want {
		c.fail("totals."+name, "input %d, output %d: its requests have %d and %d", got.Input, got.Output, want.Input, want.Output)
	}
}

// Bounds of the alarms: doc/spec/capture.md 10.
const (
	deficitShare = 0.005 // of the requests that go on from another, those that lack the last block of it alone
	leastChains  = 8
)

// blocks checks how blocks are numbered, and think times; and it looks for prompts that lose blocks without a reason.
func (c *checker) blocks() {
	if len(c.Problems) == 0 { // else lists are not what they say
		c.numbering()
	}
	trie := TrieOf(c.Trace)
	found := NewPredecessors(trie.parents, 0)
	transitions, deficits := 0, 0
	for agent := 0; ; agent++ {
		prompts, stays := c.ofAgent(agent, trie)
		if agent > 0 && prompts == nil {
			break
		}
		for k, p := range found.Of(stays) {
			c.think(&prompts[k], p, stays)
			if p.Index < 0 {
				continue
			}
			if transitions++; p.Shared == prompts[p.Index].IDs.Len-1 {
				deficits++
			}
		}
	}
	if float64(deficits) >= deficitShare*float64(max(transitions, 1)) {
		c.Alarms = append(c.Alarms, fmt.Sprintf("%d of %d requests lack the last block of the request before, and that alone: something after each prompt is hashed with it", deficits, transitions))
	}
	if chains, roots := trie.leaves(); chains >= leastChains && 2*roots > chains {
		c.Alarms = append(c.Alarms, fmt.Sprintf("%d of %d chains of prompts share no block with another: something near the beginning of each prompt differs", roots, chains))
	}
}

// ofAgent returns the requests of an agent, nil where there is no such agent.
func (c *checker) ofAgent(agent int, trie *Trie) (prompts []checkedPrompt, stays []Stay) {
	for k, p := range c.prompts {
		if p.agent != agent {
			continue
		}
		begin := inMillis(p.T)
		prompts, stays = append(prompts, p), append(stays, Stay{begin, begin + inMillis(p.APITime.V), trie.ends[k].node})
	}
	return prompts, stays
}

// think checks a think time against the gap behind the predecessor's end.
func (c *checker) think(r *checkedPrompt, p Predecessor, stays []Stay) {
	if !r.ThinkTime.OK {
		return
	}
	think := inMillis(r.ThinkTime.V)
	if p.Index < 0 {
		c.fail(r.where+".think_time", "%v: its request continues no other request, so no think time stands before it", r.ThinkTime.V)
		return
	}
	if gap := inMillis(r.T) - stays[p.Index].End; think < 0 || think > gap {
		c.fail(r.where+".think_time", "%v: want 0 to the gap behind the request before, %v", r.ThinkTime.V, float64(gap)/1000)
	}
}

// numbering checks that ids are 0, 1, 2, ... at first sight, that those of a request which are new stand together at its end, and
// that an id has one position and one predecessor. Ids of scope global begin anywhere.
func (c *checker) numbering() {
	if c.Trace.Scope == trace.ScopeGlobal {
		c.globalNumbering()
		return
	}
	var before []int64 // per id, the id before it
	for _, p := range c.prompts {
		last, at := int64(-1), 0
		for _, run := range p.IDs.Runs {
			for k := range run.N {
				id := run.First + int64(k)
				switch {
				case id == int64(len(before)):
					before = append(before, last)
				case id < 0 || id > int64(len(before)):
					c.fail(p.where+".hash_ids", "id %d at %d: want %d for the next new block", id, at, len(before))
					return
				case before[id] != last:
					c.fail(p.where+".hash_ids", "id %d at %d: it follows %d here, and %d before", id, at, last, before[id])
					return
				}
				last = id
				at++
			}
		}
	}
}

// globalNumbering checks that an id of scope global has one predecessor.
func (c *checker) globalNumbering() {
	before := map[int64]int64{} // per id, the id before it
	for _, p := range c.prompts {
		last, at := int64(-1), 0
		for _, run := range p.IDs.Runs {
			for k := range run.N {
				id := run.First + int64(k)
				if was, known := before[id]; known && was != last {
					c.fail(p.where+".hash_ids", "id %d at %d: it follows %d here, and %d before", id, at, last, was)
					return
				}
				before[id] = last
				last = id
				at++
			}
		}
	}
}
