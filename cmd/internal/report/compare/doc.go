// Package compare compares runs: which of their figures differ beyond chance, and whether they may be compared at all.
//
//	c, err := compare.Make(ctx, []compare.Source{{Dir: "before"}, {Dir: "after"}}, compare.Options{})
//	files, err := c.Write(ctx, ".")
//	err = c.WriteTable(os.Stdout, 100)
//
// Every run is compared with the first. It reads directories of agentx and those of AIPerf 0.13.0, and knows no player.
// doc/spec/report.md 4 has the rules, and the keys of compare.json.
package compare
