package merge

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/agentx/agentx/replay/measure"
)

// scan is what the records of a part say that the whole load needs before its records are read. It keeps two numbers of a request, and
// a line of a tree.
type scan struct {
	report  measure.PartReport
	rules   measure.Rules
	verdict measure.Verdict
	flights flights
	trees   map[int]tree     // by number in the whole load
	ends    map[string]int64 // of a phase: its last end, nanoseconds of the phase of the load

	uncertainty int64 // the largest of an instant, nanoseconds
	torn        bool
}

// tree is a tree of a part.
type tree struct {
	trace string
	begun int64 // nanoseconds since 1970, on the clock of part 0
}

// smallBuffer is how much of the records of a part is read at a time, bytes: N parts are read beside each other.
const smallBuffer = 64 << 10

// scan reads the records of all parts that are used once. A part whose records are damaged is left out.
func (l *load) scan() {
	var scanning sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range l.used() {
		free <- struct{}{}
		scanning.Go(func() {
			defer func() { <-free }()
			if err := p.scan(); err != nil {
				p.leftOut = err.Error()
			}
		})
	}
	scanning.Wait()
}

// scan reads the records of the part.
func (p *part) scan() error {
	rules, err := measure.RulesOfRun(p.info.Run)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(p.dir, measure.RunFile), err)
	}
	reader, err := measure.OpenLines(p.dir, smallBuffer)
	if err != nil {
		return fmt.Errorf("not the results of a run: %w", err)
	}
	defer reader.Close()
	s := &scan{rules: rules, trees: map[int]tree{}, ends: map[string]int64{}}
	counts := measure.NewAggregate(measure.Rules{})
	n := 0
	for r, err := range measure.All(reader) {
		if err != nil {
			return err
		}
		n++
		counts.Add(r)
		s.uncertainty = max(s.uncertainty, p.uncertainty(r))
		if err := p.adopt(r); err != nil {
			return fmt.Errorf("%s: line %d: %w", filepath.Join(p.dir, measure.RecordsFile), n, err)
		}
		s.add(r, p.phases[r.Phase].origin)
	}
	s.report = counts.PartReport(p.info.Facts)
	p.seen, s.torn = s, reader.Torn()
	p.findLoss()
	return nil
}

// add adds a record of the whole load.
func (s *scan) add(r *measure.Record, origin int64) {
	s.verdict.Add(r, s.rules)
	end := int64(r.End)
	s.ends[r.Phase] = max(s.ends[r.Phase], end)
	if r.Phase == measure.ProfilingPhase {
		s.flights.add(int64(r.Sent), end)
	}
	begun := origin + int64(r.Due)
	t, ok := s.trees[r.Tree]
	if !ok {
		t = tree{strings.Clone(r.Trace), begun}
	}
	t.begun = min(t.begun, begun)
	s.trees[r.Tree] = t
}

// findLoss notes that the records do not come to the end of the run.
func (p *part) findLoss() {
	if p.seen.torn && p.lost == "" {
		p.lost = fmt.Sprintf("the last line of %s is cut off", filepath.Join(p.dir, measure.RecordsFile))
	}
	if p.lanes == nil && p.lost == "" && p.seen.report.Requests > 0 {
		p.lost = fmt.Sprintf("it has no %s, which counts its requests: whether its records are all is not known", measure.LanesFile)
	}
	if p.lanes == nil || p.lost != "" {
		return
	}
	sent := 0
	for k := range p.lanes {
		sent += p.lanes[k].Requests
	}
	if sent != p.seen.report.Requests {
		p.lost = fmt.Sprintf("%s has %d requests of the measured phase, and %s counts %d", filepath.Join(p.dir, measure.RecordsFile), p.seen.report.Requests, measure.LanesFile, sent)
	}
}

// flights are the times from the sending of requests to their ends, in nanoseconds of a phase.
type flights struct{ sent, ended []int64 }

// add adds a request that was sent and ended at instants, in nanoseconds.
func (f *flights) add(sent, ended int64) {
	f.sent, f.ended = append(f.sent, sent), append(f.ended, ended)
}

// load returns how many requests were in flight up to the last send, at which instant that was: their mean, and the most at a time. A
// request that ends at the instant at which another is sent is not in flight any more. Without a request, or with all at instant 0, there
// is no mean. It sorts the times.
func (f *flights) load() (until int64, mean float64, most int, known bool) {
	slices.Sort(f.sent)
	slices.Sort(f.ended)
	if n := len(f.sent); n > 0 {
		until = f.sent[n-1]
	}
	area, over := int64(0), 0
	for k, at := range f.sent {
		for over < k && f.ended[over] <= at {
			over++
		}
		most = max(most, k+1-over)
		area += min(f.ended[k], until) - at // the k-th end is of another request, which changes no sum
	}
	return until, float64(area) / float64(max(1, until)), most, until > 0
}
