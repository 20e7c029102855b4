// Package replay plays a prepared cache against an inference server and measures it.
//
// [Run] does it all. Its [Options] need a cache, a server and a model; everything else has a default:
//
//	cache, err := mmapcache.Open(root, key)
//	summary, err := replay.Run(ctx, replay.Options{
//		Cache: cache, URL: "http://127.0.0.1:8000", Model: "m", Concurrency: 8, Out: "results",
//	})
//	fmt.Println(summary.Completed, summary.TTFT.P50)
//
// A lane plays one tree of sessions after the other. run.go puts the parts together. schedule.go turns the recorded times
// of a trace into the tree that is played, package resume decides where lanes begin, and sampler.go deals traces to lanes.
//
// Then loop.go runs, in one goroutine. It tells package conductor the time and what came back, and package conductor says
// what is sent when. request.go follows one request: from its dispatch, through package payload, which makes the body, and
// package wire, which sends it, to its record. results.go gathers the records with package measure and writes them.
package replay
