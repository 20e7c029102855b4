package reconstruct_test

import (
	"fmt"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
)

// A trace of two requests becomes one session of two turns. The second prompt begins with the first one's block, and ends with
// tokens that no hash id covers.
func Example() {
	trace, err := weka.Scan([]byte(`{"id":"t1","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[
		{"t":0,"type":"n","model":"m","in":64,"out":20,"hash_ids":[1]},
		{"t":5.5,"type":"n","model":"m","in":200,"out":8,"hash_ids":[1,2,3]}]}`), rules.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, _, err := reconstruct.MakePlan(trace, rules.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.Format, plan.Trace.Blocks, "blocks")
	for _, t := range plan.Turns {
		fmt.Printf("at %g s: %d tokens, %d hash ids, %d of them cached\n", t.T, t.In, t.HashIDs, t.CacheHits)
	}
	// Output:
	// local 3 blocks
	// at 0 s: 64 tokens, 1 hash ids, 0 of them cached
	// at 5.5 s: 200 tokens, 3 hash ids, 1 of them cached
}
