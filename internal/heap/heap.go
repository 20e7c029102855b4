// Package heap keeps a slice as a heap, whose first value is the smallest. It is container/heap for a slice of one type.
package heap

// Push adds a value.
func Push[T any](list *[]T, x T, before func(a, b T) bool) {
	*list = append(*list, x)
	h := *list
	for k := len(h) - 1; k > 0 && before(h[k], h[(k-1)/2]); k = (k - 1) / 2 {
		h[k], h[(k-1)/2] = h[(k-1)/2], h[k]
	}
}

// Pop removes the first value.
func Pop[T any](list *[]T, before func(a, b T) bool) (first T) {
	h := *list
	last := len(h) - 1
	first, h[0] = h[0], h[last]
	clear(h[last:])
	*list = h[:last]
	Sink(*list, before)
	return first
}

// Sink restores the order after the first value has become larger.
func Sink[T any](h []T, before func(a, b T) bool) {
	for k, next := 0, 1; next < len(h); next = 2*k + 1 {
		if next+1 < len(h) && before(h[next+1], h[next]) {
			next++
		}
		if !before(h[next], h[k]) {
			return
		}
		h[k], h[next] = h[next], h[k]
		k = next
	}
}
