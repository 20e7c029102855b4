package report

import (
	"cmp"
	"slices"
)

// ranking finds, among many keys with weights, those at given ranks: the smallest key up to which the weights add up to a rank. It is
// exact and of bounded size. A few keys are sorted; of many, each pass over all of them finds 16 more bits of the answers.
//
//	for more := true; more; more = k.endPass(ranks) {
//		for every key and its weight { k.add(key, weight) }
//	}
//	k.found[n] // at the n-th rank
type ranking struct {
	total int64 // of the weights

	few    []weighted // while they fit
	room   int        // for how many
	groups []*group   // by the bits that are known; of many keys
	pass   int        // number of the pass, from 0

	ranks []int64 // of the answers, from 1; of many keys, among those that share the bits that are known
	found []uint64
}

// weighted is a key and its weight.
type weighted struct {
	key    uint64
	weight int64
}

// fewKeys is how many keys are sorted.
const fewKeys = 1 << 16

// group counts the weights of keys that share their first bits, by the next digit.
type group struct {
	prefix  uint64
	weights [1 << digitBits]int64
}

const (
	digitBits = 16
	digits    = 64 / digitBits
)

func (k *ranking) add(key uint64, weight int64) {
	if k.pass == 0 {
		k.total += weight
	}
	if k.groups != nil {
		k.count(key, weight)
		return
	}
	if n := len(k.few); n > 0 && k.few[n-1].key == key {
		k.few[n-1].weight += weight
		return
	}
	if k.few = append(k.few, weighted{key, weight}); len(k.few) > k.room {
		k.merge()
	}
}

// merge makes one of equal keys. If most are different, there are many.
func (k *ranking) merge() {
	slices.SortFunc(k.few, func(x, y weighted) int { return cmp.Compare(x.key, y.key) })
	n := 0
	for _, w := range k.few {
		if n > 0 && k.few[n-1].key == w.key {
			k.few[n-1].weight += w.weight
			continue
		}
		k.few[n] = w
		n++
	}
	if k.few = k.few[:n]; n <= k.room/2 {
		return
	}
	k.groups = []*group{{}}
	for _, w := range k.few {
		k.count(w.key, w.weight)
	}
	k.few = nil
}

// count adds a weight to the group that a key belongs to, if there is one.
func (k *ranking) count(key uint64, weight int64) {
	shift := 64 - digitBits*(k.pass+1)
	for _, g := range k.groups {
		if key>>shift>>digitBits == g.prefix {
			g.weights[key>>shift&(1<<digitBits-1)] += weight
			return
		}
	}
}

// endPass ends a pass. It reports whether another one is needed. After the first, ranks returns what is asked for.
func (k *ranking) endPass(ranks func(total int64) []int64) (more bool) {
	if k.pass == 0 {
		k.ranks = ranks(k.total)
		k.found = make([]uint64, len(k.ranks))
	}
	if k.groups == nil {
		k.sort()
		return false
	}
	for n := range k.ranks {
		k.narrow(n)
	}
	k.pass++
	k.groups = k.groups[:0]
	if k.pass == digits || len(k.ranks) == 0 {
		return false
	}
	for _, prefix := range k.found {
		if !slices.ContainsFunc(k.groups, func(g *group) bool { return g.prefix == prefix }) {
			k.groups = append(k.groups, &group{prefix: prefix})
		}
	}
	return true
}

// narrow finds the next digit of an answer.
func (k *ranking) narrow(n int) {
	at := slices.IndexFunc(k.groups, func(g *group) bool { return g.prefix == k.found[n] })
	digit := uint64(0)
	for ; digit < 1<<digitBits-1 && k.ranks[n] > k.groups[at].weights[digit]; digit++ {
		k.ranks[n] -= k.groups[at].weights[digit]
	}
	k.found[n] = k.found[n]<<digitBits | digit
}

// sort finds all answers among few keys.
func (k *ranking) sort() {
	slices.SortFunc(k.few, func(x, y weighted) int { return cmp.Compare(x.key, y.key) })
	for n, rank := range k.ranks {
		for _, w := range k.few {
			k.found[n] = w.key
			if rank -= w.weight; rank <= 0 {
				break
			}
		}
	}
}
