// Package replay plays a prepared cache against an inference server and measures it.
//
// [Run] plays a whole replay, [RunList] one for each of several numbers of lanes. Its [Options] need a cache, a server and a model; everything else has a default:
//
//	dataset, err := cachestore.Open(ctx, root, key)
//	if err != nil {
//		return err
//	}
//	defer dataset.Close()
//	summary, err := replay.Run(ctx, replay.Options{
//		Cache: dataset.Cache, URLs: []string{"http://127.0.0.1:8000"}, Model: "m", Concurrency: 8, Out: "results",
//	})
//	if summary != nil { // there are measurements even after an error
//		fmt.Println(summary.Completed, summary.TTFT.P50)
//	}
//	return err
//
// A tree is a trace as it is played: a root session and the sessions that it spawns. A lane plays one tree after the
// other. run.go puts the parts together. schedule.go turns the recorded times of a trace into the tree that is played, as
// the view of the run in view.go says. Package resume decides where lanes begin, and sampler.go deals traces to lanes.
//
// Then loop.go runs, in one goroutine. It tells package conductor the time and what came back, and package conductor says
// what is sent when. results.go gathers the records with package measure and writes them.
//
// # A request from due to sent
//
//	measuredPhase         phase.go makes the phase of the options, and playPhase plays it: a conductor, and a loop around it
//	loop.advance          loop.go tells the conductor the time: at each event, and at the instant that NextWake names
//	Conductor.settle      conductor.go does all that can be done now: fireDue fires the timers of turns that are due
//	queueOrRetain         transitions.go lets a due turn wait for the turns before it in the recording, then for a slot of prefill
//	sendQueued, issue     the turn that gets a slot is issued, unless its lane is held: a Dispatch has Due and Issued
//	loop.launch           request.go notes the request as in flight
//	requestSender.send    begins its record, with Due and Admitted, and gives it to a goroutine
//	requestSender.do      package payload makes the body; leaving.await lets the request of its parent go first
//	wire.Client.Do        notes Sent, takes or makes a connection, and writes
//	loop.onReturn         completes the record, and tells the conductor, which decides what is due next
//
// A [Player] (player.go) plays the same without servers, for a simulation of them.
package replay
