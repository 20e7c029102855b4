package manifest_test

import (
	"fmt"

	"github.com/agentx/agentx/manifest"
)

// The key of a directory is the hash of what it was built from. Two that differ can be explained.
func Example() {
	type image struct{ Tokenizer, Input string }
	want, err := manifest.New("starts", image{"o200k_base", "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	have, err := manifest.New("starts", image{"cl100k_base", "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the same:", want.Key == have.Key)
	list, err := manifest.Differences(want.PreImage, have.PreImage)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range list {
		fmt.Println(d.Field, d.Want, d.Have)
	}
	// Output:
	// the same: false
	// Tokenizer "o200k_base" "cl100k_base"
}
