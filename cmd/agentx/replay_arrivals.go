package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
)

// arrivalChoice is what is known of the arrivals before the dataset is.
type arrivalChoice struct {
	given bool   // the command line says how trees arrive
	lanes string // a setting that needs lanes, as the user wrote it; "": none does
}

// resolveArrivals finds out how trees arrive, as far as the command line says.
func (f *replayFlags) resolveArrivals(o *replay.Options) {
	a := &o.Arrivals
	imply := func(applies bool, mode replay.ArrivalMode, by string) {
		if applies && !f.arrivals.given {
			a.Mode, f.arrivals.given = mode, true
			f.set.Imply("arrivals", mode, by)
		}
	}
	f.arrivals.given = f.set.IsSet("arrivals")
	imply(a.Rate > 0, replay.RateArrivals, "rate")
	imply(a.From > 0, replay.RecordedArrivals, "from")
	imply(a.To > 0, replay.RecordedArrivals, "to")
	if !f.arrivals.given {
		f.arrivals.lanes = f.needsLanes(*o)
	} else if a.Mode != replay.Lanes {
		if f.several() {
			f.add("%s and %s: trees that arrive on their own have one cap: want one number of lanes", f.set.Show("concurrency"), f.set.Show("arrivals"))
		}
		f.settleArrivals(o)
	}
}

// needsLanes names the setting that keeps traces from opening at their recorded starts.
func (f *replayFlags) needsLanes(o replay.Options) string {
	if f.several() {
		return f.set.Show("concurrency")
	}
	o.Arrivals.Mode = replay.RecordedArrivals
	return f.set.Against("arrivals", &o)
}

// several reports whether --concurrency asks for several runs.
func (f *replayFlags) several() bool { return f.auto.auto != nil || len(f.auto.counts) > 1 }

// settleArrivals sets what follows from the mode: without --concurrency there is no cap.
func (f *replayFlags) settleArrivals(o *replay.Options) {
	if !f.set.IsSet("concurrency") {
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
	case f.arrivals.lanes != "":
		tell("traces are played in lanes, not at their recorded starts: %s needs lanes", f.arrivals.lanes)
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
