package preset

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Validate returns an error that names the first switch, by name, whose value cannot be used. Every value but that of
// TreeIdleCap and a truth value is one that some preset has.
func (s Switches) Validate() error {
	if c := s.TreeIdleCap; c != nil && !(*c > 0 && float64(*c) <= math.MaxInt64/1e9) {
		return fmt.Errorf("switches: TreeIdleCap %g s: want more than 0, or nil for off", float64(*c))
	}
	values := s.values()
	delete(values, "TreeIdleCap")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		allowed := []string{"true", "false"}
		if !slices.Contains(allowed, string(values[name])) {
			allowed = nil
		}
		for _, preset := range Names {
			if v := string(table[preset].values()[name]); !slices.Contains(allowed, v) {
				allowed = append(allowed, v)
			}
		}
		if !slices.Contains(allowed, string(values[name])) {
			return fmt.Errorf("switches: %s %s: want %s", name, values[name], strings.Join(allowed, " or "))
		}
	}
	return nil
}
