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
}

// Result is a fitted engine.
type Result struct {
	Engine engine.Config // with Fit
	// Margins says for each thing in which structures differ how much worse the best other value is, in the order of its search.
	Margins   []Margin
	Errors    []Error   // of the requests of the trees that were held out, in a closed loop
	Residuals []Residue // of the same
}

// Margin is what another value of one thing costs.
type Margin struct {
	Of     string  `json:"of"`
	Chosen string  `json:"chosen"`
	Other  string  `json:"other"` // the best other one
	Score  float64 `json:"score"` // mean relative error with the chosen one
	Worse  float64 `json:"worse"` // with the other; +Inf: it cannot play the run
}

// Decided reports whether the run tells the chosen value from the other one.
func (m *Margin) Decided() bool { return m.Worse > m.Score*decisive }

// decisive is by which factor an error must be larger before a structure counts as another one.
const decisive = 1.05

// structure is what is searched for besides constants.
type structure struct {
	split           bool // prefill and decode have workers of their own
	slots, budget   int
	chunked, cached bool
}

// problem is a search.
type problem struct {
	ctx   context.Context
	list  []Request
	o     Options
	begin engine.Formula // constants to begin with
	best  map[structure]*trial
}

// trial is a structure with its best constants.
type trial struct {
	structure
	formula engine.Formula
	score   float64 // mean relative error
	from    float64 // that of the trial from whose constants it was fitted
}

// fitted reports whether the request of a place is one to which constants are fitted: those of the other trees are predicted.
func fitted(r *Request) bool { return r.Tree%2 == 0 }

// Engine finds structure and constants from requests that were linked.
func Engine(ctx context.Context, list []Request, o Options) (*Result, error) {
	if err := check(list); err != nil {
		return nil, err
	}
	p := &problem{ctx: ctx, list: list[:min(len(list), mostSearched)], o: o, begin: start(list), best: map[structure]*trial{}}
	at := p.try(structure{slots: o.Base.MaxSeqs, budget: o.Base.MaxBatchedTokens, chunked: true, cached: true}, &trial{formula: p.begin, score: math.Inf(1)})
	for range 3 {
		before := at.structure
		for _, d := range p.dimensions() {
			for _, s := range d.values(at.structure) {
				if one := p.try(s, at); one.score*decisive < at.score {
					at = one
				}
			}
		}
		if at.structure == before {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at = p.plainest(at)
	r := &Result{Margins: p.margins(at)}
	p.list = list
	whole := p.refine(at.structure, at.formula, fine)
	whole = p.refine(at.structure, whole.formula, fine)
	return r, p.report(r, whole)
}

// plainest returns the structure with the values of the base wherever the run does not tell them apart.
func (p *problem) plainest(at *trial) *trial {
	for _, d := range p.dimensions() {
		if one := p.try(d.values(at.structure)[0], at); one.score < at.score*decisive {
			at = one
		}
	}
	return at
}

// mostSearched is how many requests, from the first on, decide about structures. All decide about the constants.
const mostSearched = 1000

// dimension is one thing in which structures differ.
type dimension struct {
	name   string
	values func(structure) []structure // with all its values
	text   func(structure) string
}

// dimensions returns them, in the order of the search.
func (p *problem) dimensions() []dimension {
	most := p.overlap()
	return []dimension{
		{"prefix cache", flip(true, func(s *structure) *bool { return &s.cached }), func(s structure) string { return onOff(s.cached) }},
		{"fleet", flip(false, func(s *structure) *bool { return &s.split }), func(s structure) string {
			if s.split {
				return "disaggregated"
			}
			return "aggregated"
		}},
		{"max_num_seqs", numbers(func(s *structure) *int { return &s.slots }, []int{p.o.Base.MaxSeqs, most - 1, most, most + 1, most + 2}), func(s structure) string { return itoa(s.slots) }},
		{"max_num_batched_tokens", numbers(func(s *structure) *int { return &s.budget }, []int{p.o.Base.MaxBatchedTokens, 512, 1024, 2048, 4096, 8192, 16384}),
			func(s structure) string { return itoa(s.budget) }},
		{"chunked prefill", flip(true, func(s *structure) *bool { return &s.chunked }), func(s structure) string { return onOff(s.chunked) }},
	}
}

// flip makes the two values of a truth, that of the base first.
func flip(base bool, of func(*structure) *bool) func(structure) []structure {
	return func(s structure) []structure {
		other := s
		*of(&s), *of(&other) = base, !base
		return []structure{s, other}
	}
}

// numbers makes the values of a number, that of the base first.
func numbers(of func(*structure) *int, values []int) func(structure) []structure {
	return func(s structure) (list []structure) {
		for _, v := range values {
			if one := s; v > 0 {
				*of(&one) = v
				list = append(list, one)
			}
		}
		return list
	}
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
	for _, d := range p.dimensions() {
		m := Margin{Of: d.name, Chosen: d.text(at.structure), Score: at.score, Worse: math.Inf(1)}
		for _, s := range d.values(at.structure) {
			if one := p.try(s, at); s != at.structure && (m.Other == "" || one.score < m.Worse) {
				m.Other, m.Worse = d.text(s), one.score
			}
		}
		list = append(list, m)
	}
	return list
}

// The steps by which constants are changed, of a structure that is tried, and of the one that was found.
var (
	coarse = []float64{0.03}
	fine   = []float64{0.05, 0.02, 0.01, 0.005, 0.002}
)

// try fits the constants of a structure, from those of another one. It fits them again from those of a better one.
func (p *problem) try(s structure, from *trial) *trial {
	known := p.best[s]
	if known != nil && known.from <= from.score {
		return known
	}
	one := p.refine(s, from.formula, coarse)
	if known != nil && known.score <= one.score {
		one = known
	}
	one.from = from.score
	p.best[s] = one
	return one
}

// refine fits the constants of a structure. It begins with the best of those of another trial, those of the durations between tokens, and
// those fitted to the passes that were played with them; then it changes one after the other by steps that become smaller, while the error
// falls.
func (p *problem) refine(s structure, formula engine.Formula, steps []float64) *trial {
	best := &trial{structure: s, formula: formula, score: math.Inf(1)}
	look := func(f engine.Formula) (*played, bool) {
		one, err := p.play(s, f, false)
		if err != nil {
			return nil, false
		}
		score := p.score(one)
		if better := score < best.score; !better {
			return one, false
		}
		best.formula, best.score = f, score
		return one, true
	}
	begin := []engine.Formula{formula}
	if !s.split {
		begin = append(begin, p.regress(s))
	}
	for _, f := range begin {
		for range 3 {
			one, _ := look(f)
			if one == nil {
				break
			}
			f = p.constants(one)
		}
	}
	for _, step := range steps {
		for k := range directions {
			for _, factor := range []float64{1 + step, 1 / (1 + step)} {
				for range 5 {
					f := best.formula
					directions[k](&f, factor)
					if _, better := look(f); !better {
						break
					}
				}
			}
		}
	}
	return best
}

// directions are in which constants are changed: all, one at a time, and one against another that the passes of a run tell badly apart.
var directions = [...]func(f *engine.Formula, by float64){
	func(f *engine.Formula, by float64) {
		f.Pass, f.Weights, f.Token, f.Attention, f.KV = f.Pass*by, f.Weights*by, f.Token*by, f.Attention*by, f.KV*by
	},
	func(f *engine.Formula, by float64) { f.Pass, f.Weights = f.Pass*by, f.Weights*by },
	func(f *engine.Formula, by float64) { f.Token *= by },
	func(f *engine.Formula, by float64) { f.Attention *= by },
	func(f *engine.Formula, by float64) { f.KV *= by },
	func(f *engine.Formula, by float64) { f.Pass, f.Weights, f.KV = f.Pass*by, f.Weights*by, f.KV/by },
	func(f *engine.Formula, by float64) { f.Token, f.Attention = f.Token*by, f.Attention/by },
}

// regress fits constants to the times from first to last token alone, of which the requests themselves say what was computed: a pass a token,
// the prompts of others between their arrival and first token, and the tokens that others got.
func (p *problem) regress(s structure) engine.Formula {
	one, err := p.play(s, p.begin, true)
	if err != nil {
		return p.begin
	}
	var rows []row
	for k := range p.list {
		r := &p.list[k]
		if !fitted(r) || r.Output < 2 || r.Last <= r.First {
			continue
		}
		f := features{float64(r.Output - 1)}
		for j := range p.list {
			q := &p.list[j]
			if q.Sent >= r.Last {
				break
			}
			if q.Server != r.Server || q.Last <= r.First {
				continue
			}
			prefix := one.requests[j].Reused
			chunk := q.Prompt - prefix
			share := overlap(r, q.Sent, q.First)
			tokens := overlap(r, q.First, q.Last) * float64(q.Output-1)
			f[1] += share * float64(chunk*prefix+chunk*(chunk+1)/2)
			f[2] += share*float64(prefix) + tokens*(float64(q.Prompt)+float64(q.Output)/2)
			f[3] += share*float64(chunk) + tokens
		}
		for k := range knees[1:] {
			f[4+k] = math.Inf(1)
		}
		ms := float64(r.Last-r.First) / 1e6
		rows = append(rows, row{f, ms, 1 / (ms * ms)})
	}
	return leastSquares(rows)
}

// overlap returns which share of a time lies between the first and the last token of a request.
func overlap(r *Request, from, to int64) float64 {
	if to <= from {
		return 0
	}
	return max(float64(min(to, r.Last)-max(from, r.First)), 0) / float64(to-from)
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
	c.MaxSeqs, c.MaxBatchedTokens, c.ChunkedPrefill, c.PrefixCaching = s.slots, s.budget, s.chunked, s.cached
	c.SpeedupRatio, c.DecodeSpeedupRatio = 1, 1
	c.Timing = engine.Source{Formula: &f}
	return c
}

// played is the requests as an engine answers them, and its passes.
type played struct {
	requests []*fleet.Request  // by place
	tracks   map[[2]int]*track // by pool and worker
	split    bool
}

// play plays the requests on the engines of a structure.
func (p *problem) play(s structure, f engine.Formula, closed bool) (*played, error) {
	c := p.config(s, f)
	pool := fleet.Pool{Workers: p.o.Workers, Engine: c, Timing: engine.NewTiming(c, nil)}
	one := &played{tracks: map[[2]int]*track{}, split: s.split}
	o := fleet.Options{Pools: []fleet.Pool{pool}, Switches: p.o.Switches, Load: Load(p.list, closed), Observer: one}
	if s.split {
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

// features are what the duration of a pass is a sum of: 1, the attended pairs, the KV tokens read, and for each knee the tokens computed, at
// least as many as the knee.
type features [3 + len(knees)]float64

// featuresOf returns those of the work of a pass.
func featuresOf(w *engine.Work) (f features) {
	f[0], f[1], f[2] = 1, float64(w.Attended), float64(w.KV+w.Prefix)
	for k, knee := range knees {
		f[3+k] = float64(max(w.New+w.Batch, knee))
	}
	return f
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

// spans returns the features of a request until its first token, and from there to the last.
func (p *played) spans(r *fleet.Request) (first, rest features) {
	if r.Prefill == nil {
		return p.between(0, r.Worker, r.Arrival, r.First), p.between(0, r.Worker, r.First, r.Last)
	}
	first = p.between(0, r.Prefill.Worker, r.Arrival, r.Prefill.Last)
	for k, v := range p.between(1, r.Worker, r.Prefill.Last, r.First) {
		first[k] += v
	}
	return first, p.between(1, r.Worker, r.First, r.Last)
}

// row is a duration that was measured, in milliseconds, with the features of its passes.
type row struct {
	features
	ms, weight float64
}

// constants fits those of passes to the measured durations of requests, by least squares of relative errors. What the passes that were
// played explain badly counts less.
func (p *problem) constants(one *played) engine.Formula {
	var rows []row
	add := func(f features, measured, simulated int64) {
		if ms := float64(measured) / 1e6; ms > 0 && f[0] > 0 {
			off := math.Abs(float64(simulated)/1e6/ms - 1)
			rows = append(rows, row{f, ms, math.Min(1, 0.2/off) / (ms * ms)})
		}
	}
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) || q.Tokens == 0 {
			continue
		}
		first, rest := one.spans(q)
		add(first, r.First-r.Sent, q.First-q.Arrival)
		if r.Output > 1 {
			add(rest, r.Last-r.First, q.Last-q.First)
		}
	}
	return leastSquares(rows)
}

// score returns the mean relative error of the requests to which constants are fitted: of their time to the first token, and from there to
// the last.
func (p *problem) score(one *played) float64 {
	sum, n := 0.0, 0
	add := func(measured, simulated int64) {
		sum += math.Min(math.Abs(math.Log(float64(max(simulated, 1000))/float64(max(measured, 1000)))), 2)
		n++
	}
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) {
			continue
		}
		add(r.First-r.Sent, q.First-q.Arrival)
		if r.Output > 1 {
			add(r.Last-r.First, q.Last-q.First)
		}
	}
	return sum / float64(n)
}
