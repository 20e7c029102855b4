package planner

import "math"

// work is what a pass computes.
type work struct{ prompts, tokens, prefix, decodes, kv int }

// The stores of a forward model of an aggregated engine, by what a pass computes. Others have one store.
const (
	decodesAlone = iota
	promptsAlone
	both
)

// forward foretells passes from the last pass of each engine at ticks, as Dynamo 1.6.1 does: doc/spec/simulate.md 11.12.
type forward struct {
	kind   kind
	engine Engine
	least  int
	stores []samples
	planes []plane

	prompt, length  average // of the next request: prompt tokens of a prefill, KV tokens of a decode
	prompts, tokens average // of prefills in a pass of an aggregated engine
}

// newForward returns a model that has seen no pass.
func newForward(k kind, c Config, e Engine) *forward {
	f := &forward{kind: k, engine: e, least: c.MinObservations}
	n := 1
	if k == aggKind {
		n = 3
	}
	for range n {
		f.stores = append(f.stores, newSamples(c.MaxSamples, c.BucketCount, 2))
	}
	f.planes = make([]plane, n)
	for _, a := range []*average{&f.prompt, &f.length, &f.prompts, &f.tokens} {
		*a = newAverage(c.MaxSamples)
		a.running = true
	}
	return f
}

// ready reports whether any store has a fit.
func (f *forward) ready() bool {
	for _, p := range f.planes {
		if p.fitted {
			return true
		}
	}
	return false
}

// notice learns from the last pass of an engine what requests are like.
func (f *forward) notice(r *record) {
	if r.prompts > 0 {
		f.prompt.add(float64(r.prefill) / float64(r.prompts))
	} else {
		f.prompt.add(0)
	}
	if r.requests > 0 {
		f.length.add(float64(r.kv) / float64(r.requests))
	}
}

// learn keeps the last pass of an engine as a sample. One that did nothing, or took no time, is none.
func (f *forward) learn(r *record) {
	w := work{int(r.prompts), r.prefill, r.prefix, int(r.requests), r.kv}
	if x, store, ok := f.features(w); ok && r.wall > 0 {
		s := &f.stores[store]
		s.add(sample{x: [2]float64{math.Log1p(x[0]), math.Log1p(x[1])}, raw: x, wall: float64(r.wall) / 1e9})
		f.planes[store] = fitPlane(s.list, f.least)
	}
	f.prompts.add(float64(r.prompts))
	f.tokens.add(float64(r.prefill))
}

// features returns the attention and the tokens of a pass, and the store that it belongs to; ok is false of one that computes nothing.
func (f *forward) features(w work) (x [2]float64, store int, ok bool) {
	attention := 0.0
	if w.tokens > 0 {
		t, n, prefix := float64(w.tokens), float64(w.prompts), float64(w.prefix)
		attention = prefix + prefix*t/n + t*t/(2*n) + t/2 // what prefills read, and pairs of tokens
	}
	switch f.kind {
	case prefillKind:
		return [2]float64{attention, float64(w.tokens)}, 0, w.tokens > 0
	case decodeKind:
		return [2]float64{float64(w.kv), float64(w.decodes)}, 0, w.decodes > 0
	}
	switch {
	case w.tokens > 0 && w.decodes > 0:
		store = both
	case w.tokens > 0:
		store = promptsAlone
	}
	return [2]float64{attention + float64(w.kv), float64(w.tokens + w.decodes)}, store, w.tokens > 0 || w.decodes > 0
}

// leastForward is the shortest time that a forward model foretells, in seconds.
const leastForward = 1e-9

// seconds foretells a pass; ok is false where its store has no fit. One that computes nothing takes no time.
func (f *forward) seconds(w work) (s float64, ok bool) {
	x, store, any := f.features(w)
	switch p := &f.planes[store]; {
	case !any:
		return 0, true
	case !p.fitted:
		return 0, false
	default:
		return max(p.at(x), leastForward), true
	}
}

// chunks foretells a prompt of tokens in passes of at most MBT, each beside the rest of w.
func (f *forward) chunks(tokens int, w work) (s float64, ok bool) {
	full, rest := tokens/f.engine.MaxBatchedTokens, tokens%f.engine.MaxBatchedTokens
	for _, part := range [][2]int{{full, f.engine.MaxBatchedTokens}, {1, rest}} {
		if part[0] == 0 || part[1] == 0 {
			continue
		}
		w.tokens = part[1]
		one, ok := f.seconds(w)
		if !ok {
			return 0, false
		}
		s += float64(float64(part[0]) * one)
	}
	return s, true
}

// scaled returns a share of a number, rounded up.
func scaled(n int, share float64) int { return int(math.Ceil(float64(float64(n) * share))) }

// ttft foretells the first token of the next request of an engine, behind a share of its queue and, in an aggregated one, beside a share of
// what it decodes; queued: of what waits to decode, too.
func (f *forward) ttft(r *record, hit, queue, decode float64, queued bool) (s float64, ok bool) {
	tokens, prompts := float64(float64(r.queuedPrefill)*queue), float64(float64(r.queuedPrompts)*queue)
	if next := f.prompt.value(); next > 0 {
		tokens, prompts = tokens+next, prompts+1
	}
	kv, n := r.kv, int(r.requests)
	if queued {
		kv, n = kv+r.queued, n+int(r.queuedRequests)
	}
	w := work{prompts: max(1, int(math.Ceil(prompts)))}
	if f.kind == aggKind {
		w.decodes, w.kv = scaled(n, decode), scaled(kv, decode)
	}
	return f.chunks(int(math.Ceil(tokens*(1-hit))), w)
}

// itl foretells a decode step of an engine with the next request and a share of what it decodes and what waits to; prompts: of the prompts that
// wait, too.
func (f *forward) itl(r *record, share float64, prompts bool) (s float64, ok bool) {
	kv, n := r.kv+r.queued, int(r.requests+r.queuedRequests)
	if prompts {
		kv, n = kv+r.queuedPrefill, n+int(r.queuedPrompts)
	}
	tokens, requests := float64(float64(kv)*share), float64(float64(n)*share)
	if next := f.length.value(); next > 0 {
		tokens, requests = tokens+next, requests+1
	}
	w := work{decodes: int(math.Ceil(requests)), kv: int(math.Ceil(tokens))}
	if f.kind == aggKind {
		w.tokens, w.prompts = int(math.Ceil(f.tokens.value())), int(math.Ceil(f.prompts.value()))
		if w.tokens > 0 {
			w.prompts = max(w.prompts, 1)
		}
	}
	return f.seconds(w)
}

// The batches that a capacity looks at, at most, and what an engine that names no bound holds.
const (
	mostBatches = 128
	unknownSeqs = 512
	unknownKV   = 2_000_000
	longest     = math.MaxInt32 // tokens of a request that has a capacity
)

// batches returns the batches of up to most requests that a capacity looks at.
func batches(most int) (list []int) {
	if most <= mostBatches {
		for n := range most {
			list = append(list, n+1)
		}
		return list
	}
	for i := range mostBatches {
		list = append(list, 1+i*(most-1)/(mostBatches-1))
	}
	return list
}

// capacity returns how many requests a second of these lengths one engine serves: the most of a batch that keeps the limits, in seconds,
// else the most of any. ok is false where a store that it needs has no fit.
func (f *forward) capacity(isl, osl, hit, ttft, itl float64) (best Capacity, ok bool) {
	if isl <= 0 || f.kind != prefillKind && osl <= 0 || isl+osl > longest {
		return best, false
	}
	prompt, output := int(math.Ceil(isl)), max(1, int(math.Ceil(osl)))
	fresh, context := max(1, scaled(prompt, 1-hit)), prompt+output/2
	most := f.mostRequests(fresh, context)
	for _, n := range batches(most) {
		c := Capacity{Batch: n, MaxBatch: most}
		w, first := work{decodes: n, kv: n * context}, 0.0
		switch f.kind {
		case prefillKind:
			c.Seconds, ok = f.chunks(fresh*n, work{prompts: 1})
			c.RPS, c.Meets = float64(n)/c.Seconds, c.Seconds <= ttft
		default:
			if f.kind == aggKind {
				w.tokens, w.prompts = int(math.Ceil(float64(n*fresh)/float64(output))), 1
				if w.tokens > f.engine.MaxBatchedTokens-n { // it does not keep up with its own prefill
					continue
				}
				if first, ok = f.chunks(w.tokens+fresh, w); !ok {
					return best, false
				}
			}
			c.Seconds, ok = f.seconds(w)
			c.RPS, c.Meets = float64(n)/float64(float64(output)*c.Seconds), c.Seconds <= itl && first <= ttft
		}
		if !ok {
			return best, false
		}
		if best.RPS == 0 || c.Meets && !best.Meets || c.Meets == best.Meets && c.RPS > best.RPS {
			best = c
		}
	}
	return best, best.RPS > 0
}

// mostRequests returns how many requests a batch can have.
func (f *forward) mostRequests(fresh, context int) int {
	e := f.engine
	seqs, kv := e.MaxSeqs, e.MaxKV
	if seqs == 0 {
		seqs = unknownSeqs
	}
	if kv == 0 {
		kv = unknownKV
	}
	switch {
	case f.kind == prefillKind && fresh > e.MaxBatchedTokens:
		return 1
	case f.kind == prefillKind:
		return min(seqs, e.MaxBatchedTokens/fresh)
	case f.kind == decodeKind:
		return min(seqs, kv/context)
	}
	return min(seqs, kv/context, e.MaxBatchedTokens-1)
}

// plane is a least-squares plane over two features, without a slope below 0.
type plane struct {
	mean, scale, slope [2]float64
	intercept          float64
	fitted             bool
}

// at returns the plane's value.
func (p *plane) at(x [2]float64) float64 {
	v := p.intercept
	for i, slope := range p.slope {
		if slope != 0 {
			v += float64(slope * ((x[i] - p.mean[i]) / p.scale[i]))
		}
	}
	return v
}

// constantShare is the share of a mean below which the spread of a feature is none; ridge that of the trace of a singular system which its
// diagonal gets.
const (
	constantShare = 1e-12
	ridge         = 1e-9
)

// fitPlane returns the plane of the least error without a slope below 0: that of the best of all subsets of features that vary.
func fitPlane(list []sample, least int) (best plane) {
	if len(list) < least || len(list) == 0 {
		return best
	}
	var base plane
	n := float64(len(list))
	for i := range 2 {
		for _, s := range list {
			base.mean[i] += s.raw[i] / n
		}
		for _, s := range list {
			base.scale[i] += (s.raw[i] - base.mean[i]) * (s.raw[i] - base.mean[i]) / n
		}
		base.scale[i] = math.Sqrt(base.scale[i])
	}
	varies := func(i int) bool { return base.scale[i] > constantShare*max(math.Abs(base.mean[i]), 1) }
	if !varies(0) && !varies(1) {
		return best
	}
	lowest := math.Inf(1)
	for _, axes := range [][]int{{}, {0}, {1}, {0, 1}} {
		p, usable := base, true
		for _, i := range axes {
			usable = usable && varies(i)
		}
		if !usable || !p.solve(list, axes) {
			continue
		}
		sum := 0.0
		for _, s := range list {
			d := p.at(s.raw) - s.wall
			sum += d * d
		}
		if sum < lowest {
			best, lowest = p, sum
		}
	}
	return best
}

// solve gives the plane the intercept and the slopes along axes of the least error. Where the system is singular, slopes are held small. It
// reports whether no slope is below 0.
func (p *plane) solve(list []sample, axes []int) bool {
	var m [3][4]float64
	size := len(axes) + 1
	for _, s := range list {
		row := [4]float64{1}
		for k, i := range axes {
			row[k+1] = (s.raw[i] - p.mean[i]) / p.scale[i]
		}
		for i := range size {
			for j := range size {
				m[i][j] += row[i] * row[j]
			}
			m[i][3] += row[i] * s.wall
		}
	}
	got, ok := eliminate(m, size)
	if !ok {
		trace := 0.0
		for i := range size {
			trace += math.Abs(m[i][i])
		}
		for i := 1; i < size; i++ {
			m[i][i] += ridge * max(trace, 1)
		}
		if got, ok = eliminate(m, size); !ok {
			return false
		}
	}
	p.intercept, p.fitted = got[0], true
	for k, i := range axes {
		p.slope[i] = got[k+1]
		ok = ok && got[k+1] >= 0
	}
	return ok && !math.IsNaN(got[0]+got[1]+got[2]) && !math.IsInf(got[0]+got[1]+got[2], 0)
}

// eliminate solves a system whose right side is the last column; ok is false for a singular one.
func eliminate(m [3][4]float64, size int) (x [3]float64, ok bool) {
	for c := range size {
		pivot := c
		for r := c; r < size; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[pivot][c]) {
				pivot = r
			}
		}
		if math.Abs(m[pivot][c]) < singular {
			return x, false
		}
		m[c], m[pivot] = m[pivot], m[c]
		for r := range size {
			if r == c {
				continue
			}
			f := m[r][c] / m[c][c]
			for j := c; j < 4; j++ {
				m[r][j] -= float64(f * m[c][j])
			}
		}
	}
	for i := range size {
		x[i] = m[i][3] / m[i][i]
	}
	return x, true
}
