package capacity_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/capacity"
)

// Search for the most lanes on a server that holds its service levels with up to 11 of them.
func Example() {
	search := capacity.Search{}
	var probes []capacity.Probe
	for {
		lanes := search.Next(probes)
		if lanes == 0 {
			break
		}
		verdict := capacity.Met
		if lanes > 11 {
			verdict = capacity.Missed
		}
		probes = append(probes, capacity.Probe{Lanes: lanes, Verdict: verdict})
		fmt.Print(lanes, " ")
	}
	fmt.Println("->", search.Answer(probes).Lanes)
	// Output: 1 2 4 8 16 12 10 11 -> 11
}
