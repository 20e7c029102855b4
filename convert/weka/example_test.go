package weka_test

import (
	"fmt"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
)

// Read a trace of one request.
func ExampleScan() {
	trace, err := weka.Scan([]byte(`{"id": "t1", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": [
		{"t": 0, "type": "n", "model": "m", "in": 100, "out": 20, "hash_ids": [1]}]}`), rules.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range trace.Requests() {
		fmt.Printf("%s: %d tokens, of which %d blocks of %d are known\n", trace.ID, r.In, r.IDs.Len, trace.BlockSize)
	}
	// Output:
	// t1: 100 tokens, of which 1 blocks of 64 are known
}
