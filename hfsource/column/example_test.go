package column_test

import (
	"fmt"

	"github.com/agentx/agentx/hfsource/column"
)

// A row with two requests has two lists of ids, whose values lie behind each other. The second request has no list.
func Example() {
	ids := column.Column{
		Path: "requests[].hash_ids[]", Ints: []int64{1, 2, 3}, State: []column.State{column.Value, column.Null},
		Lists: []column.List{
			{State: []column.State{column.Value}, Ends: []int32{2}},
			{State: []column.State{column.Value, column.Null}, Ends: []int32{3, 3}},
		},
	}
	for request := range 2 {
		from, to := ids.Span(request)
		fmt.Println(ids.Ints[from:to])
	}
	// Output:
	// [1 2 3]
	// []
}
