package live

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// Gain is what the state of a part of a load has gained since the last gain. Part 0 adds the gains of all parts to its own state, which is then
// that of the whole load. Counts are exact, distributions good to 1 %. Its size does not depend on how many requests it counts.
type Gain struct {
	Progress  measure.Progress `json:"progress"`
	Warmup    *totals          `json:"warmup,omitempty"` // nil: nothing
	Profiling *totals          `json:"profiling,omitempty"`
	Recent    *recentGain      `json:"recent,omitempty"`
}

// recentGain are requests of one phase that have ended well.
type recentGain struct {
	Phase string `json:"phase"`
	section
}

// KeepGains makes a state keep what it gains. It is called before the first request.
func (s *State) KeepGains() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gain = new(Gain)
}

// TakeGain returns what the state has gained since the last call, and the progress. The caller has called KeepGains.
func (s *State) TakeGain() *Gain {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gain
	s.gain = new(Gain)
	if g.Progress = s.progress; s.ended {
		g.Progress.InFlight, g.Progress.TreesOpen, g.Progress.TreesWaiting = 0, 0, 0
	}
	return g
}

// phases returns the totals of a gain by phase.
func (g *Gain) phases() map[string]**totals {
	return map[string]**totals{measure.WarmupPhase: &g.Warmup, measure.ProfilingPhase: &g.Profiling}
}

// add adds a request that is over; nothing on nil.
func (g *Gain) add(r *measure.Record, rules measure.Rules, good bool) {
	if g == nil {
		return
	}
	to := g.phases()[r.Phase]
	if *to == nil {
		*to = newTotals()
	}
	(*to).add(r, rules, good)
	if r.Error != nil {
		return
	}
	if g.Recent == nil || g.Recent.Phase != r.Phase {
		g.Recent = &recentGain{r.Phase, newSection()}
	}
	g.Recent.add(r, rules)
}

// Share makes the state of part 0 that of a whole load with some number of parts.
func (s *State) Share(parts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others, s.parts = map[int]measure.Progress{}, parts
}

// shared reports whether the state is of a load with several parts.
func (s *State) shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts > 0
}

// AddGain adds what another part has gained. It adds nothing and returns an error if no agentx sends such a gain.
func (s *State) AddGain(part int, g *Gain) error {
	if err := g.check(); err != nil {
		return fmt.Errorf("its gain: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[part] = g.Progress
	for phase, of := range g.phases() {
		if *of != nil {
			s.totals[phase].join(*of)
		}
	}
	if g.Recent != nil && s.enter(g.Recent.Phase) {
		s.recent.sections[s.recent.last].join(&g.Recent.section, 1)
	}
	return nil
}

// Leave takes another part that is over or lost out of the requests in flight. What it has gained stays.
func (s *State) Leave(part int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.others[part]; ok {
		p.InFlight, p.TreesOpen, p.TreesWaiting, p.Remaining = 0, 0, 0, 0
		s.others[part] = p
	}
	s.left++
}

// check returns an error about counts that no part gains. Cells have checked themselves when they were read.
func (g *Gain) check() error {
	if g.Recent != nil {
		if n := len(g.Recent.Cells); n != len(liveMetrics) {
			return fmt.Errorf("cells of %d metrics: want %d", n, len(liveMetrics))
		}
		if p := g.Recent.Phase; p != measure.WarmupPhase && p != measure.ProfilingPhase {
			return fmt.Errorf("phase %q: want %s or %s", p, measure.WarmupPhase, measure.ProfilingPhase)
		}
	}
	for _, t := range []*totals{g.Warmup, g.Profiling} {
		if t == nil {
			continue
		}
		for _, n := range slices.Concat(slices.Collect(maps.Values(t.Errors)), slices.Collect(maps.Values(t.Buckets)), []int{t.Requests, t.Completed, t.Measured, t.Good}) {
			if n < 0 || n > maxGain {
				return fmt.Errorf("a count of %d: want 0 to %d", n, maxGain)
			}
		}
		if n := len(eachRequest); len(t.Distributions) != n {
			return fmt.Errorf("%d distributions: want %d", len(t.Distributions), n)
		}
	}
	return nil
}

// whole returns the progress of the load: that of this part with those of the other parts in the same phase, which are up to a second old. The
// load ends when its last part does.
func (s *State) whole() measure.Progress {
	p := s.progress
	known, end := p.Remaining >= 0, p.Elapsed+p.Remaining
	for _, o := range s.others {
		if o.Phase != p.Phase {
			continue
		}
		if o.InFlight > 0 && (p.InFlight == 0 || o.Silent < p.Silent) { // the load is as silent as its least silent part
			p.Silent = o.Silent
		}
		p.Requests, p.InFlight, p.TreesOpen, p.TreesWaiting = p.Requests+o.Requests, p.InFlight+o.InFlight, p.TreesOpen+o.TreesOpen, p.TreesWaiting+o.TreesWaiting
		p.Standstills, p.Elapsed = p.Standstills.With(o.Standstills), max(p.Elapsed, o.Elapsed)
		known, end = known && o.Remaining >= 0, max(end, o.Elapsed+o.Remaining)
	}
	p.Remaining = -1
	if known {
		p.Remaining = max(end-p.Elapsed, 0)
	}
	return p
}

// enter makes a phase the current one of recent requests. It returns false for a phase that is over.
func (s *State) enter(phase string) bool {
	if phase == s.phase {
		return true
	}
	if s.phase == measure.ProfilingPhase {
		return false
	}
	s.phase = phase
	s.recent.reset()
	return true
}
