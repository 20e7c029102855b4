package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// errorCounts counts failed requests by category, without cancellations and overflows.
type errorCounts map[wire.Category]int

// failed returns how many requests failed.
func (e errorCounts) failed() (n int) {
	for _, of := range e {
		n += of
	}
	return n
}

// commonestFirst returns the categories.
func (e errorCounts) commonestFirst() []wire.Category {
	categories := slices.Sorted(maps.Keys(e))
	slices.SortStableFunc(categories, func(x, y wire.Category) int { return e[y] - e[x] })
	return categories
}

// rates describes the share of each category in a number of requests, the commonest first.
func (e errorCounts) rates(ended int) string {
	var parts []string
	for _, c := range e.commonestFirst() {
		parts = append(parts, fmt.Sprintf("%s %s", c, percent(shareOf(e[c], ended))))
	}
	return strings.Join(parts, ", ")
}

// addRates adds the shares of failures and overflows.
func (s *Summary) addRates() {
	failed := errorCounts(s.Errors).failed()
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
