package mmapcache

import "sort"

// ModelMap returns the name to ask for instead of each recorded model name: the first distinct recorded name, which is
// that of the first request of the trace's own list, goes to the first configured one, the others in the order of the
// document, around. Without configured names the recorded ones stay. Section 7.1 of the specification.
func (p *Plan) ModelMap(configured []string) map[string]string {
	rows := make([]int, len(p.Turns))
	for k := range rows {
		rows[k] = k
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := p.Turns[rows[i]], p.Turns[rows[j]]
		return a.Outer < b.Outer || a.Outer == b.Outer && a.Inner < b.Inner
	})
	for k, row := range rows {
		if p.Turns[row].Inner == None { // before all subagents, wherever it stands
			copy(rows[1:k+1], rows[:k])
			rows[0] = row
			break
		}
	}
	names := map[string]string{}
	for _, row := range rows {
		name := p.Turns[row].Model
		if _, ok := names[name]; ok {
			continue
		}
		names[name] = name
		if n := len(configured); n > 0 {
			names[name] = configured[(len(names)-1)%n]
		}
	}
	return names
}
