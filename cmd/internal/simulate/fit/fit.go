package fit

import (
	"context"
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Options say what is not fitted.
type Options struct {
	Base     engine.Config // block size, pool and what else no structure changes
	Switches preset.Switches
	Workers  int // of the servers
	Told     Told
}

// Result is a fitted engine.
type Result struct {
	Engine engine.Config // with Fit
	Told   Told
	// Margins says for each thing in which structures differ how much worse the best other value is, in the order of its search.
	Margins   []Margin
	Errors    []Error   // of the requests of the trees that were held out, in a closed loop
	Residuals []Residue // of the same
}

// Margin is what another value of one thing costs.
type Margin struct {
	Of, Chosen string
	Other      string  // the best other one; "": the server tells the chosen one
	Score      float64 // mean relative error with the chosen one
	Worse      float64 // with the other; +Inf: it cannot play the run
	Decided    bool    // the run tells the chosen value from the other one
}

// A structure is better than another one where the mean error of the other is larger by the factor decisive, and the difference by the factor
// certain than its standard error over the requests.
const (
	decisive = 1.05
	certain  = 3
)

// The things in which structures differ, in the order of the search.
const (
	cached = iota
	split  // prefill and decode have workers of their own
	slots
	budget
	chunked
	things
)

// names are those of things, with the words of 0 and 1 where these are its values.
var names = [things][]string{
	{"prefix cache", "off", "on"}, {"fleet", "aggregated", "disaggregated"}, {"max_num_seqs"}, {"max_num_batched_tokens"}, {"chunked prefill", "off", "on"},
}

// structure is what is searched for besides constants: a value of each thing.
type structure [things]int

// with returns the structure with another value of a thing.
func (s structure) with(thing, value int) structure {
	s[thing] = value
	return s
}

// text returns the value of a thing.
func (s structure) text(thing int) string {
	if words := names[thing][1:]; len(words) > 0 {
		return words[s[thing]]
	}
	return itoa(s[thing])
}

// problem is a search.
type problem struct {
	ctx    context.Context
	list   []Request
	o      Options
	values [things][]int  // that are tried, that of the base first
	begin  engine.Formula // constants to begin with
	best   map[structure]*trial

	together int64      // nanoseconds: tokens that came within them are of one pass
	prompts  []computed // by place
	fastest  float64    // milliseconds to the first token of any request
}

// trial is a structure with its best constants.
type trial struct {
	structure
	formula engine.Formula
	from    float64   // the error of the trial from whose constants it was fitted
	errors  []float64 // relative, of the requests to which constants are fitted
	score   float64   // their mean
}

// better reports whether the run tells a trial from another one, and it is better.
func (t *trial) better(other *trial) bool {
	if t.score*decisive >= other.score || len(t.errors) != len(other.errors) {
		return t.score < other.score && len(t.errors) != len(other.errors)
	}
	sum, squares, n := 0.0, 0.0, float64(len(t.errors))
	for k, e := range t.errors {
		d := other.errors[k] - e
		sum, squares = sum+d, squares+d*d
	}
	return sum > certain*math.Sqrt(squares-sum*sum/n)
}

// fitted reports whether the request of a place is one to which constants are fitted: those of the other trees are predicted.
func fitted(r *Request) bool { return r.Tree%2 == 0 }

// Engine finds structure and constants from requests that were linked.
func Engine(ctx context.Context, list []Request, o Options) (*Result, error) {
	if err := check(list); err != nil {
		return nil, err
	}
	p := &problem{ctx: ctx, list: list[:min(len(list), mostSearched)], o: o, begin: start(list), best: map[structure]*trial{}}
	p.values, p.together, p.fastest = p.choices(), int64(p.begin.Pass*1e6/2), math.Inf(1)
	p.prompts = inTurn(list, p.together)
	for k := range list {
		p.fastest = min(p.fastest, float64(list[k].First-list[k].Sent)/1e6)
	}
	var base structure
	for k, values := range p.values {
		base[k] = values[0]
	}
	at := p.search(base)
	if other := p.search(base.with(split, 1)); other.better(at) {
		at = other
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Result{Margins: p.margins(at), Told: o.Told}
	p.list = list
	whole := &trial{structure: at.structure, formula: at.formula, score: math.Inf(1)}
	p.refine(whole, at.formula)
	p.polish(whole)
	return r, p.report(r, whole)
}

// search returns the best structure of a fleet, from one on.
func (p *problem) search(from structure) *trial {
	at := p.try(from, &trial{formula: p.begin, score: math.Inf(1)})
	for range 5 {
		before := at.structure
		for k, values := range p.values {
			if k != split {
				at = p.choose(k, values, at)
			}
		}
		if at.structure == before {
			break
		}
	}
	return at
}

// choose returns the best trial of those that differ in one thing, that with the value of the base where the run does not tell them apart.
func (p *problem) choose(thing int, values []int, at *trial) *trial {
	for _, v := range values {
		if one := p.try(at.with(thing, v), at); one.score < at.score {
			at = one
		}
	}
	if base := p.try(at.with(thing, values[0]), at); !at.better(base) {
		return base
	}
	return at
}

// mostSearched is how many requests, from the first on, decide about structures. All decide about the constants.
const mostSearched = 1000

// choices returns the values of things, without those that the server rules out.
func (p *problem) choices() (list [things][]int) {
	c, most := &p.o.Base, p.overlap()
	list = [things][]int{{1, 0}, {0, 1}, {c.MaxSeqs, most - 1, most, most + 1, most + 2}, {c.MaxBatchedTokens, 512, 1024, 2048, 4096, 8192, 16384}, {1, 0}}
	found := slices.ContainsFunc(p.list, func(r Request) bool { return r.Cached > 0 })
	if told := p.o.Told.Caching; found || told != nil && *told {
		list[cached] = []int{1}
	} else if told != nil {
		list[cached] = []int{0}
	}
	list[slots] = slices.DeleteFunc(append(list[slots], p.o.Told.Slots), func(n int) bool { return n < 1 })
	for thing, told := range map[int]int{slots: p.o.Told.MaxSeqs, budget: p.o.Told.MaxBatchedTokens} {
		if told > 0 {
			list[thing] = []int{told}
		}
	}
	return list
}

// overlap returns how many requests at most had their first token and not yet the last one, of a worker.
func (p *problem) overlap() (most int) {
	var ends []int64
	sorted := slices.Clone(p.list)
	slices.SortFunc(sorted, func(a, b Request) int { return int(a.First - b.First) })
	for _, r := range sorted {
		ends = slices.DeleteFunc(ends, func(end int64) bool { return end <= r.First })
		ends = append(ends, r.Last)
		most = max(most, len(ends))
	}
	return (most + p.o.Workers - 1) / p.o.Workers
}

// margins compares the structure that was found with the best that differs in one thing.
func (p *problem) margins(at *trial) (list []Margin) {
	for k, values := range p.values {
		m := Margin{Of: names[k][0], Chosen: at.text(k), Score: at.score, Worse: math.Inf(1)}
		for _, v := range values {
			if one := p.try(at.with(k, v), at); v != at.structure[k] && (m.Other == "" || one.score < m.Worse) {
				m.Other, m.Worse, m.Decided = one.text(k), one.score, at.better(one)
			}
		}
		list = append(list, m)
	}
	return list
}

// try fits the constants of a structure, from those of another one.
func (p *problem) try(s structure, from *trial) *trial {
	one, known := p.best[s]
	if !known {
		one = &trial{structure: s, formula: from.formula, score: math.Inf(1)}
		p.best[s] = one
	}
	if !known || from.score < one.from {
		one.from = from.score
		p.refine(one, from.formula)
	}
	return one
}
