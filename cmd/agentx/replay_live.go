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

// liveRun shows a run while it is played: on the terminal, in the log, and on the server of --listen. It reads the records as they are
// written, so the run never waits for it.
type liveRun struct {
	p      *progress
	state  *live.State
	length time.Duration // estimated, of a run without a bound; 0: not known
	o      replay.Options

	exporter *otlp.Exporter // nil: there is none

	server *live.Server // nil: there is none
	dir    string       // of the results
	pages  *live.Pages  // nil: there is no server

	ctx       context.Context // ends when the run is over
	end       context.CancelFunc
	following sync.WaitGroup
}

// lookEvery is the time between two looks for new records.
const lookEvery = time.Second

// newLiveState returns the state of a run before its first request. In a meeting part 0 shows the lanes of the whole load.
func newLiveState(o *replay.Options, meets bool) *live.State {
	lanes := o.Concurrency
	if !meets || o.Part.Number > 0 {
		lanes = o.Part.Share(lanes)
	}
	return live.NewState(measure.RulesOf(o.Switches), lanes, o.SLO...)
}

// showLive sets the callbacks of a run's options so that the run is shown, from a state. length estimates a run without a bound; 0: not
// known. The caller must call close.
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

// report takes the progress of the run into the state and shows it.
func (v *liveRun) report(now replay.Progress) {
	now.Remaining = remaining(v.o, v.length, now)
	v.state.Report(now)
	v.p.liveBlock(v.state.Status())
}

// open makes the server of --listen, if there is one, show the page of the run, whose results are now open in a directory.
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

// follow reads records as they are written, and shows what changes, until the run is over.
func (v *liveRun) follow() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	v.state.Follow(v.ctx, v.dir, v.pages, tick.C, time.Now, func() { v.p.liveBlock(v.state.Status()) }, v.exporter.Add)
}

// close waits until all records are read, then makes the finished page.
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

// listenFlag is --listen, and its server.
type listenFlag struct {
	address string       // "": there is none
	server  *live.Server // nil before open
}

// check completes the address, or returns what is wrong with it.
func (l *listenFlag) check() (err error) {
	if l.address != "" {
		l.address, err = live.Address(l.address)
	}
	return err
}

// open starts the server of --listen and prints its URL. The caller must call close.
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

// tokenLine is the line that tells the user a token which agentx has drawn for a listener.
func tokenLine(flag, token string) string {
	return fmt.Sprintf("agentx: %s can be reached from other machines, so it requires this token: %s (Authorization: Bearer TOKEN; in a browser the password; %s sets another)", flag, token, guard.Variable)
}

// browsersWait is how long a command waits at its end for browsers that show the page, so that they can fetch the finished one.
const browsersWait = 15 * time.Second

// close ends the server, after browsers have got the finished page.
func (l *listenFlag) close(cmd *cobra.Command) {
	if l.server == nil {
		return
	}
	quiet, _ := cmd.Flags().GetBool("quiet")
	if n := l.server.Readers(); n > 0 && !quiet {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: --listen: up to %.0f s for %s to get the finished page", browsersWait.Seconds(), measure.Plural(n, "open page", "open pages")))
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

// collectorKind is the kind of --otlp: the URL of a collector, or off.
func collectorKind() settings.Kind {
	k := settings.Checked(func(text string) error { _, err := otlp.Endpoint(text); return err })
	k.Schema = map[string]any{"type": "string", "pattern": `^(off|(https?://)?[^ /?#]+(/[^ ]*)?)?$`}
	k.Read = func(text string) (any, bool) {
		url, err := otlp.Endpoint(text)
		return url, err == nil
	}
	return k
}

// newExporter returns the exporter to the collector of --otlp, nil without one.
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

// closeExporter waits for an exporter to end, and prints how many requests it has sent and dropped.
func closeExporter(e *otlp.Exporter, p *progress) {
	d := e.Close()
	switch {
	case d.Dropped > 0:
		p.say(fmt.Sprintf("agentx: warning: --otlp: %d of %d requests were dropped: %v", d.Dropped, d.Sent+d.Dropped, d.Err))
	case d.Err != nil:
		p.say(fmt.Sprintf("agentx: warning: --otlp: all %d requests were sent, but not all metrics: %v", d.Sent, d.Err))
	case d.Sent > 0:
		p.logLines([]string{fmt.Sprintf("--otlp: %d requests were sent as spans", d.Sent)})
	}
}

// phaseLines returns the lines that agentx-harness logs at a step of a phase: doc/spec/report.md 7.3.
func phaseLines(n *replay.PhaseNews, realtime *live.Realtime) []string {
	switch {
	case n.Step == replay.PhaseBegun:
		index := flagged(n.Phase == measure.ProfilingPhase, "phase_index=0 | profiling_index=0")
		return []string{joinFields(phaseTitle(n, "started"), index, targetText(n.Target))}
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

// phaseTitle begins a line of phaseLines, such as "Phase warmup (warmup) started".
func phaseTitle(n *replay.PhaseNews, what string) string {
	return fmt.Sprintf("Phase %s (%s) %s", n.Phase, n.Phase, what)
}

// returned counts the requests that have ended, without cancelled ones.
func returned(n *replay.PhaseNews) int { return n.Completed + n.Errors + n.Overflows }

// targetText names the bounds of a phase; "" if it has none.
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

// sessionsText writes two counts of root sessions, a named first and b named second; "" if no session was sent.
func sessionsText(n *replay.PhaseNews, first string, a int, second string, b int) string {
	return flagged(n.Sessions.Sent > 0, fmt.Sprintf("sessions: %s=%s, %s=%s", first, groupDigits(a), second, groupDigits(b)))
}

// flagged returns the text if it applies, else "".
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
