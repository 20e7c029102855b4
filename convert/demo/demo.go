// Package demo holds the traces that come with the binary, so that converting and replaying can be tried, and tested,
// without any data at hand. They have the form of kv-cache-tester's v8 set and between them every shape that set is known
// to have, and a few that it lacks. Sizes and waits are small: a replay takes seconds.
//
// Nothing in them was recorded. builder.go makes the traces, scenarios.go says what happens in each.
package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// SHA256 is the digest of JSONL. It changes whenever a byte of the traces does, and then every cache made from them
// is another one.
const SHA256 = "345a54cb798a4b3b3305ef89248d8653f52f0c31d964d095866b640bb91f0af9"

// JSONL returns the traces, one JSON object per line, in the order of their ids. The bytes are the same in every process
// and on every platform. The slice is shared and must not be changed.
func JSONL() []byte { return jsonl() }

var jsonl = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for i, s := range stories {
		t := newTrace(fmt.Sprintf("demo-%02d-%s", i+1, s.name), uint64(i+1))
		s.tell(t.root)
		if err := lines.Encode(t.record()); err != nil {
			panic(err) // plain structs of strings and integers
		}
	}
	return out.Bytes()
})
