package timeline_test

import (
	"fmt"

	"github.com/agentx/agentx/timeline"
)

// A cap of 60 s on idle gaps moves what follows a pause of an hour to 60 s after it. Times are seconds.
func ExampleWarp() {
	warp := timeline.NewWarp([]float64{0, 10, 3610, 3620}, 60)
	fmt.Println(warp.Map(10), warp.Map(3610), warp.Map(3620))
	// Output: 10 70 80
}
