package main

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/cmd/internal/report/otlp"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// liveRun shows what a run is like while it is played: on the terminal, in the log, and on the server of --listen. What it knows it
// reads from the records as they are written, so the run does not wait for it.
type liveRun struct {
	p      *progress
	state  *live.State
	length time.Duration // of a run without a bound; 0: not known
	o      replay.Options

	exporter *otlp.Exporter // nil: there is none

	server *live.Server // nil: there is none
	dir    string       // of the results
	pages  *live.Pages  // nil: there is no server

	ctx       context.Context // ends when the run is over
	end       context.CancelFunc
	following sync.WaitGroup
}

// lookEvery is how often the records are looked at.
const lookEvery = time.Second

// newLiveState returns what a run is like before its first request. In a meeting part 0 has the lanes of the whole load.
func newLiveState(o *replay.Options, meets bool) *live.State {
	lanes := o.Concurrency
	if !meets || o.Part.Number > 0 {
		lanes = o.Part.Share(lanes)
	}
	return live.NewState(measure.RulesOf(o.Switches), lanes)
}

// showLive makes a run tell what it is like, in a state. length is how long it may last without a bound; 0: not known. The caller must
// call close.
func showLive(cmd *cobra.Command, o *replay.Options, p *progress, length time.Duration, state *live.State) *liveRun {
	v := &liveRun{p: p, length: length, o: *o, state: state}
	v.o.Requests, v.o.Trees = o.Part.Share(o.Requests), o.Part.Share(o.Trees)
	p.openBlock()
	if v.server = serverOf(cmd); v.server != nil {
		v.server.Show(&live.View{State: v.state})
	}
	v.exporter = newExporter(cmd, o, state)
	v.ctx, v.end = context.WithCancel(context.Background())
	o.Opened = func(dir string) {
		v.open(dir)
		v.following.Go(v.follow)
	}
	o.Progress = v.report
	o.Period = func(now replay.Progress) {
		v.report(now)
		status := v.state.Status()
		v.p.logLines([]string{status.Log()})
	}
	o.Phase = func(n replay.PhaseNews) { v.exporter.Begin(n.Phase, n.Start) }
	if o.Preset == preset.AgentX {
		realtime := live.NewRealtime(state)
		o.Period = v.report
		o.Phase = func(n replay.PhaseNews) {
			v.exporter.Begin(n.Phase, n.Start)
			p.logLines(phaseLines(&n, realtime))
		}
	}
	return v
}

// report notes the progress of the run.
func (v *liveRun) report(now replay.Progress) {
	now.Remaining = remaining(v.o, v.length, now)
	v.state.Report(now)
	v.p.liveBlock(v.state.Status())
}

// open shows the pages of a run whose results are open.
func (v *liveRun) open(dir string) {
	v.dir = dir
	if v.server == nil {
		return
	}
	var err error
	if v.pages, err = live.NewPages(v.state, dir); err != nil {
		v.p.say("agentx: warning: --listen: there is no page: " + err.Error())
	}
	v.server.Show(&live.View{State: v.state, Pages: v.pages})
}

func (v *liveRun) follow() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	v.state.Follow(v.ctx, v.dir, v.pages, tick.C, time.Now, func() { v.p.liveBlock(v.state.Status()) }, v.exporter.Add)
}

// close ends the following, after the last record, and makes the finished page.
func (v *liveRun) close() {
	v.end()
	v.following.Wait()
	closeExporter(v.exporter, v.p)
	if v.pages != nil {
		if err := v.pages.Finish(v.dir); err != nil {
			v.p.say("agentx: warning: --listen: there is no finished page: " + err.Error())
		}
	}
}
