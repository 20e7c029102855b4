package preset

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Validate returns an error that names the first switch, by name, whose value cannot be used.
func (s Switches) Validate() error {
	if c := s.TreeIdleCap; c != nil && !(*c > 0 && float64(*c) <= math.MaxInt64/1e9) {
		return fmt.Errorf("switches: tree-idle-cap %g s: want more than 0, or nil for off", float64(*c))
	}
	values := s.values()
	for _, name := range slices.Sorted(maps.Keys(Choices)) {
		var word string
		if err := json.Unmarshal(values[name], &word); err != nil || !slices.Contains(Choices[name], word) {
			return fmt.Errorf("switches: %s %s: want \"%s\"", name, values[name], strings.Join(Choices[name], `" or "`))
		}
	}
	return nil
}
