package merge

import (
	"cmp"
	"slices"
)

// countPasses counts anew how often the trace of each tree was begun before: a part counts its own trees alone.
func (l *load) countPasses() {
	type numbered struct {
		number int
		tree
		of *part
	}
	byTrace := map[string][]numbered{}
	for _, p := range l.used() {
		for number, t := range p.seen.trees {
			byTrace[t.trace] = append(byTrace[t.trace], numbered{number, t, p})
		}
		p.seen.trees, p.passes = nil, map[int]int{}
	}
	for _, list := range byTrace {
		slices.SortFunc(list, func(a, b numbered) int { return cmp.Or(cmp.Compare(a.begun, b.begun), cmp.Compare(a.number, b.number)) })
		for pass, t := range list {
			t.of.passes[t.number] = pass
		}
	}
}
