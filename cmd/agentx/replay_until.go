package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/until"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// minUntilInterval is the shortest --until-interval: records reach their file every quarter of a second.
const minUntilInterval = 100 * time.Millisecond

// untilFlags say which metrics a run is to know, and how well.
type untilFlags struct {
	targets []until.Target
	every   time.Duration
}

func (f *untilFlags) rows() []settings.Setting {
	return []settings.Setting{
		{Name: "until-interval", Group: settings.Load, Brief: true, Kind: settings.Span.AtLeast(minUntilInterval), Default: until.Every, To: &f.every,
			Help: "how often --until looks at the intervals"},
		{Name: "until", Group: settings.Load, Plain: true, Kind: settings.List(readTargets), To: &f.targets, Shown: targetTexts, Help: "METRIC=SHARE, such as ttft.p95=5%: end the run when the interval of 95 % of this figure lies within this share of it, at three looks 30 s apart, from the 20th tree on (repeatable, or with commas); the other bounds stay"},
	}
}

// readTargets reads METRIC=SHARE, several with commas between.
func readTargets(texts string) (list []until.Target, err error) {
	if texts == "" { // an empty variable is none
		return nil, nil
	}
	for text := range strings.SplitSeq(texts, ",") {
		t, err := until.Parse(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// targetTexts returns targets as they are given.
func targetTexts(v any) any {
	var texts []string
	for _, t := range v.([]until.Target) {
		texts = append(texts, targetLine(t))
	}
	return texts
}

func targetLine(t until.Target) string { return fmt.Sprintf("%s=%g%%", t, 100*t.Share) }

// untilNames are the names of figures that --until takes.
func untilNames() (list []string) {
	for _, m := range measure.MetricNames() {
		for _, statistic := range slo.Statistics {
			if f := (slo.Figure{Metric: m, Statistic: statistic}); m.OfEach && statistic != "max" {
				list = append(list, f.String()+"=")
			}
		}
	}
	return list
}

// applyUntil makes a run end when it knows what --until names. What is wrong is added to the problems.
func (f *replayFlags) applyUntil(o *replay.Options) {
	targets := f.until.targets
	for k, t := range targets {
		if slices.ContainsFunc(targets[:k], func(other until.Target) bool { return other.String() == t.String() }) {
			f.add("%s %s: %s occurs twice", f.named("until"), targetLine(t), t)
		}
	}
	if len(targets) == 0 {
		return
	}
	o.Watch = func(ctx context.Context, w replay.Watched) *measure.Until {
		tick := time.NewTicker(f.until.every)
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
