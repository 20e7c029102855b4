package live

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Gain is what the state of a part of a load has gained since the last one: what part 0 adds to its own, so that this is of the whole
// load. Counts are exact, distributions good to 1 %. It has the same size however many requests it counts.
type Gain struct {
	Progress  Progress    `json:"progress"`
	Warmup    *totalsGain `json:"warmup,omitempty"` // nil: nothing
	Profiling *totalsGain `json:"profiling,omitempty"`
	Recent    *recentGain `json:"recent,omitempty"`
}

// totalsGain is what the totals of a phase have gained.
type totalsGain struct {
	Requests      int                    `json:"requests"`
	Completed     int                    `json:"completed"`
	Measured      int                    `json:"measured"`
	Errors        map[wire.Category]int  `json:"errors,omitempty"`
	Buckets       map[measure.Bucket]int `json:"buckets"`
	Tokens        [3]int64               `json:"tokens"`        // prompt, cached, output
	Blocks        [2]int64               `json:"blocks"`        // recorded ones, and hits
	Span          [2]float64             `json:"span"`          // of all measured requests, not since the last gain: first sent, last token
	Distributions []tally                `json:"distributions"` // in the order of totals.of
}

// tally counts values of a distribution in a form that adds up.
type tally struct {
	Cells  map[uint16]int64 `json:"cells,omitempty"`  // by cellOf of the steps
	Bounds map[int]uint64   `json:"bounds,omitempty"` // by place in Bounds
	Sum    float64          `json:"sum"`
}

// recentGain are requests that have ended well, of one phase.
type recentGain struct {
	Phase     string             `json:"phase"`
	Completed int                `json:"completed"`
	Tokens    [3]int64           `json:"tokens"`
	Cells     []map[uint16]int64 `json:"cells"` // in the order of liveMetrics
}

// gains are what a state keeps for TakeGain.
type gains struct {
	last   map[string]totals // counts by phase, as they were at the last call
	recent *recentGain       // since then
}

// KeepGains makes a state keep what it gains. It is called before the first request.
func (s *State) KeepGains() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gains = &gains{last: map[string]totals{}}
	for _, t := range s.totals {
		for k := range t.of {
			t.of[k].tally = new(tally)
		}
	}
}

// TakeGain returns what the state has gained since the last call, and the progress. The caller has called KeepGains.
func (s *State) TakeGain() *Gain {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Gain{Progress: s.progress, Recent: s.gains.recent}
	if s.ended {
		g.Progress.InFlight, g.Progress.OpenTrees, g.Progress.WaitingTrees = 0, 0, 0
	}
	s.gains.recent = nil
	for phase, to := range map[string]**totalsGain{measure.WarmupPhase: &g.Warmup, measure.ProfilingPhase: &g.Profiling} {
		t, last := s.totals[phase], s.gains.last[phase]
		if t.requests == last.requests {
			continue
		}
		*to = t.since(&last)
		last = *t
		last.errors, last.buckets = maps.Clone(t.errors), maps.Clone(t.buckets)
		s.gains.last[phase] = last
	}
	return g
}

// since returns what totals have gained since they had the counts of last.
func (t *totals) since(last *totals) *totalsGain {
	g := &totalsGain{
		Requests: t.requests - last.requests, Completed: t.completed - last.completed, Measured: t.measured - last.measured,
		Errors: grown(t.errors, last.errors), Buckets: grown(t.buckets, last.buckets),
		Tokens: [3]int64{t.prompt - last.prompt, t.cached - last.cached, t.output - last.output},
		Blocks: [2]int64{t.blocks - last.blocks, t.hits - last.hits}, Span: [2]float64{t.first, t.last},
	}
	for _, d := range t.of {
		g.Distributions = append(g.Distributions, *d.tally)
		*d.tally = tally{}
	}
	return g
}

// grown returns by how much counts have grown.
func grown[K comparable](now, last map[K]int) map[K]int {
	more := map[K]int{}
	for k, n := range now {
		if n > last[k] {
			more[k] = n - last[k]
		}
	}
	return more
}

func (l *tally) add(cell uint16, bound int, value float64) {
	if l.Cells == nil {
		l.Cells, l.Bounds = map[uint16]int64{}, map[int]uint64{}
	}
	l.Cells[cell]++
	l.Bounds[bound]++
	l.Sum += value
}

// add adds a request that has ended well, as recent.add does.
func (g *gains) add(r *measure.Record, rules measure.Rules) {
	if g == nil || r.Error != nil {
		return
	}
	if g.recent == nil || g.recent.Phase != r.Phase {
		g.recent = &recentGain{Phase: r.Phase}
		for range liveMetrics {
			g.recent.Cells = append(g.recent.Cells, map[uint16]int64{})
		}
	}
	n := g.recent
	prompt, cached, output := tokens(r)
	n.Completed++
	n.Tokens = [3]int64{n.Tokens[0] + prompt, n.Tokens[1] + cached, n.Tokens[2] + output}
	for k := range liveMetrics {
		if v, ok := liveMetrics[k].Of(&r.Numbers, rules); ok {
			n.Cells[k][cellOf(steps(v, nanosecond))]++
		}
	}
}

// Share makes a state, that of part 0, one of a load with so many parts.
func (s *State) Share(parts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others, s.parts = map[int]Progress{}, parts
}

// shared reports whether the state is of a load with several parts.
func (s *State) shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts > 0
}

// AddGain adds what another part has gained. The error says that no part gains such a thing; then nothing is added.
func (s *State) AddGain(part int, g *Gain) error {
	if err := g.check(); err != nil {
		return fmt.Errorf("its gain: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[part] = g.Progress
	for phase, of := range map[string]*totalsGain{measure.WarmupPhase: g.Warmup, measure.ProfilingPhase: g.Profiling} {
		if of != nil {
			s.totals[phase].gain(of)
		}
	}
	if g.Recent != nil && s.enter(g.Recent.Phase) {
		s.recent.gain(g.Recent)
	}
	return nil
}

// Leave says that another part is over, or lost: it has nothing in flight any more. What it has gained stays.
func (s *State) Leave(part int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.others[part]; ok {
		p.InFlight, p.OpenTrees, p.WaitingTrees, p.Remaining = 0, 0, 0, 0
		s.others[part] = p
	}
	s.left++
}

// check returns an error about what no part gains.
func (g *Gain) check() error {
	if g.Recent != nil {
		if n := len(g.Recent.Cells); n != len(liveMetrics) {
			return fmt.Errorf("cells of %d metrics: want %d", n, len(liveMetrics))
		}
		for _, cells := range g.Recent.Cells {
			if err := checkCells(cells); err != nil {
				return err
			}
		}
		if p := g.Recent.Phase; p != measure.WarmupPhase && p != measure.ProfilingPhase {
			return fmt.Errorf("phase %q: want %s or %s", p, measure.WarmupPhase, measure.ProfilingPhase)
		}
	}
	for _, t := range []*totalsGain{g.Warmup, g.Profiling} {
		if t == nil {
			continue
		}
		for _, n := range append(slices.Collect(maps.Values(t.Errors)), append(slices.Collect(maps.Values(t.Buckets)), t.Requests, t.Completed, t.Measured)...) {
			if n < 0 || n > maxGain {
				return fmt.Errorf("a count of %d: want 0 to %d", n, maxGain)
			}
		}
		if n := len(eachRequest); len(t.Distributions) != n {
			return fmt.Errorf("%d distributions: want %d", len(t.Distributions), n)
		}
		for _, d := range t.Distributions {
			if err := checkCells(d.Cells); err != nil {
				return err
			}
			for k := range d.Bounds {
				if k < 0 || k > len(Bounds) {
					return fmt.Errorf("bound %d: want 0 to %d", k, len(Bounds))
				}
			}
		}
	}
	return nil
}

// maxGain is the most values of a cell: more requests than a part can end between two gains.
const maxGain = 1 << 20

func checkCells(counts map[uint16]int64) error {
	for cell, n := range counts {
		if int(cell) >= len(cells{}.counts) || n < 0 || n > maxGain {
			return fmt.Errorf("cell %d: %d values: want a cell below %d, and 0 to %d values", cell, n, len(cells{}.counts), maxGain)
		}
	}
	return nil
}

// gain adds what the totals of another part have gained.
func (t *totals) gain(g *totalsGain) {
	if g.Measured > 0 {
		t.span(g.Span[0], g.Span[1], t.measured == 0)
	}
	t.blocks, t.hits = t.blocks+g.Blocks[0], t.hits+g.Blocks[1]
	t.requests, t.completed, t.measured = t.requests+g.Requests, t.completed+g.Completed, t.measured+g.Measured
	for category, n := range g.Errors {
		t.errors[category] += n
	}
	for bucket, n := range g.Buckets {
		t.buckets[bucket] += n
	}
	t.prompt, t.cached, t.output = t.prompt+g.Tokens[0], t.cached+g.Tokens[1], t.output+g.Tokens[2]
	for k := range t.of {
		t.of[k].gain(&g.Distributions[k])
	}
}

// gain adds the values of another part.
func (d *distribution) gain(g *tally) {
	for k, n := range g.Bounds {
		d.buckets.counts[k] += n
		d.buckets.n += n
	}
	d.buckets.sum += g.Sum
	for cell, n := range g.Cells {
		_ = d.histogram().RecordValues(min(middleOf(int(cell)), highest), n)
	}
}

// gain adds the requests of another part to the section that is filled.
func (r *recent) gain(g *recentGain) {
	s := &r.sections[r.last]
	s.completed += g.Completed
	s.prompt, s.cached, s.output = s.prompt+g.Tokens[0], s.cached+g.Tokens[1], s.output+g.Tokens[2]
	for k, cells := range g.Cells {
		for cell, n := range cells {
			for range n {
				r.of[k].add(r.last, cell)
			}
		}
	}
}

// whole returns the progress of the load: that of this part, with those of others in the same phase. What others have said is up
// to a second old: the load ends when the last of them will.
func (s *State) whole() Progress {
	p := s.progress
	known, end := p.Remaining >= 0, p.Elapsed+p.Remaining
	for _, o := range s.others {
		if o.Phase != p.Phase {
			continue
		}
		if o.InFlight > 0 && (p.InFlight == 0 || o.Silent < p.Silent) { // the load is as silent as its least silent part
			p.Silent = o.Silent
		}
		p.Sent, p.InFlight, p.OpenTrees, p.WaitingTrees = p.Sent+o.Sent, p.InFlight+o.InFlight, p.OpenTrees+o.OpenTrees, p.WaitingTrees+o.WaitingTrees
		p.Standstills, p.Elapsed = p.Standstills.With(o.Standstills), max(p.Elapsed, o.Elapsed)
		known, end = known && o.Remaining >= 0, max(end, o.Elapsed+o.Remaining)
	}
	p.Remaining = -1
	if known {
		p.Remaining = max(end-p.Elapsed, 0)
	}
	return p
}

// enter makes a phase the one of the latest requests. It is false for one that is over.
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

// steps returns a value in whole steps, within the bounds of a histogram.
func steps(value, unit float64) int64 { return int64(min(max(math.Round(value/unit), 0), highest)) }
