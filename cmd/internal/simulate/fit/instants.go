package fit

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

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
