package preset_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/preset"
)

// Start from a preset, and set one switch.
func Example() {
	s, ok := preset.Named("aiperf-0.13")
	fmt.Println(ok, s.BranchSpawns)
	s.BranchSpawns = false
	_, ok = preset.Named("no-such-preset")
	fmt.Println(ok)
	// Output:
	// true true
	// false
}
