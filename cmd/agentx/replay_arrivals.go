package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
)

// resolveArrivals finds out how trees arrive, as far as the command line says, and adds what contradicts that.
func (f *replayFlags) resolveArrivals(o *replay.Options) {
	f.arrivals.given = f.set.IsSet("arrivals")
	by := "arrivals" // what asks for the mode
	switch a := &o.Arrivals; {
	case f.arrivals.given:
	case a.Rate > 0:
		a.Mode, f.arrivals.given, by = replay.RateArrivals, true, "rate"
	case a.From > 0:
		a.Mode, f.arrivals.given, by = replay.RecordedArrivals, true, "from"
	case a.To > 0:
		a.Mode, f.arrivals.given, by = replay.RecordedArrivals, true, "to"
	}
	f.checkMode(o)
	f.checkTurns(o)
	f.arrivals.lanes = f.needLanes(replay.RecordedArrivals)
	if o.Arrivals.Mode != replay.Lanes {
		for _, option := range f.needLanes(o.Arrivals.Mode) {
			f.add("%s and %s: trees that arrive on their own %s: want one of the two", option.shown, f.set.Show(by), option.why)
		}
		f.settleArrivals(o)
	}
}

// arrivalChoice is what is known of the arrivals before the dataset is.
type arrivalChoice struct {
	given bool         // the command line says how trees arrive
	lanes []needsLanes // options that recorded arrivals exclude
}

// needsLanes is an option that arrivals exclude.
type needsLanes struct{ shown, why string }

// needLanes returns the options that a mode of arrivals excludes.
func (f *replayFlags) needLanes(mode replay.ArrivalMode) (list []needsLanes) {
	set := func(name, why string) {
		if !f.set.IsDefault(name) && f.set.From(name).Kind != settings.FromScenario { // the scenario is named below
			list = append(list, needsLanes{f.set.Show(name), why})
		}
	}
	set("asap", "keep their times")
	set("start", "begin with their first turns")
	set("warmup", "have no lanes to warm up")
	set("system-idle-cap", "are not moved")
	set("recycle", "are no lane's choice")
	set("max-live-per-trace", "are no lane's choice")
	if mode == replay.RecordedArrivals {
		set("sampler-order", "have the recorded order")
		set("ramp", "begin at their recorded starts")
	}
	if f.scenario.chosen != nil {
		list = append(list, needsLanes{f.named("scenario") + " " + f.scenario.name, "are not what a scenario plays"})
	}
	if f.auto.auto != nil {
		list = append(list, needsLanes{fmt.Sprintf("%s %s", f.named("concurrency"), f.auto.auto.text), "have no number of lanes to search for"})
	}
	if len(f.auto.counts) > 1 {
		list = append(list, needsLanes{fmt.Sprintf("%s %s", f.named("concurrency"), f.auto.lanes), "have one cap, not a list"})
	}
	return list
}

// checkMode adds what contradicts the mode of the arrivals by itself.
func (f *replayFlags) checkMode(o *replay.Options) {
	mode, rate := o.Arrivals.Mode, o.Arrivals.Rate > 0
	by := "arrivals"
	if mode == replay.RateArrivals && !rate {
		f.add("%s: --rate says how many trees per second", f.set.Show(by))
	}
	if mode != replay.RateArrivals && rate {
		f.against("rate", by, "a rate is another way to open trees")
	}
	for _, name := range []string{"rate-of", "arrival"} {
		if !rate && !f.set.IsDefault(name) {
			f.add("%s: goes with --rate", f.set.Show(name))
		}
	}
	if rate {
		by = "rate"
	}
	for _, name := range []string{"from", "to"} {
		if mode != replay.RecordedArrivals {
			f.against(name, by, "a window is one of recorded arrivals")
		}
	}
	if from, to := o.Arrivals.From, o.Arrivals.To; to > 0 && to <= from {
		f.add("%s: at or before %s: want a later time", f.set.Show("to"), f.set.Show("from"))
	}
}

// against adds that a setting that is not what it is of itself contradicts another.
func (f *replayFlags) against(name, by, why string) {
	if !f.set.IsDefault(name) {
		f.add("%s and %s: %s: want one of the two", f.set.Show(name), f.set.Show(by), why)
	}
}

// checkTurns adds what contradicts absolute turns, and a ramp of lanes.
func (f *replayFlags) checkTurns(o *replay.Options) {
	lanes := o.Arrivals.Mode == replay.Lanes
	if o.Arrivals.AbsoluteTurns {
		const gaps = "turns that go at their recorded instants have no gaps"
		f.against("max-gap", "turns", gaps)
		f.against("think-time-only", "turns", gaps)
		if lanes {
			f.against("asap", "turns", gaps)
			f.against("start", "turns", "instants count from the first turn of a trace")
			f.against("warmup", "turns", "instants count from the first turn of a trace")
		}
	}
	if lanes && o.Arrivals.Ramp > 0 {
		f.against("warmup", "ramp", "the warmup begins on all lanes")
	}
	for _, name := range []string{"turns", "ramp"} {
		if f.scenario.chosen != nil && lanes && !f.set.IsDefault(name) {
			f.add("%s and %s %s: a scenario plays lanes and gaps: want one of the two", f.set.Show(name), f.named("scenario"), f.scenario.name)
		}
	}
}

// settleArrivals sets what follows from the mode: without --concurrency there is no cap.
func (f *replayFlags) settleArrivals(o *replay.Options) {
	if o.Arrivals.Mode != replay.Lanes && !f.set.IsSet("concurrency") {
		o.Concurrency = 0
	}
	f.set.Choose("arrivals", o.Arrivals.Mode) // which the results list
}

// chooseArrivals chooses how trees arrive in a run whose command line does not say it, and says so where the dataset has recorded
// starts. Then it looks whether the dataset has what the arrivals need.
func (f *replayFlags) chooseArrivals(cmd *cobra.Command, o *replay.Options) error {
	quiet, _ := cmd.Flags().GetBool("quiet")
	tell := func(format string, args ...any) {
		if !quiet {
			printError(cmd.ErrOrStderr(), "agentx: "+fmt.Sprintf(format, args...))
		}
	}
	switch {
	case f.arrivals.given || !o.HasRecordedStarts():
	case len(f.arrivals.lanes) > 0:
		tell("traces are played in lanes, not at their recorded starts: %s needs lanes", f.arrivals.lanes[0].shown)
	default:
		o.Arrivals.Mode = replay.RecordedArrivals
		f.settleArrivals(o)
		limit := ""
		if o.Concurrency > 0 {
			limit = fmt.Sprintf(", at most %d at a time", o.Concurrency)
		}
		tell("every trace opens at its recorded start%s, because the input says when it began (--arrivals lanes plays --concurrency at a time)", limit)
	}
	if o.Arrivals.Mode == replay.Lanes {
		return nil
	}
	if err := o.CheckArrivals(); err != nil {
		return usageError{err}
	}
	return nil
}
