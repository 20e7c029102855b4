package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// ErrorCounts counts failed requests by category, without cancellations and overflows.
type ErrorCounts map[wire.Category]int

// Failed returns how many requests failed.
func (e ErrorCounts) Failed() (n int) {
	for _, of := range e {
		n += of
	}
	return n
}

// CommonestFirst returns the categories.
func (e ErrorCounts) CommonestFirst() []wire.Category {
	categories := slices.Sorted(maps.Keys(e))
	slices.SortStableFunc(categories, func(x, y wire.Category) int { return e[y] - e[x] })
	return categories
}

// rates describes the share of each category in a number of requests, the commonest first.
func (e ErrorCounts) rates(ended int) string {
	var parts []string
	for _, c := range e.CommonestFirst() {
		parts = append(parts, fmt.Sprintf("%s %s", c, FormatShare(shareOf(e[c], ended))))
	}
	return strings.Join(parts, ", ")
}

// addRates adds the shares of failures and overflows.
func (s *Summary) addRates() {
	failed := ErrorCounts(s.Errors).Failed()
	ended := s.Completed + failed
	s.ErrorRate, s.ErrorRates = shareOf(failed, ended), map[wire.Category]Number{}
	for c, n := range s.Errors {
		s.ErrorRates[c] = shareOf(n, ended)
	}
	s.OverflowRate = shareOf(s.Buckets.ContextOverflow, ended+s.Buckets.ContextOverflow)
}

// shareOf returns n of all as a share, 0 of nothing.
func shareOf(n, all int) Number {
	if all == 0 {
		return 0
	}
	return Number(n) / Number(all)
}
