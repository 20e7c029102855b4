package merge

import "github.com/agentx/agentx/replay/measure"

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
