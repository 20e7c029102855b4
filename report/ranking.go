package report

import (
	"cmp"
	"math"
	"slices"
)

// ranking finds, among many keys with weights, those at given ranks: the smallest key up to which the weights add up to a rank. It is
// exact and of bounded size. A few different keys are sorted; of many, each pass over all of them finds 16 more bits of the answers,
// until few are left that share these.
//
//	for more := true; more; more = k.endPass(ranks) {
//		for every key and its weight { k.add(key, weight) }
//	}
//	k.found[n] // at the n-th rank
type ranking struct {
	total int64 // of the weights

	groups []*group // that have the answers which are not found yet
	pass   int      // number of the pass, from 0

	room int // of a group, after the first pass

	ranks []int64 // of the answers, from 1, among the keys of their group; 0: found
	found []uint64
}

// group has the keys that share their first bits.
type group struct {
	prefix  uint64
	few     []weighted // while there are few different ones
	room    int        // for how many
	weights []int64    // of many keys: by their next digit
}

// weighted is a key and its weight.
type weighted struct {
	key    uint64
	weight int64
}

const (
	digitBits = 16
	digits    = 64 / digitBits

	fewKeys    = 1 << 16 // of all, that are sorted
	fewOfGroup = 1 << 12 // of a group, once there are many
)

// newRanking returns a ranking that sorts up to a number of different keys.
func newRanking(room int) ranking {
	return ranking{groups: []*group{{room: room}}, room: min(room, fewOfGroup)}
}

func (k *ranking) add(key uint64, weight int64) {
	if k.pass == 0 {
		k.total += weight
	}
	shift := 64 - digitBits*(k.pass+1)
	for _, g := range k.groups {
		if key>>shift>>digitBits == g.prefix {
			g.add(key, weight, shift)
			return
		}
	}
}

func (g *group) add(key uint64, weight int64, shift int) {
	if g.weights != nil {
		g.weights[key>>shift&(1<<digitBits-1)] += weight
		return
	}
	if n := len(g.few); n > 0 && g.few[n-1].key == key {
		g.few[n-1].weight += weight
		return
	}
	if g.few = append(g.few, weighted{key, weight}); len(g.few) <= g.room {
		return
	}
	if g.merge(); len(g.few) > g.room/2 { // most are different: there are many
		g.weights = make([]int64, 1<<digitBits)
		for _, w := range g.few {
			g.weights[w.key>>shift&(1<<digitBits-1)] += w.weight
		}
		g.few = nil
	}
}

// merge sorts few keys and makes one of equal ones.
func (g *group) merge() {
	slices.SortFunc(g.few, func(x, y weighted) int { return cmp.Compare(x.key, y.key) })
	n := 0
	for _, w := range g.few {
		if n > 0 && g.few[n-1].key == w.key {
			g.few[n-1].weight += w.weight
			continue
		}
		g.few[n] = w
		n++
	}
	g.few = g.few[:n]
}

// endPass ends a pass. It reports whether another one is needed. After the first, ranks returns what is asked for.
func (k *ranking) endPass(ranks func(total int64) []int64) (more bool) {
	if k.pass == 0 {
		k.ranks = ranks(k.total)
		k.found = make([]uint64, len(k.ranks))
	}
	for _, g := range k.groups {
		g.merge()
	}
	for n := range k.ranks {
		if k.ranks[n] > 0 {
			k.narrow(n)
		}
	}
	k.pass++
	k.groups = nil
	for n, prefix := range k.found {
		if k.ranks[n] > 0 && !slices.ContainsFunc(k.groups, func(g *group) bool { return g.prefix == prefix }) {
			k.groups = append(k.groups, &group{prefix: prefix, room: k.room})
		}
	}
	return len(k.groups) > 0 && k.pass < digits
}

// narrow finds an answer among few keys, its next digit among many.
func (k *ranking) narrow(n int) {
	g := k.groups[slices.IndexFunc(k.groups, func(g *group) bool { return g.prefix == k.found[n] })]
	if g.weights == nil {
		for _, w := range g.few {
			k.found[n] = w.key
			if k.ranks[n] -= w.weight; k.ranks[n] <= 0 {
				break
			}
		}
		k.ranks[n] = 0
		return
	}
	digit := uint64(0)
	for ; digit < 1<<digitBits-1 && k.ranks[n] > g.weights[digit]; digit++ {
		k.ranks[n] -= g.weights[digit]
	}
	k.found[n] = k.found[n]<<digitBits | digit
}

// moments are the mean, the extremes and the standard deviation of values with weights.
type moments struct {
	weight, mean, squares float64 // squares: weighted sum of the squared distances from the mean
	min, max              float64
}

func (m *moments) add(v, weight float64) {
	if m.weight == 0 {
		m.min, m.max = v, v
	}
	m.min, m.max = min(m.min, v), max(m.max, v)
	m.weight += weight
	off := v - m.mean
	m.mean += off * weight / m.weight
	m.squares += weight * off * (v - m.mean)
}

// std returns the standard deviation of the population.
func (m *moments) std() float64 { return math.Sqrt(max(0, m.squares/m.weight)) }
