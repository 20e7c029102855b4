package trace_test

import (
	"fmt"

	"github.com/agentx/agentx/trace"
)

// A reader of another format makes a Trace. Check says whether everything behind it can take it.
func Example() {
	t := &trace.Trace{ID: "s1", BlockSize: 64, Scope: trace.ScopeLocal, Models: []string{"m"}, Entries: []trace.Entry{
		{Request: trace.Request{T: 0.5, In: 128, Out: 20, IDs: trace.IDs{Runs: []trace.Run{{First: 1, N: 2}}, Len: 2}}},
	}}
	fmt.Println(t.Check())
	t.BlockSize = 0
	fmt.Println(t.Check())
	// Output:
	// <nil>
	// trace "s1": block_size: block size 0: want 1 to 1048576 tokens
}
