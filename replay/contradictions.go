package replay

import (
	"fmt"

	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
)

// rule is a contradiction, and whether it applies.
type rule struct {
	applies bool
	text    preset.Text
}

// Contradictions returns everything that options have against each other.
func (o *Options) Contradictions() (list []preset.Text) {
	for _, rules := range [][]rule{o.runRules(), o.arrivalRules(), o.turnRules(), o.partRules()} {
		for _, r := range rules {
			if r.applies {
				list = append(list, r.text)
			}
		}
	}
	return append(list, o.body().Contradictions()...)
}

// body returns how bodies are written.
func (o *Options) body() payload.Options {
	return payload.Options{Endpoint: o.Endpoint, Model: o.Model, Parts: o.Parts, Marker: o.Marker, Fields: o.Fields}
}

// either returns the contradiction of two settings of which a run has one, and why.
func either(one, other, why string) preset.Text {
	return preset.Text(fmt.Sprintf("{%s=} and {%s=}: %s: leave one of them out", one, other, why))
}

// runRules are those of a whole run.
func (o *Options) runRules() []rule {
	ratios := o.Start.Ratios
	return []rule{
		{ratios != nil && ratios.Min > ratios.Max, "{start-min-ratio=}: more than {start-max-ratio=}: want at most that"},
		{o.Warmup.Requests > 0 && o.switches().StageByDuration, "{warmup=}: under {warmup-stage=} the pressure stage has a duration: want duration=D"},
		{o.Order == Random && o.once(), "{sampler-order=} repeats traces, so it cannot play every trace once: choose shuffle"},
		{o.MaxContext == ServerContext && o.SkipPreflight, "{max-context}: the preflight asks the server for its context, and {no-preflight} leaves that out: leave one of them out, or give a number of tokens"},
		{(o.RetryAfter == RetryWait || o.RetryAfter == RetryRecord) && presetNumber(o.Preset) > 0,
			preset.Text("{retry-after=}: the tool that preset " + o.Preset + " imitates does not look at Retry-After: leave it out, or choose {preset} default")},
		{o.Scrape.Off && len(o.Scrape.Pages) > 0, "{scrape}: off and a page contradict each other: leave one of them out"},
	}
}

// arrivalRules are those of the mode of arrivals.
func (o *Options) arrivalRules() []rule {
	a := &o.Arrivals
	arrive, recorded, rate := a.arrive(), a.Mode == RecordedArrivals, a.Rate > 0
	alone := func(applies bool, name, why string) rule {
		return rule{applies, either(name, "arrivals", "trees that arrive on their own "+why)}
	}
	const window = "a window is one of recorded arrivals"
	return []rule{
		alone(arrive && o.Pace.ASAP, "asap", "keep their times"),
		alone(arrive && o.Start.Sampled, "start", "begin with their first turns"),
		alone(arrive && o.Warmup.asked(), "warmup", "have no lanes to warm up"),
		alone(arrive && o.Limits.SystemIdle > 0, "system-idle-cap", "are not moved"),
		alone(arrive && o.Recycle != RecycleSampler, "recycle", "are no lane's choice"),
		alone(arrive && o.MaxLivePerTrace, "max-live-per-trace", "are no lane's choice"),
		alone(recorded && o.Order != Sequential, "sampler-order", "have the recorded order"),
		alone(recorded && a.Ramp > 0, "ramp", "begin at their recorded starts"),
		alone(arrive && o.Scenario != nil, "scenario", "are not what a scenario plays"),
		{a.Mode == RateArrivals && !rate, "{arrivals=}: {rate} says how many trees per second"},
		{a.Mode != RateArrivals && rate, either("rate", "arrivals", "a rate is another way to open trees")},
		{!rate && a.PerRequest, "{rate-of=}: works only with {rate}"},
		{!rate && (a.Law != 0 || a.Shape != 0), "{arrival=}: works only with {rate}"},
		{!recorded && a.From > 0, either("from", "arrivals", window)},
		{!recorded && a.To > 0, either("to", "arrivals", window)},
		{a.To > 0 && a.To <= a.From, "{to=}: at or before {from=}: want a later time"},
	}
}

// turnRules are those of absolute turns, and of a ramp of lanes.
func (o *Options) turnRules() []rule {
	a, lanes := &o.Arrivals, o.Arrivals.Mode == Lanes
	const gaps, first = "turns that go at their recorded instants have no gaps", "instants count from the first turn of a trace"
	const played = "a scenario plays lanes and gaps"
	return []rule{
		{a.AbsoluteTurns && o.Pace.MaxGap > 0, either("max-gap", "turns", gaps)},
		{a.AbsoluteTurns && o.Pace.ThinkTimeOnly, either("think-time-only", "turns", gaps)},
		{a.AbsoluteTurns && lanes && o.Pace.ASAP, either("asap", "turns", gaps)},
		{a.AbsoluteTurns && lanes && o.Start.Sampled, either("start", "turns", first)},
		{a.AbsoluteTurns && lanes && o.Warmup.asked(), either("warmup", "turns", first)},
		{lanes && a.Ramp > 0 && o.Warmup.asked(), either("warmup", "ramp", "the warmup begins on all lanes")},
		{lanes && a.AbsoluteTurns && o.Scenario != nil, either("turns", "scenario", played)},
		{lanes && a.Ramp > 0 && o.Scenario != nil, either("ramp", "scenario", played)},
	}
}

// partRules are those of a part of a load.
func (o *Options) partRules() []rule {
	p, lanes := o.Part, o.Concurrency
	if lanes == 0 && !o.Arrivals.arrive() {
		lanes = o.Defaults()[&o.Concurrency][0].(int)
	}
	few := func(name string, n int) rule {
		return rule{n > 0 && n < p.Of, preset.Text(fmt.Sprintf("{part=} and {%s} %d: this number is shared by all parts, and leaves some without any: want at least %d", name, n, p.Of))}
	}
	return []rule{
		{p.IsSet() && o.UniqueOut, "{part=}: say {out}, the directory that all parts share"},
		few("concurrency", lanes), few("requests", o.Requests), few("trees", o.Trees),
		{o.CacheReset.Enabled && p.several() && o.StartAt.IsZero() && o.Meeting == nil,
			"{part=} and {reset-cache}: the reset could hit other parts while they play: add {meet} or {start-at}, for which all parts wait"},
		{o.Meeting != nil && !o.StartAt.IsZero(), "{meet=} and {start-at=}: both say when the parts begin: leave one of them out"},
	}
}
