package convert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/convert"
)

// Two requests of a coding agent: the second prompt begins with the two blocks of the first.
const recorded = `{"id": "fix-the-tests", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": [
	{"t": 0.0, "type": "n", "model": "m", "in": 150, "out": 40, "hash_ids": [1, 2], "api_time": 1.5},
	{"t": 4.0, "type": "n", "model": "m", "in": 300, "out": 25, "hash_ids": [1, 2, 3, 4], "api_time": 0.9, "think_time": 2.5}
]}`

// Convert a trace, and find it prepared the second time.
func Example() {
	dir, err := os.MkdirTemp("", "convert-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "trace.json")
	if err := os.WriteFile(input, []byte(recorded), 0o666); err != nil {
		fmt.Println(err)
		return
	}
	o := convert.Options{Root: filepath.Join(dir, "cache"), Inputs: []string{input}}
	for range 2 {
		r, err := convert.Convert(context.Background(), o)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("dataset %s, hit: %t\n", r.Key[:12], r.Hit)
		fmt.Printf("%d trace, %d turns, %d prompt tokens in %d blocks\n", r.Facts.Traces, r.Facts.Turns, r.Facts.PromptTokens, r.Facts.Blocks)
	}
	// Output:
	// dataset 13ec52853e1b, hit: false
	// 1 trace, 2 turns, 450 prompt tokens in 4 blocks
	// dataset 13ec52853e1b, hit: true
	// 1 trace, 2 turns, 450 prompt tokens in 4 blocks
}

// A value that cannot be used is named, with what is allowed.
func ExampleOptions_Validate() {
	o := convert.Options{Root: "cache", Inputs: []string{"traces.jsonl"}, Tokenizer: "gpt2"}
	fmt.Println(o.Validate())
	o.Tokenizer = "" // the default
	fmt.Println(o.Validate())
	// Output:
	// tokenizer gpt2: want cl100k_base, o200k_base, the path of a tokenizer.json or of its directory, or OWNER/NAME of a model of the hub
	// <nil>
}
