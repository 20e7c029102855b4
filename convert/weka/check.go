package weka

import (
	"fmt"
	"math"
	"regexp"
	"slices"

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

// maxProblems bounds how many problems of a trace are told.
const maxProblems = 20

// Check checks a trace as capture writes it, which is stricter than what Scan reads: doc/spec/capture.md 10.
func Check(data []byte) *Checked {
	c := &checker{}
	tr, err := Scan(data, AIPerf())
	if err != nil {
		c.fail("", "%v", err)
		return &c.Checked
	}
	file := &checkedTrace{} // Scan has refused the second names of in and out
	if err := decodeStrictly(data, file); err != nil {
		c.fail("", "%v", err)
		return &c.Checked
	}
	c.Trace = tr
	c.head(file)
	c.sums(file, c.entries(file))
	c.blocks()
	return &c.Checked
}

// checker collects what Check finds.
type checker struct {
	Checked
	prompts []checkedPrompt // of all requests, in the order of the file
}

// checkedPrompt is a request with what its blocks are checked with.
type checkedPrompt struct {
	where string
	agent int // 0 the main one, then one for each subagent
	*trace.Request
	*checkedRequest
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
	checkedID    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	checkedModel = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)
	checkedAgent = regexp.MustCompile(`^agent_[0-9]{3,}$`)
)

// Words of a trace. The lists are sorted.
var (
	inputWords    = []string{"text", "thinking", "tool_result", "tool_use"}
	outputWords   = []string{"text", "thinking", "tool_use"}
	stopWords     = []string{"", "end_turn", "tool_use"}
	statusWords   = []string{"async_launched", "completed"}
	subagentWords = []string{"Explore", "Plan", "custom", "general-purpose"}
)

func (c *checker) head(f *checkedTrace) {
	if !checkedID.MatchString(c.Trace.ID) {
		c.fail("id", "%q: want %s", trace.Clip([]byte(c.Trace.ID)), checkedID)
	}
	for _, n := range []struct {
		name  string
		value *int64
	}{{"tool_tokens", f.ToolTokens}, {"system_tokens", f.SystemTokens}} {
		c.count(n.name, n.value, 0)
	}
}

// count checks a whole number that every trace has.
func (c *checker) count(where string, v *int64, least int64) {
	if v == nil {
		c.fail(where, "it is missing")
	} else if *v < least {
		c.fail(where, "%d: want at least %d", *v, least)
	}
}

// entries checks the requests and subagents, one after the other. It returns how many subagents there are.
func (c *checker) entries(f *checkedTrace) (subagents int) {
	last := int64(0)
	for k := range f.Requests {
		e, at := &f.Requests[k], fmt.Sprintf("requests[%d]", k)
		entry := &c.Trace.Entries[k]
		if last = c.time(at, e.T, last, "the entry before"); entry.Subagent == nil {
			c.request(at, 0, &entry.Request, &e.checkedRequest)
			continue
		}
		subagents++
		c.subagent(at, subagents, entry.Subagent, e)
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

func (c *checker) subagent(at string, agent int, s *trace.Subagent, e *checkedEntry) {
	if !checkedAgent.MatchString(s.AgentID) {
		c.fail(at+".agent_id", "%q: want %s", trace.Clip([]byte(s.AgentID)), checkedAgent)
	}
	c.word(at+".subagent_type", e.SubagentType, subagentWords)
	c.word(at+".status", e.Status, statusWords)
	c.count(at+".tool_tokens", e.ToolTokens, 0)
	c.count(at+".system_tokens", e.SystemTokens, 0)
	for _, n := range []struct {
		name  string
		value *int64
	}{{"duration_ms", e.DurationMS}, {"total_tokens", e.TotalTokens}, {"tool_use_count", e.ToolUseCount}} {
		if n.value != nil {
			c.count(at+"."+n.name, n.value, 0)
		}
	}
	last := inMillis(e.T)
	for k := range s.Requests {
		inner := fmt.Sprintf("%s.requests[%d]", at, k)
		last = c.time(inner, s.Requests[k].T, last, map[bool]string{true: "the subagent", false: "the request before"}[k == 0])
		c.request(inner, agent, &s.Requests[k], &e.Requests[k])
	}
	var models []string
	for _, r := range s.Requests {
		models = addName(models, c.Trace.Models[r.Model])
	}
	c.models(at+".models", e.Models, models)
}

// word checks a word against its list.
func (c *checker) word(at string, word *string, list []string) {
	if word == nil {
		c.fail(at, "it is missing")
	} else if !slices.Contains(list, *word) {
		c.fail(at, "%q: want one of %q", trace.Clip([]byte(*word)), list)
	}
}

// words checks a list of words: of their list, sorted, none twice.
func (c *checker) words(at string, words *[]string, list []string) {
	if words == nil {
		c.fail(at, "it is missing")
		return
	}
	for k, w := range *words {
		c.word(fmt.Sprintf("%s[%d]", at, k), &w, list)
		if k > 0 && w <= (*words)[k-1] {
			c.fail(at, "%q: want each once, and sorted", *words)
			return
		}
	}
}

func (c *checker) request(at string, agent int, r *trace.Request, f *checkedRequest) {
	c.Requests++
	c.prompts = append(c.prompts, checkedPrompt{at, agent, r, f})
	if !checkedModel.MatchString(f.Model) {
		c.fail(at+".model", "%q: want %s", trace.Clip([]byte(f.Model)), checkedModel)
	}
	c.count(at+".in", f.In, 1)
	c.count(at+".out", f.Out, 0)
	if want := r.In / c.Trace.BlockSize; int64(r.IDs.Len) != want {
		c.fail(at+".hash_ids", "%d ids: want %d, for %d tokens in blocks of %d", r.IDs.Len, want, r.In, c.Trace.BlockSize)
	}
	c.words(at+".input_types", f.InputTypes, inputWords)
	c.words(at+".output_types", f.OutputTypes, outputWords)
	c.word(at+".stop", f.Stop, stopWords)
	switch {
	case f.APITime == nil:
		c.fail(at+".api_time", "it is missing")
	case *f.APITime < 0:
		c.fail(at+".api_time", "%v: want at least 0", *f.APITime)
	case f.TTFT != nil && (*f.TTFT < 0 || inMillis(*f.TTFT) > inMillis(*f.APITime)):
		c.fail(at+".ttft", "%v: want 0 to api_time, %v", *f.TTFT, *f.APITime)
	}
}

// sums checks models and totals.
func (c *checker) sums(f *checkedTrace, subagents int) {
	c.models("models", f.Models, c.Trace.Models)
	if f.Totals == nil {
		c.fail("totals", "it is missing")
		return
	}
	want := Totals{Count: subagents}
	for at, r := range c.Trace.Requests() {
		want.add(at.Inner != none, r.In, r.Out)
	}
	c.total("parent_tokens", f.Totals.Parent, want.Parent)
	c.total("subagent_tokens", f.Totals.Subagents, want.Subagents)
	c.total("combined_tokens", f.Totals.Combined, want.Combined)
	if f.Totals.Count != want.Count {
		c.fail("totals.subagent_count", "%d: it has %d", f.Totals.Count, want.Count)
	}
}

func (c *checker) models(where string, got, want []string) {
	if !slices.Equal(got, want) {
		c.fail(where, "%q: its requests have %q", got, want)
	}
}

func (c *checker) total(name string, got, want TokenTotals) {
	if got != want {
		c.fail("totals."+name, "input %d, output %d: its requests have %d and %d", got.Input, got.Output, want.Input, want.Output)
	}
}
