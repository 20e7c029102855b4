// Package meant guesses which of the names that exist was meant by one that does not.
package suggest

import (
	"cmp"
	"slices"
	"strings"
)

// Closest returns the name most like word: one that holds it, that it holds, or that differs in a third of its letters at
// most. Without such a name it is "".
func Closest(word string, names []string) string {
	for _, name := range Nearest(word, names) {
		if alike(strings.ToLower(word), strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

// held is the shortest part of a name that stands for it.
const held = 3

func alike(word, name string) bool {
	return min(len(word), len(name)) >= held && (strings.Contains(name, word) || strings.Contains(word, name)) ||
		distance(word, name) <= len(word)/3
}

// Nearest returns the names, those most like word first. Equally near ones keep their order.
func Nearest(word string, names []string) []string {
	type near struct {
		name     string
		distance int
	}
	list := make([]near, len(names))
	for k, name := range names {
		list[k] = near{name, distance(strings.ToLower(word), strings.ToLower(name))}
	}
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	sorted := make([]string, len(list))
	for k, n := range list {
		sorted[k] = n.name
	}
	return sorted
}

// distance is the fewest bytes to put in, take out or change that make one text the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for k := range len(b) {
			change := left
			if a[i] != b[k] {
				change++
			}
			left, row[k+1] = row[k+1], min(change, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
