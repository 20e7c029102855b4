package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/cmd/internal/report/otlp"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/guard"
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

// listenFlag is --listen, and the server that it asks for.
type listenFlag struct {
	address string       // "": there is none
	server  *live.Server // nil before open
}

// check completes the address.
func (l *listenFlag) check() (err error) {
	if l.address != "" {
		l.address, err = live.Address(l.address)
	}
	return err
}

// open begins to serve. The caller must call close.
func (l *listenFlag) open(cmd *cobra.Command) (err error) {
	if l.address == "" {
		return nil
	}
	if l.server, err = live.Listen(l.address, os.Getenv(guard.Variable)); err != nil {
		return usageError{fmt.Errorf("--listen: %w", err)}
	}
	cmd.SetContext(context.WithValue(cmd.Context(), liveServer{}, l.server))
	quiet, _ := cmd.Flags().GetBool("quiet")
	if !quiet || strings.HasSuffix(l.address, ":0") { // the user cannot know the port otherwise
		printError(cmd.ErrOrStderr(), "agentx: the run is served at "+l.server.URL()+" (also metrics, status)")
	}
	if l.server.Drawn != "" {
		printError(cmd.ErrOrStderr(), tokenLine("--listen", l.server.Drawn))
	}
	return nil
}

// tokenLine tells a token that was drawn, which nobody could know otherwise.
func tokenLine(flag, token string) string {
	return fmt.Sprintf("agentx: %s is reached from other machines, so it wants this token: %s (Authorization: Bearer TOKEN; in a browser the password; %s gives another)", flag, token, guard.Variable)
}

// browsersWait is how long a command waits at its end for pages that are open in browsers, which fetch the finished one.
const browsersWait = 3 * time.Second

func (l *listenFlag) close() {
	if l.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), browsersWait)
	defer cancel()
	_ = l.server.Close(ctx) // the command ends, whatever Close says
}

// liveServer is the key of the server of a command in its context.
type liveServer struct{}

// serverOf returns the server of a command, nil if it has none.
func serverOf(cmd *cobra.Command) *live.Server {
	server, _ := cmd.Context().Value(liveServer{}).(*live.Server)
	return server
}

// collectorKind is the URL of a collector; "": none.
func collectorKind() settings.Kind {
	k := settings.Checked(func(text string) error { _, err := otlp.Endpoint(text); return err })
	k.Schema = map[string]any{"type": "string", "pattern": `^(off|(https?://)?[^ /?#]+(/[^ ]*)?)?$`}
	k.Read = func(text string) (any, bool) {
		url, err := otlp.Endpoint(text)
		return url, err == nil
	}
	return k
}

// newExporter returns the exporter that --otlp asks for, nil if it asks for none.
func newExporter(cmd *cobra.Command, o *replay.Options, state *live.State) *otlp.Exporter {
	endpoint, _ := cmd.Flags().GetString("otlp")
	if endpoint == "" {
		return nil
	}
	about := otlp.Options{
		Endpoint: endpoint, Version: version, Operation: "chat", Provider: o.Endpoint.Provider(), Model: o.Model, URLs: o.URLs, Figures: state.Families,
	}
	if !o.Endpoint.Roles() {
		about.Operation = "text_completion"
	}
	e, err := otlp.New(about)
	if err != nil { // the settings have been checked
		panic(err)
	}
	return e
}

// closeExporter ends an exporter, and says what it could not send.
func closeExporter(e *otlp.Exporter, p *progress) {
	d := e.Close()
	switch {
	case d.Dropped > 0:
		p.say(fmt.Sprintf("agentx: warning: --otlp: %d of %d requests were dropped: %v", d.Dropped, d.Sent+d.Dropped, d.Err))
	case d.Err != nil:
		p.say(fmt.Sprintf("agentx: warning: --otlp: all %d requests were sent, not all metrics: %v", d.Sent, d.Err))
	case d.Sent > 0:
		p.logLines([]string{fmt.Sprintf("--otlp: %d requests were sent as spans", d.Sent)})
	}
}

// phaseLines returns what agentx-harness logs of a step of a period: doc/spec/report.md 7.3.
func phaseLines(n *replay.PhaseNews, realtime *live.Realtime) []string {
	switch {
	case n.Step == replay.PhaseBegun:
		return []string{joinFields(phaseTitle(n, "started"), phaseIndex(n), targetText(n.Target))}
	case n.Step == replay.PhaseSent:
		return []string{joinFields(phaseTitle(n, "sending complete"),
			fmt.Sprintf("sent=%s, completed=%s, in_flight=%s", groupDigits(n.Requests), groupDigits(returned(n)), groupDigits(n.InFlight)),
			sessionsText(n, "sent", n.Sessions.Sent, "completed", n.Sessions.Completed), flagged(n.TimedOut, "timeout_triggered=True"))}
	case n.Step == replay.PhaseOver:
		return []string{joinFields(phaseTitle(n, "complete"),
			fmt.Sprintf("completed=%s, cancelled=%s, errors=%s", groupDigits(returned(n)), groupDigits(n.Cancelled), groupDigits(n.Errors+n.Overflows)),
			sessionsText(n, "completed", n.Sessions.Completed, "cancelled", n.Sessions.Cancelled), fmt.Sprintf("elapsed=%.2fs", n.Elapsed.Seconds()),
			flagged(n.TimedOut, "grace_period_timeout=True"), flagged(n.Ended, "was_cancelled=True"))}
	case n.Phase == measure.ProfilingPhase:
		return realtime.Block(n.Elapsed, live.Servers{Counters: n.Servers.Counters, Gauges: n.Servers.Gauges})
	}
	of := groupDigits(returned(n) + n.Cancelled)
	if n.Target.Requests > 0 {
		of += "/" + groupDigits(n.Target.Requests)
	}
	return []string{joinFields("Phase "+n.Phase+" progress", "returned="+of, "sent="+groupDigits(n.Requests), "in_flight="+groupDigits(n.InFlight),
		"errors="+groupDigits(n.Errors+n.Overflows), fmt.Sprintf("elapsed=%.1fs", n.Elapsed.Seconds()))}
}

func phaseTitle(n *replay.PhaseNews, what string) string {
	return fmt.Sprintf("Phase %s (%s) %s", n.Phase, n.Phase, what)
}

// phaseIndex numbers the measured period, of which a run has one.
func phaseIndex(n *replay.PhaseNews) string {
	return flagged(n.Phase == measure.ProfilingPhase, "phase_index=0 | profiling_index=0")
}

// returned counts the requests that have ended, but for those that were cancelled.
func returned(n *replay.PhaseNews) int { return n.Completed + n.Errors + n.Overflows }

// targetText names what bounds a period, "" where nothing does.
func targetText(t replay.PhaseTarget) string {
	var list []string
	if t.Requests > 0 {
		list = append(list, groupDigits(t.Requests)+" requests")
	}
	if t.Duration > 0 {
		list = append(list, fmt.Sprintf("%.1fs duration", t.Duration.Seconds()))
	}
	if t.Trees > 0 {
		list = append(list, groupDigits(t.Trees)+" sessions")
	}
	return flagged(len(list) > 0, "target: "+strings.Join(list, ", "))
}

// sessionsText counts root sessions in two ways, "" where none was sent.
func sessionsText(n *replay.PhaseNews, first string, a int, second string, b int) string {
	return flagged(n.Sessions.Sent > 0, fmt.Sprintf("sessions: %s=%s, %s=%s", first, groupDigits(a), second, groupDigits(b)))
}

// flagged returns a text if it applies.
func flagged(applies bool, text string) string {
	if applies {
		return text
	}
	return ""
}

// joinFields joins the fields of a line that are not empty.
func joinFields(fields ...string) string {
	var list []string
	for _, f := range fields {
		if f != "" {
			list = append(list, f)
		}
	}
	return strings.Join(list, " | ")
}
