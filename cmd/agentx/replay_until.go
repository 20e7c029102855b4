package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report/until"
)

// untilSetting says how often --until looks.
var untilSetting = setting{
	name: "UntilInterval", group: tellGroup, kind: span.atLeast(minUntilInterval), value: until.Every,
	about: "how often --until looks at the intervals",
	apply: func(*replay.Options, any) {}, // of the one who watches, not of the run
}

// minUntilInterval is the shortest UntilInterval: records reach their file every quarter of a second.
const minUntilInterval = 100 * time.Millisecond

// untilFlags say which metrics a run is to know, and how well.
type untilFlags struct{ texts []string }

func (f *untilFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.texts, "until", nil, "METRIC=SHARE, such as ttft.p95=5%: end the run when the interval of 95 % of this figure lies within this share of it, at three looks 30 s apart, from the 20th tree on (repeatable, or with commas); the other bounds stay")
}

// targets returns what the run is to know. Errors name the flag as name does.
func (f *untilFlags) targets(name string) (list []until.Target, errs []error) {
	seen := map[string]bool{}
	for _, texts := range f.texts {
		for text := range strings.SplitSeq(texts, ",") {
			t, err := until.Parse(strings.TrimSpace(text))
			if err == nil && seen[t.String()] {
				err = fmt.Errorf("%s is there twice", t)
			}
			if err != nil {
				errs = append(errs, usageError{fmt.Errorf("%s %s: %w", name, text, err)})
				continue
			}
			seen[t.String()] = true
			list = append(list, t)
		}
	}
	return list, errs
}

// untilNames completes the names of figures that --until takes.
func untilNames(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var list []string
	for _, m := range measure.MetricNames() {
		for _, statistic := range slo.Statistics {
			if f := (slo.Figure{Metric: m, Statistic: statistic}); m.OfEach && statistic != "max" {
				list = append(list, f.String()+"=")
			}
		}
	}
	return withPrefix(list, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// applyUntil makes a run end when it knows what --until names. What is wrong is added to the problems.
func (f *replayFlags) applyUntil(r *resolution, o *replay.Options) {
	if flag := f.flags.Lookup("until"); originOf(flag).kind == fromEnvironment && strings.Join(f.until.texts, "") == "" {
		f.until.texts = nil // an empty variable is none
	}
	targets, errs := f.until.targets(f.named("until"))
	f.errs = append(f.errs, errs...)
	every, _ := r.values["UntilInterval"].value.(time.Duration)
	if len(targets) == 0 {
		return
	}
	o.Watch = func(ctx context.Context, w replay.Watched) *measure.Until {
		tick := time.NewTicker(every)
		defer tick.Stop()
		watcher := until.Watcher{Dir: w.Dir, Targets: targets, Tick: tick.C, End: w.End}
		if quiet, _ := f.flags.GetBool("quiet"); !quiet {
			watcher.Tell = untilLines(w.Notice)
		}
		found, err := watcher.Watch(ctx)
		if err != nil {
			w.Warn("--until: " + err.Error())
		}
		return found
	}
}

// untilLineEvery is at how many looks without a change a line is printed.
const untilLineEvery = 10

// untilLines returns a function that prints what a look has found: the first, each that changes the looks in a row, and some between.
func untilLines(notice func(string)) func(until.Look) {
	inARow := 0
	return func(l until.Look) {
		changed := l.InARow != inARow
		if inARow = l.InARow; l.Number == 1 || changed || l.Number%untilLineEvery == 0 {
			notice("until: " + l.String())
		}
	}
}
