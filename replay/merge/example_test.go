package merge_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/merge"
)

// A run that was killed before it wrote run.json is no error: Known says so.
func ExampleOpen() {
	run, err := merge.Open("nosuch", merge.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Known, run.Missing)
	// Output: false []
}
