package hub_test

import (
	"fmt"

	"github.com/agentx/agentx/hfsource/hub"
)

func ExampleParse() {
	for _, input := range []string{
		"hf://datasets/semianalysisai/cc-traces-weka-062126@main/traces.jsonl",
		"agentx-062126@refs/convert/parquet",
		"semianalysisai/cc-traces-weka-062126",
	} {
		ref, err := hub.Parse(input)
		if err != nil {
			fmt.Printf("%v; try %s\n", err, hub.Hint(err))
			continue
		}
		fmt.Printf("%s, revision %q, path %q\n", ref.Repo, ref.Revision, ref.Path)
	}
	// Output:
	// semianalysisai/cc-traces-weka-062126, revision "main", path "traces.jsonl"
	// semianalysisai/cc-traces-weka-062126, revision "refs/convert/parquet", path ""
	// semianalysisai/cc-traces-weka-062126: not a dataset of the hub; try hf://datasets/semianalysisai/cc-traces-weka-062126
}
