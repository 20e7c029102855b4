package payload_test

import (
	"fmt"

	"github.com/agentx/agentx/replay/payload"
)

// Each tree of a run begins with a marker of its own, so that no prefix cache of an earlier run is hit.
func ExampleNewMarker() {
	first := payload.NewMarker("run-1", 0, 0, "fix-the-tests")
	again := payload.NewMarker("run-1", 0, 0, "fix-the-tests")
	other := payload.NewMarker("run-2", 0, 0, "fix-the-tests")
	fmt.Println(first == again, first == other)
	// Output: true false
}

// An endpoint says to which path its bodies go.
func ExampleEndpoint() {
	fmt.Println(payload.ChatCompletions, payload.ChatCompletions.Path())
	// Output: chat /v1/chat/completions
}
