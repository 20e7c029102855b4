// Package demo builds the traces that the binary contains, for trials and tests without recorded data.
//
// They have the format of kv-cache-tester's v8 set, every shape that this set is known to have, and a few more. None was
// recorded. Prompts and waits are short: a replay takes seconds. scenarios.go says what happens in each trace, builder.go
// turns that into requests.
//
//	convert.Options{Inputs: []string{"demo"}, Source: hfsource.Options{Embedded: map[string][]byte{"demo": demo.JSONL()}}}
package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// SHA256 is the digest of JSONL, in hexadecimal. A change of it gives every dataset of the demo another key.
const SHA256 = "345a54cb798a4b3b3305ef89248d8653f52f0c31d964d095866b640bb91f0af9"

// JSONL returns the traces, one JSON object per line, in the order of their ids. The bytes never differ. The slice is shared
// and must not be changed.
func JSONL() []byte { return jsonl() }

var jsonl = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for i, s := range scenarios {
		t := newTrace(fmt.Sprintf("demo-%02d-%s", i+1, s.name), uint64(i+1))
		s.run(t.root)
		if err := lines.Encode(t.record()); err != nil {
			panic(err) // plain structs of strings and integers
		}
	}
	return out.Bytes()
})
