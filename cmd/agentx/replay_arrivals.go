package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/arrivals"
)

// arrivalSettings say when trees open.
var arrivalSettings = []setting{
	{name: "Arrivals", alias: "arrivals", group: arrivalGroup, kind: word("lanes", "recorded", "rate"), value: "lanes", auto: true,
		about: "when trees open: lanes, when the tree before on the lane is over; recorded, at their recorded starts; rate, at --rate (default: rate with --rate; recorded where the input says when each trace began and no other option needs lanes; else lanes)",
		apply: func(o *replay.Options, v any) { o.Arrivals.Mode = arrivalModes[v.(string)] }},
	{name: "Rate", alias: "rate", group: arrivalGroup, kind: perSecond.orOff(),
		about: "trees that open per second, however slow the answers are; --concurrency is then the most open trees, without it there is no cap",
		apply: func(o *replay.Options, v any) { o.Arrivals.Rate, _ = v.(float64) }},
	{name: "RateOf", alias: "rate-of", group: arrivalGroup, kind: word("trees", "requests"), value: "trees",
		about: "what --rate counts: trees, or requests, which every trace must have one of",
		apply: func(o *replay.Options, v any) { o.Arrivals.PerRequest = v == "requests" }},
	{name: "ArrivalProcess", alias: "arrival", group: arrivalGroup, kind: processKind, value: "poisson",
		about: "gaps between the trees of --rate, drawn from --seed: poisson; constant; gamma:SHAPE, in bursts below a shape of 1, evener above it",
		apply: func(o *replay.Options, v any) { o.Arrivals.Law, o.Arrivals.Shape, _ = arrivals.ParseKind(v.(string)) }},
	{name: "Ramp", alias: "ramp", group: arrivalGroup, kind: span.zeroIsOff().orOff(),
		about: "time over which the rate grows from 0 to --rate, or the lanes open one after another; 0: at once",
		apply: func(o *replay.Options, v any) { o.Arrivals.Ramp, _ = v.(time.Duration) }},
	{name: "WindowFrom", alias: "from", group: arrivalGroup, kind: span.zeroIsOff().orOff(),
		about: "with recorded arrivals: play the traces that start this long after the first, or later",
		apply: func(o *replay.Options, v any) { o.Arrivals.From, _ = v.(time.Duration) }},
	{name: "WindowTo", alias: "to", group: arrivalGroup, kind: span.zeroIsOff().orOff(),
		about: "with recorded arrivals: play the traces that start before this; 0: all",
		apply: func(o *replay.Options, v any) { o.Arrivals.To, _ = v.(time.Duration) }},
	{name: "Turns", alias: "turns", group: arrivalGroup, kind: word("gaps", "absolute"), value: "gaps",
		about: "when later turns go: gaps, the recorded gap after the turn before; absolute, at their recorded instants since the tree opened, or when what they wait for is done if that is later",
		apply: func(o *replay.Options, v any) { o.Arrivals.AbsoluteTurns = v == "absolute" }},
}

var arrivalModes = map[string]replay.ArrivalMode{"lanes": replay.Lanes, "recorded": replay.RecordedArrivals, "rate": replay.RateArrivals}

// perSecond is a rate of arrivals.
var perSecond = kind{
	want: fmt.Sprintf("a number above 0, at most %d", int(arrivals.MaxRate)), flag: "float64", tags: []string{yamlInt, yamlFloat},
	schema: map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": int(arrivals.MaxRate)},
	parse: func(text string) (any, bool) {
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil && x > 0 && x <= arrivals.MaxRate && !math.IsNaN(x)
	},
}

// processKind is how gaps between arrivals are drawn.
var processKind = kind{
	want: "poisson, constant or gamma:SHAPE", words: []string{"poisson", "constant", "gamma:"}, flag: "string", tags: []string{yamlText},
	schema: map[string]any{"type": "string", "pattern": `^(poisson|constant|gamma:[0-9]*\.?[0-9]*(e[+-]?[0-9]+)?)$`},
	parse: func(text string) (any, bool) {
		_, _, err := arrivals.ParseKind(text)
		return text, err == nil
	},
	why: func(text string) error {
		_, _, err := arrivals.ParseKind(text)
		return err
	},
}

// resolveArrivals finds out how trees arrive, as far as the command line says, and adds what contradicts that.
func (f *replayFlags) resolveArrivals(r *resolution, o *replay.Options) {
	chosen := r.values["Arrivals"]
	f.arrivals.given = chosen.from.kind != fromDefault
	window := r.values["WindowFrom"].value != nil || r.values["WindowTo"].value != nil
	by := "Arrivals" // what asks for the mode
	switch {
	case f.arrivals.given:
	case r.values["Rate"].value != nil:
		o.Arrivals.Mode, f.arrivals.given, by = replay.RateArrivals, true, "Rate"
	case window:
		o.Arrivals.Mode, f.arrivals.given, by = replay.RecordedArrivals, true, "WindowTo"
		if r.values["WindowFrom"].value != nil {
			by = "WindowFrom"
		}
	}
	f.checkMode(r, o)
	f.checkTurns(r, o)
	f.arrivals.lanes = f.needLanes(r, replay.RecordedArrivals)
	if o.Arrivals.Mode != replay.Lanes {
		for _, option := range f.needLanes(r, o.Arrivals.Mode) {
			r.add("%s and %s: trees that arrive on their own %s: want one of the two", option.shown, r.show(by), option.why)
		}
		f.settleArrivals(r, o)
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
func (f *replayFlags) needLanes(r *resolution, mode replay.ArrivalMode) (list []needsLanes) {
	set := func(name, why string, is bool) {
		if is && r.values[name].from.kind != fromScenario { // the scenario is named below
			list = append(list, needsLanes{r.show(name), why})
		}
	}
	value := func(name string) any { return r.values[name].value }
	set("IgnoreDelays", "keep their times", value("IgnoreDelays") == true)
	set("Start", "begin with their first turns", value("Start") != "zero")
	set("Warmup", "have no lanes to warm up", value("Warmup") != "none")
	set("SystemIdleCap", "are not moved", value("SystemIdleCap") != nil)
	set("Recycle", "are no lane's choice", value("Recycle") != "sampler")
	set("MaxLivePerTrace", "are no lane's choice", value("MaxLivePerTrace") == true)
	recorded := mode == replay.RecordedArrivals
	set("SamplerOrder", "have the recorded order", recorded && value("SamplerOrder") != "sequential")
	set("Ramp", "begin at their recorded starts", recorded && value("Ramp") != nil)
	if f.scenario.chosen != nil {
		list = append(list, needsLanes{named(f.flags.Lookup("scenario")) + " " + f.scenario.name, "are not what a scenario plays"})
	}
	if f.auto.auto != nil {
		list = append(list, needsLanes{fmt.Sprintf("%s %s", f.named("concurrency"), f.auto.auto.text), "have no number of lanes to search for"})
	}
	if len(f.concurrency) > 1 {
		list = append(list, needsLanes{fmt.Sprintf("%s %s", f.named("concurrency"), f.flags.Lookup("concurrency").Value), "have one cap, not a list"})
	}
	return list
}

// checkMode adds what contradicts the mode of the arrivals by itself.
func (f *replayFlags) checkMode(r *resolution, o *replay.Options) {
	mode, rate := o.Arrivals.Mode, r.values["Rate"].value
	if mode == replay.RateArrivals && rate == nil {
		r.add("%s: --rate says how many trees per second", r.show("Arrivals"))
	}
	if mode != replay.RateArrivals && rate != nil {
		r.add("%s and %s: a rate is another way to open trees: want one of the two", r.show("Rate"), r.show("Arrivals"))
	}
	for _, name := range []string{"RateOf", "ArrivalProcess"} {
		if v := r.values[name]; rate == nil && v.value != settingNamed(name).value {
			r.add("%s: goes with --rate", r.show(name))
		}
	}
	for _, name := range []string{"WindowFrom", "WindowTo"} {
		if r.values[name].value != nil && mode != replay.RecordedArrivals {
			by := "Arrivals"
			if rate != nil {
				by = "Rate"
			}
			r.add("%s and %s: a window is one of recorded arrivals: want one of the two", r.show(name), r.show(by))
		}
	}
	if from, to := o.Arrivals.From, o.Arrivals.To; to > 0 && to <= from {
		r.add("%s: at or before %s: want a later time", r.show("WindowTo"), r.show("WindowFrom"))
	}
}

// checkTurns adds what contradicts absolute turns, and a ramp of lanes.
func (f *replayFlags) checkTurns(r *resolution, o *replay.Options) {
	against := func(name, by, why string, is bool) {
		if is {
			r.add("%s and %s: %s: want one of the two", r.show(name), r.show(by), why)
		}
	}
	value := func(name string) any { return r.values[name].value }
	lanes := o.Arrivals.Mode == replay.Lanes
	if o.Arrivals.AbsoluteTurns {
		const gaps = "turns that go at their recorded instants have no gaps"
		against("GapCap", "Turns", gaps, value("GapCap") != nil)
		against("ThinkTimeOnly", "Turns", gaps, value("ThinkTimeOnly") == true)
		against("IgnoreDelays", "Turns", gaps, lanes && value("IgnoreDelays") == true)
		against("Start", "Turns", "instants count from the first turn of a trace", lanes && value("Start") != "zero")
		against("Warmup", "Turns", "instants count from the first turn of a trace", lanes && value("Warmup") != "none")
	}
	against("Warmup", "Ramp", "the warmup begins on all lanes", lanes && value("Ramp") != nil && value("Warmup") != "none")
	for _, name := range []string{"Turns", "Ramp"} {
		if f.scenario.chosen != nil && lanes && value(name) != settingNamed(name).value {
			r.add("%s and %s %s: a scenario plays lanes and gaps: want one of the two", r.show(name), named(f.flags.Lookup("scenario")), f.scenario.name)
		}
	}
}

// settleArrivals sets what follows from the mode: without --concurrency there is no cap.
func (f *replayFlags) settleArrivals(r *resolution, o *replay.Options) {
	if o.Arrivals.Mode != replay.Lanes && !f.flags.Lookup("concurrency").Changed {
		o.Concurrency = 0
	}
	chosen := r.values["Arrivals"]
	chosen.value = o.Arrivals.Mode.String() // which the results list among the options
	r.values["Arrivals"] = chosen
}

// chooseArrivals chooses how trees arrive in a run whose command line does not say it, and says so where the dataset has recorded
// starts. Then it looks whether the dataset has what the arrivals need.
func (f *replayFlags) chooseArrivals(cmd *cobra.Command, r *resolution, o *replay.Options) error {
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
		f.settleArrivals(r, o)
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
