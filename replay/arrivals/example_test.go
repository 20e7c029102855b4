package arrivals_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/arrivals"
)

// Ten arrivals in a second, evenly spaced: the first three.
func Example() {
	schedule := arrivals.Process{Rate: 10, Kind: arrivals.Constant, Seed: "42"}.Schedule()
	for range 3 {
		at, _ := schedule.Next()
		fmt.Println(at)
	}
	// Output:
	// 0s
	// 100ms
	// 200ms
}
