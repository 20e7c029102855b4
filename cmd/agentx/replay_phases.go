package main

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

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
