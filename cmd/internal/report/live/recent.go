package live

import (
	"slices"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// recentLooks is over how many looks at the records, one a second, the latest rates and latencies are.
const recentLooks = 30

// recent are the requests of the last looks that ended well. It counts in sections, one a look, and adds them up.
type recent struct {
	at       time.Time // of the last look; zero: there was none
	sections [recentLooks]section
	last     int     // the section that is filled
	sum      section // of the others
	now      Recent  // at the last look
}

// liveMetrics are those that a status has.
var liveMetrics = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Live == "" })

// section is what ended between two looks.
type section struct {
	length    time.Duration
	Completed int     `json:"completed"`
	Tokens    tokens  `json:"tokens"`
	Cells     []cells `json:"cells"` // in the order of liveMetrics
}

func newSection() section { return section{Cells: make([]cells, len(liveMetrics))} }

// add adds a request that ended well.
func (s *section) add(r *measure.Record, rules measure.Rules) {
	s.Completed++
	s.Tokens.add(tokensOf(r), 1)
	for k := range liveMetrics {
		if v, ok := liveMetrics[k].Of(&r.Numbers, rules); ok {
			s.Cells[k].add(cellOf(steps(v, stepOf(&liveMetrics[k]))), 1)
		}
	}
}

// join adds another section, or takes it away where by is -1.
func (s *section) join(o *section, by int) {
	s.length, s.Completed = s.length+time.Duration(by)*o.length, s.Completed+by*o.Completed
	s.Tokens.add(o.Tokens, int64(by))
	for k := range o.Cells {
		s.Cells[k].join(&o.Cells[k], int32(by))
	}
}

func newRecent() *recent {
	r := new(recent)
	r.reset()
	return r
}

// reset forgets all requests.
func (r *recent) reset() {
	*r = recent{at: r.at, sum: newSection()}
	for k := range r.sections {
		r.sections[k] = newSection()
	}
	r.now = r.status()
}

// look ends a section. The first one has no known length, so it counts for no rate.
func (r *recent) look(now time.Time) {
	ended := &r.sections[r.last]
	if !r.at.IsZero() {
		ended.length = now.Sub(r.at)
	} else {
		ended.Completed, ended.Tokens = 0, tokens{}
	}
	r.sum.join(ended, 1)
	r.at, r.now = now, r.status()
	r.last = (r.last + 1) % recentLooks
	r.sum.join(&r.sections[r.last], -1)
	r.sections[r.last] = newSection()
}

// status returns the rates and latencies of all sections.
func (r *recent) status() Recent {
	seconds := r.sum.length.Seconds()
	rate := func(n int64) measure.Number { return ratio(float64(n), seconds) }
	t := r.sum.Tokens
	now := Recent{
		Seconds: seconds, RequestRate: rate(int64(r.sum.Completed)), PromptTokenRate: rate(t.Prompt), OutputTokenRate: rate(t.Output),
		TokenHitRate: ratio(float64(t.Cached), float64(t.Prompt)), Others: map[string]Stat{},
	}
	own := map[string]*Stat{"ttft": &now.TTFT, "itl": &now.ITL, "latency": &now.RequestLatency, "lateness": &now.Lateness}
	for k := range liveMetrics {
		m := &liveMetrics[k]
		if stat := r.sum.Cells[k].stat(stepOf(m)); own[m.Name] != nil {
			*own[m.Name] = stat
		} else {
			now.Others[m.Name] = stat
		}
	}
	return now
}

// stat returns the percentiles, in a unit.
func (c *cells) stat(unit float64) Stat {
	v := c.percentiles(unit, 50, 75, 90, 95, 99)
	return Stat{c.n, v[0], v[1], v[2], v[3], v[4]}
}

// ratio divides; Missing where it cannot.
func ratio(part, whole float64) measure.Number {
	if whole <= 0 {
		return measure.Missing
	}
	return measure.Number(part / whole)
}
