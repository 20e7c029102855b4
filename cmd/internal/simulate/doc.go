// Package simulate runs one simulation from end to end: doc/spec/simulate.md. It joins the packages below it: workload says
// which requests come and when, engine is one simulated engine, fleet runs many of them on a virtual clock.
//
//	input, err := simulate.NewInput(cache)
//	config := simulate.Default()
//	config.Input, config.Workers = input, 8
//	result, err := simulate.Run(ctx, config)
//	result.Summary().WriteJSON(os.Stdout)
//
// A Config is a value: Run does not change it, and equal ones give equal results in any process, with any number of
// goroutines. Many runs may share an Input, which numbers the blocks of prompts once for each block size.
//
// Nothing here knows the command line, and nothing but the command line imports it.
package simulate
