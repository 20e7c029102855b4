package fit

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
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

// refine fits the constants of a trial. It begins with others, and with those that the instants of the run tell. From each it goes toward the
// least squares of the passes that were played with it, as long as the error falls.
func (p *problem) refine(t *trial, from engine.Formula) {
	if one := p.descend(t, from); one != nil {
		p.descend(t, p.regress(t.structure, one))
	}
}

// polish changes one constant after the other by steps, as long as the error falls.
func (p *problem) polish(t *trial) {
	for _, step := range []float64{0.05, 0.02, 0.01, 0.005, 0.002} {
		for _, of := range directions {
			for _, factor := range []float64{1 + step, 1 / (1 + step)} {
				for better := true; better; {
					f := t.formula
					*of(&f) *= factor
					_, better = p.look(t, f)
				}
			}
		}
	}
}

// least is by which factor a step must make the error smaller.
const least = 0.995

// look plays a structure with constants, and notes them where they are better; nil: the engine cannot play the run.
func (p *problem) look(best *trial, f engine.Formula) (one *played, better bool) {
	one, err := p.play(best.structure, f, false)
	if err != nil {
		return nil, false
	}
	errors, score := p.errors(one)
	if better = score < best.score*least; better {
		best.formula, best.errors, best.score = f, errors, score
	}
	return one, better
}

// descend goes from constants to better ones, and returns what was played with the first.
func (p *problem) descend(best *trial, f engine.Formula) (first *played) {
	own := &trial{structure: best.structure, score: math.Inf(1)}
	first, _ = p.look(own, f)
	for one, better := first, first != nil; better; {
		squares := p.constants(one)
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if one, better = p.look(own, toward(own.formula, squares, share)); better {
				break
			}
		}
	}
	if own.score < best.score {
		best.formula, best.errors, best.score = own.formula, own.errors, own.score
	}
	return first
}

// directions are the constants.
var directions = [...]func(f *engine.Formula) *float64{
	func(f *engine.Formula) *float64 { return &f.Pass },
	func(f *engine.Formula) *float64 { return &f.Weights },
	func(f *engine.Formula) *float64 { return &f.Token },
	func(f *engine.Formula) *float64 { return &f.Attention },
	func(f *engine.Formula) *float64 { return &f.KV },
	func(f *engine.Formula) *float64 { return &f.Sequence },
	func(f *engine.Formula) *float64 { return &f.Request },
}

// toward returns constants that lie between others.
func toward(from, to engine.Formula, share float64) engine.Formula {
	for _, of := range directions {
		*of(&from) += share * (*of(&to) - *of(&from))
	}
	return from
}

// computed is when a prompt was computed, alone or with others.
type computed struct {
	begun, ended int64
	leader       int // place of the first of those that were computed together
}

// inTurn returns when prompts were computed, where a server computes them in turn: each from when it had come and the one before was computed.
// Prompts whose first tokens came within a time of one another were computed together.
func inTurn(list []Request, together int64) []computed {
	order, all := make([]int, len(list)), make([]computed, len(list))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(list[a].First - list[b].First) })
	last := map[int][]int{} // of each server the places of those that were computed together
	for _, k := range order {
		r := &list[k]
		group := last[r.Server]
		if len(group) == 0 || r.First-all[group[0]].ended > together {
			begun := r.Sent
			if len(group) > 0 {
				begun = max(begun, all[group[0]].ended)
			}
			all[k], last[r.Server] = computed{begun, r.First, k}, []int{k}
			continue
		}
		last[r.Server] = append(group, k)
		for _, other := range last[r.Server] {
			all[other] = computed{all[group[0]].begun, r.First, group[0]}
		}
	}
	return all
}

// windows returns when prompts were computed by engines of a structure: in the last passes of their time, which answers that are decoded
// tell.
func (p *problem) windows(s structure, one *played) []computed {
	list, tokens := slices.Clone(p.prompts), make([]int, len(p.prompts))
	for k := range p.list {
		tokens[list[k].leader] += p.list[k].Prompt - one.requests[k].Reused
	}
	for k := range p.list {
		at := &list[k]
		if at.leader != k || s[split] == 1 {
			continue
		}
		n := (tokens[k] + s[budget] - 1) / s[budget]
		for j := range p.list {
			q := &p.list[j]
			if q.Sent >= at.ended {
				break
			}
			if q.Server != p.list[k].Server || q.Last < at.ended-p.together {
				continue
			}
			if i, _ := slices.BinarySearch(q.Messages, at.ended-p.together); i >= n && i < len(q.Messages) {
				at.begun = max(at.begun, q.Messages[i-n])
			}
		}
	}
	return list
}

// regress fits constants to durations of which the requests themselves say what was computed: a pass a token, the prompts of others, and the
// tokens that others got. A prompt lacks what was found in the cache, as far as the server tells, or as it was played.
func (p *problem) regress(s structure, one *played) engine.Formula {
	windows := p.windows(s, one)
	var rows []row
	add := func(r *Request, f features, from, to int64, weight float64) {
		tokens := 0.0 // of the request that got the most
		for j := range p.list {
			q := &p.list[j]
			if q.Sent >= to {
				break
			}
			if q == r || q.Server != r.Server || q.Last <= from {
				continue
			}
			w := windows[p.prompts[j].leader]
			share := overlap(w.begun, w.ended, from, to)
			if s[split] == 0 {
				f.addPrompt(q, one.requests[j].Reused, share)
			}
			if n, length := q.tokens(from, to); s[split] == 0 || weight < 1 {
				tokens = max(tokens, n)
				f[kv] += n * length
				f[sequences] += n
				f[knee0] += n
			}
		}
		f[passes] = max(f[passes], tokens)
		for k := range knees[1:] {
			f[knee0+1+k] = math.Inf(1)
		}
		rows = appendRow(rows, f, to-from, weight)
	}
	for k := range p.list {
		r := &p.list[k]
		if !fitted(r) {
			continue
		}
		if at := windows[k]; p.prompts[k].leader == k {
			var f features
			f.addPrompt(r, one.requests[k].Reused, 1)
			f[passes], f[requests] = math.Ceil(f[knee0]/float64(s[budget])), flag(at.begun == r.Sent)
			add(r, f, at.begun, at.ended, 1)
		}
		marks := r.marks()
		for m := range marks[1:] {
			a, b := marks[m], marks[m+1]
			n := float64(b.token - a.token)
			add(r, features{passes: n, kv: n * float64(r.Prompt+(a.token+b.token)/2), sequences: n, knee0: n}, a.at, b.at, 1/float64(len(marks)-1))
		}
	}
	f := p.solve(rows)
	for range 5 { // what these explain badly counts less
		again := slices.Clone(rows)
		for k := range again {
			r := &again[k]
			r.weight *= trust(r.of(&f)/r.ms, 0.05)
		}
		f = p.solve(again)
	}
	return f
}

// overlap returns which share of a time lies between two instants.
func overlap(from, to, a, b int64) float64 {
	if to <= from {
		return 0
	}
	return max(float64(min(to, b)-max(from, a)), 0) / float64(to-from)
}

// start returns constants to begin with: a pass takes a typical gap between tokens, and a prompt what the fastest took a token.
func start(list []Request) engine.Formula {
	var gaps, tokens []float64
	for _, r := range list {
		tokens = append(tokens, float64(r.First-r.Sent)/1e6/float64(r.Prompt))
		if r.Output > 1 {
			gaps = append(gaps, float64(r.Last-r.First)/1e6/float64(r.Output-1))
		}
	}
	slices.Sort(gaps)
	slices.Sort(tokens)
	f := engine.Formula{Token: tokens[len(tokens)/4]}
	if len(gaps) > 0 {
		f.Pass = gaps[len(gaps)/4]
	}
	return f
}

// config returns the engine of a structure.
func (p *problem) config(s structure, f engine.Formula) engine.Config {
	c := p.o.Base
	c.MaxSeqs, c.MaxBatchedTokens, c.ChunkedPrefill, c.PrefixCaching = s[slots], s[budget], s[chunked] == 1, s[cached] == 1
	c.SpeedupRatio, c.DecodeSpeedupRatio = 1, 1
	c.Timing = engine.Source{Formula: &f}
	return c
}

// played is the requests as an engine answers them, and its passes.
type played struct {
	requests []*fleet.Request  // by place
	tracks   map[[2]int]*track // by pool and worker
	split    bool
	frontend int64 // nanoseconds from arrivals to the scheduler
}

// play plays the requests on the engines of a structure.
func (p *problem) play(s structure, f engine.Formula, closed bool) (*played, error) {
	c := p.config(s, f)
	pool := fleet.Pool{Workers: p.o.Workers, Engine: c, Timing: engine.NewTiming(c, nil)}
	one := &played{tracks: map[[2]int]*track{}, split: s[split] == 1, frontend: pool.Timing.Frontend()}
	o := fleet.Options{Pools: []fleet.Pool{pool}, Switches: p.o.Switches, Load: Load(p.list, closed), Observer: one}
	if one.split {
		o.Pools = append(o.Pools, pool)
	} else if p.o.Workers > 1 {
		o.Pools[0].Router = &recorded{list: p.list}
	}
	got, err := fleet.Run(p.ctx, o)
	if err != nil {
		return nil, err
	}
	one.requests = ByPlace(p.list, got.Requests)
	return one, nil
}

// recorded is the router of workers that each stand for a server of the run.
type recorded struct {
	list    []Request
	workers []int
}

func (r *recorded) Workers(_ int64, active []int) { r.workers = active }

// Route returns the worker of the server that got the request.
func (r *recorded) Route(_ int64, q *fleet.Request) (worker int, ok bool) {
	return r.workers[r.list[q.ID].Server%len(r.workers)], true
}

func (r *recorded) Next(int64) (*fleet.Request, int) { return nil, 0 }
func (r *recorded) Events(int, []engine.KVEvent)     {}
func (r *recorded) FirstToken(int64, *fleet.Request) {}
func (r *recorded) Completed(int64, *fleet.Request)  {}
func (p *played) Released(int64, *fleet.Request)     {}
func (p *played) Completed(int64, *fleet.Request)    {}

// knees are the tokens up to which a pass may take the time of reading the weights.
var knees = [...]int{0, 8, 16, 32, 64, 128, 256, 512}

// The features of durations. From knee0 on stand the tokens computed, for each knee at least as many in a pass.
const (
	passes    = iota
	attention // pairs of a token computed and one that it sees
	kv        // tokens read
	sequences // requests that get a token
	requests
	knee0
)

// features are what a duration is a sum of.
type features [knee0 + len(knees)]float64

// featuresOf returns those of the work of a pass.
func featuresOf(w *engine.Work) (f features) {
	f[passes], f[attention], f[kv], f[sequences] = 1, float64(w.Attended), float64(w.KV+w.Prefix), float64(w.Batch)
	for k, knee := range knees {
		f[knee0+k] = float64(max(w.New+w.Batch, knee))
	}
	return f
}

// addPrompt adds a share of the prompt of a request, of which reused tokens were found.
func (f *features) addPrompt(q *Request, reused int, share float64) {
	chunk := q.Prompt - reused
	f[attention] += share * float64(chunk*reused+chunk*(chunk+1)/2)
	f[kv] += share * float64(reused)
	f[knee0] += share * float64(chunk)
}

// track is the passes of a worker, with the sums of their features.
type track struct {
	starts, ends []int64
	sums         []features // up to the end of the pass
	works        []engine.Work
}

// Pass notes a pass.
func (p *played) Pass(pool, worker int, pass *engine.Pass) {
	key := [2]int{pool, worker}
	t := p.tracks[key]
	if t == nil {
		t = &track{}
		p.tracks[key] = t
	}
	var w engine.Work
	if !p.split || pool == 0 {
		w.New, w.Prefix, w.Attended = pass.Prefill.Tokens, pass.Prefill.Prefix, pass.Attended
	}
	if !p.split || pool == 1 {
		w.Batch, w.KV = pass.Decode.Requests, pass.Decode.Tokens
	}
	if w.New+w.Batch == 0 {
		return
	}
	sum := featuresOf(&w)
	if n := len(t.sums); n > 0 {
		for k, v := range t.sums[n-1] {
			sum[k] += v
		}
	}
	t.starts, t.ends, t.sums, t.works = append(t.starts, pass.Start), append(t.ends, pass.End), append(t.sums, sum), append(t.works, w)
}

// at returns the sums of features at an instant. A pass in flight counts by the share of its time that has passed.
func (t *track) at(now int64) (f features) {
	k := sort.Search(len(t.ends), func(k int) bool { return t.ends[k] > now })
	if k > 0 {
		f = t.sums[k-1]
	}
	if k == len(t.ends) || t.starts[k] >= now {
		return f
	}
	share := float64(now-t.starts[k]) / float64(t.ends[k]-t.starts[k])
	for i, v := range t.sums[k] {
		f[i] += share * (v - f[i])
	}
	return f
}

// between returns the features of the passes of a worker from one instant to another.
func (p *played) between(pool, worker int, from, to int64) (f features) {
	t := p.tracks[[2]int{pool, worker}]
	if t == nil {
		return f
	}
	a, b := t.at(from), t.at(to)
	for k := range f {
		f[k] = b[k] - a[k]
	}
	return f
}

// decoding returns the pool whose workers emit tokens.
func (p *played) decoding() int {
	if p.split {
		return 1
	}
	return 0
}

// emitted returns when each token of a request came after the first, one a pass; nil where the request was preempted.
func (p *played) emitted(q *fleet.Request) []int64 {
	t := p.tracks[[2]int{p.decoding(), q.Worker}]
	if t == nil {
		return nil
	}
	k, _ := slices.BinarySearch(t.ends, q.First)
	if end := k + q.Tokens; end <= len(t.ends) && t.ends[end-1] == q.Last {
		return t.ends[k:end]
	}
	return nil
}

// span is a duration of a request as it was measured and as it was simulated, and how much it counts.
type span struct {
	from, to int64 // simulated
	measured int64 // nanoseconds
	weight   float64
	first    bool // it ends with the first token
}

// spans returns the time of a request until its first token, and those between marks of its answer.
func (p *played) spans(r *Request, q *fleet.Request) []span {
	list := []span{{q.Arrival, q.First, r.First - r.Sent, 1, true}}
	marks, tokens := r.marks(), p.emitted(q)
	if len(marks) > 2 && tokens == nil {
		marks = []mark{marks[0], marks[len(marks)-1]}
	}
	for k := range marks[1:] {
		from, to := q.First, q.Last
		if tokens != nil {
			from, to = tokens[marks[k].token], tokens[marks[k+1].token]
		}
		list = append(list, span{from, to, marks[k+1].at - marks[k].at, 1 / float64(len(marks)-1), false})
	}
	return list
}

// features returns what a duration of a request is a sum of.
func (p *played) features(q *fleet.Request, s span) features {
	if !s.first {
		return p.between(p.decoding(), q.Worker, s.from, s.to)
	}
	prompt := s.to // its end
	if q.Prefill != nil {
		prompt = q.Prefill.Last
	}
	f := p.between(0, q.Front().Worker, s.from+p.frontend, prompt)
	if q.Prefill != nil {
		for k, v := range p.between(1, q.Worker, prompt, s.to) {
			f[k] += v
		}
	}
	f[requests] = 1
	return f
}

// row is a duration that was measured, in milliseconds, with its features.
type row struct {
	features
	ms, weight float64
}

// of returns the milliseconds that constants give, without weights.
func (r *row) of(f *engine.Formula) float64 {
	x := &r.features
	return f.Pass*x[passes] + f.Attention*x[attention] + f.KV*x[kv] + f.Sequence*x[sequences] + f.Request*x[requests] + f.Token*x[knee0]
}

// trust returns how much a duration counts that constants explain by a factor: as much above 1 as below, and less, the more it is off, from so
// much on.
func trust(factor, off float64) float64 {
	factor = max(factor, 1e-3)
	return math.Min(1, off/math.Abs(math.Log(factor))) / math.Max(1, factor*factor)
}

// appendRow adds a duration of nanoseconds, whose relative error counts.
func appendRow(rows []row, f features, ns int64, weight float64) []row {
	ms := float64(ns) / 1e6
	if ms <= 0 || f[passes]+f[requests] == 0 {
		return rows
	}
	return append(rows, row{f, ms, weight / (ms * ms)})
}

// constants fits those of passes to the measured durations of requests, by least squares of relative errors. What the passes that were
// played explain badly counts less.
func (p *problem) constants(one *played) engine.Formula {
	var rows []row
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) || q.Tokens == 0 {
			continue
		}
		for _, s := range one.spans(r, q) {
			rows = appendRow(rows, one.features(q, s), s.measured, s.weight*trust(float64(s.to-s.from)/float64(s.measured), 0.2))
		}
	}
	return p.solve(rows)
}

// solve returns the constants of rows.
func (p *problem) solve(rows []row) engine.Formula {
	f := leastSquares(rows)
	if f.Request > p.fastest { // it is part of every time to a first token
		for k := range rows {
			rows[k].ms -= p.fastest * rows[k].features[requests]
			rows[k].features[requests] = 0
		}
		f = leastSquares(rows)
		f.Request = p.fastest
	}
	return f
}

// errors returns the relative errors of the requests to which constants are fitted, and their mean. That of a request is the mean of those of
// its time to the first token, and from there to the last.
func (p *problem) errors(one *played) (list []float64, mean float64) {
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) {
			continue
		}
		sum, n := 0.0, 0.0
		for _, s := range one.spans(r, q) {
			sum += s.weight * math.Min(math.Abs(math.Log(float64(max(s.to-s.from, 1000))/float64(max(s.measured, 1000)))), 2)
			n += s.weight
		}
		list = append(list, sum/n)
		mean += sum / n
	}
	return list, mean / float64(len(list))
}
