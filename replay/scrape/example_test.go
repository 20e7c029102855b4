package scrape_test

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/replay/scrape"
)

// Read the file of a run, and print how a counter changed.
func ExampleRead() {
	data, err := scrape.Read(strings.NewReader(`{"endpoint":0,"url":"http://h/metrics","default":true}
{"series":0,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{}}
{"endpoint":0,"at":1700000000000000000,"took":1000000,"values":[[0,130]]}
{"endpoint":0,"at":1700000000333000000,"took":1000000,"values":[[0,190]]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := &data.Series[0]
	for k := range tokens.Len() {
		answer, values := tokens.Change(k)
		fmt.Println(tokens.Name, answer, values[0])
	}
	// Output:
	// vllm:prompt_tokens 0 130
	// vllm:prompt_tokens 1 190
}
