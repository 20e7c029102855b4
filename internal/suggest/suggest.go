// Package suggest finds the existing name that a user most likely meant by one that does not exist.
package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Wrong says what is wanted in the place of a text, and which of the words was most likely meant.
func Wrong(text, want string, words []string) error {
	return Meant(errors.New("want "+want), text, words)
}

// Meant adds the one of several words that is most like a text to the error of that text, if one is like it.
func Meant(err error, text string, words []string) error {
	if near := Closest(text, words); near != "" && len(words) > 1 {
		return fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// Either lists words: a, b or c.
func Either[T ~string](words []T) (text string) {
	for k, word := range words {
		text += string(word)
		if left := len(words) - k; left > 2 {
			text += ", "
		} else if left == 2 {
			text += " or "
		}
	}
	return text
}

// Closest returns the name most similar to word: one that contains it, is contained in it, or differs in at most a third of
// its letters. Without such a name it returns "".
func Closest(word string, names []string) string {
	for _, name := range Nearest(word, names) {
		if similar(strings.ToLower(word), strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

// minContained is the shortest part of a name that counts as similar, in bytes.
const minContained = 3

func similar(word, name string) bool {
	return min(len(word), len(name)) >= minContained && (strings.Contains(name, word) || strings.Contains(word, name)) ||
		distance(word, name) <= len(word)/3
}

// Nearest returns the names by similarity to word, the most similar first. Equally similar names keep their order.
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

// distance is the Levenshtein distance of two texts, in bytes.
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
