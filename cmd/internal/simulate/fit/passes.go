package fit

import (
	"slices"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

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

// emitted returns when each token of a request came, one a pass; nil where it was preempted, or refused.
func (p *played) emitted(q *fleet.Request) []int64 {
	t := p.tracks[[2]int{p.decoding(), q.Worker}]
	if t == nil || q.Tokens == 0 {
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
	if len(tokens) != r.Output { // an engine may refuse it, or stop it
		tokens = nil
	}
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
