package merge

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// setting is something that all parts of a load have in common.
type setting struct{ name, value string }

// LocalOptions say where files lie, how a client of its machine does its work, and what it shows: parts may differ in them.
var LocalOptions = []string{
	"part", "out", "overwrite", "cache", "config", "workers", "force", "verify-hit", "trust-root", "wait", "no-wait", "prefault", "json", "quiet", "no-color", "listen", "otlp",
	"report", "prefix", "slice-duration", "stats-interval", "meet", "meet-timeout", "ca-file",
}

// settingsOf returns what a run has in common with the other parts of its load: the meeting, or where the parts have not met the
// dataset, the options and the version.
func settingsOf(info *measure.RunInfo) []setting {
	list := []setting{{"meeting", info.Part.Meeting}}
	if info.Part.Meeting != "" {
		return list
	}
	list = append(list, setting{"version", info.Version}, setting{"commit", info.Commit}, setting{"dataset", info.Dataset.Key})
	for _, o := range info.Options {
		if !slices.Contains(LocalOptions, o.Name) {
			list = append(list, setting{"option " + o.Name, string(o.Value)})
		}
	}
	return append(list, setting{"load", fmt.Sprintf("concurrency %d, requests %d, trees %d", info.Part.Lanes, info.Part.Requests, info.Part.Trees)})
}

// agree leaves out the parts of another load: those that do not agree with most of them, of as many with those of the lowest number.
func (l *load) agree() {
	type group struct {
		settings []setting
		parts    []*part
	}
	var groups []*group
	for _, p := range l.used() {
		settings := settingsOf(&p.info)
		k := slices.IndexFunc(groups, func(g *group) bool { return slices.Equal(g.settings, settings) })
		if k < 0 {
			k, groups = len(groups), append(groups, &group{settings: settings})
		}
		groups[k].parts = append(groups[k].parts, p)
	}
	if len(groups) < 2 {
		return
	}
	most := slices.MaxFunc(groups, func(a, b *group) int { return len(a.parts) - len(b.parts) }) // the first of them
	for _, g := range groups {
		if g == most {
			continue
		}
		why := difference(g.settings, most.settings)
		for _, p := range g.parts {
			p.leftOut = fmt.Sprintf("it is of another load than part %d: %s", most.parts[0].number, why)
		}
	}
}

// difference names the first setting that differs, with both values.
func difference(a, b []setting) string {
	value := func(list []setting, name string) string {
		if k := slices.IndexFunc(list, func(s setting) bool { return s.name == name }); k >= 0 && list[k].value != "" {
			return list[k].value
		}
		return "none"
	}
	for _, s := range slices.Concat(a, b) {
		if x, y := value(a, s.name), value(b, s.name); x != y {
			return fmt.Sprintf("%s %s, and %s there", s.name, x, y)
		}
	}
	return "its options stand in another order"
}

// phaseNames are the phases of a run in their order.
var phaseNames = []string{measure.WarmupPhase, measure.ProfilingPhase}

// place finds where the phases of the parts lie on the clock of part 0. A phase of the load begins when it begins in the first
// part. A part that was killed does not know when its phases began: with those of the load, or where no part knows, when it began
// itself.
func (l *load) place() {
	used := l.used()
	for _, p := range used {
		p.phases = map[string]placed{}
	}
	for _, name := range phaseNames {
		starts := map[*part]int64{}
		for _, p := range used {
			if at, ok := p.phaseStart(name); ok {
				starts[p] = at
			}
		}
		if len(starts) == 0 {
			for _, p := range used {
				starts[p] = p.info.Start.UnixNano()
			}
		}
		origin, first := int64(0), true
		for p, at := range starts {
			if moved, _ := p.move(at); first || moved < origin {
				origin, first = moved, false
			}
		}
		l.origins[name] = origin
		for _, p := range used {
			at, known := starts[p]
			if !known {
				moved, _ := p.move(origin)
				at = 2*origin - moved // on its own clock
			}
			p.phases[name] = placed{start: at, origin: origin, assume: !known}
		}
	}
}

// phaseStart returns when a phase began, on the clock of the part; false if that is not known.
func (p *part) phaseStart(name string) (int64, bool) {
	for _, phase := range p.info.Phases {
		if phase.Name == name {
			return phase.Start.UnixNano(), true
		}
	}
	return 0, false
}
