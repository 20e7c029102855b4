package until

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// model is a run without a server. Lanes play trees without a pause. The values of the requests of a tree depend on one another: their
// logarithm is an effect of the tree plus one of the request, both of normal law.
type model struct {
	lanes           int
	shortest, most  int     // requests of a tree
	between, within float64 // standard deviations of the two effects
	gap             float64 // mean from one request to the next, s
}

// truth returns the value of a statistic over all requests: their law is log-normal.
func (m model) truth(statistic string) float64 {
	deviation := math.Hypot(m.between, m.within)
	switch statistic {
	case "p50":
		return 1
	case "p95":
		return math.Exp(1.6448536269514722 * deviation)
	case "mean":
		return math.Exp(deviation * deviation / 2)
	}
	panic(statistic)
}

// play returns the records of the first seconds of a run, in the order in which requests end.
func (m model) play(seed uint64, seconds float64) (list []measure.Record) {
	random := rand.New(rand.NewPCG(seed, 13))
	tree := 0
	for range m.lanes {
		for at := 0.0; at < seconds; tree++ {
			effect := m.between * random.NormFloat64()
			for n := m.shortest + random.IntN(m.most-m.shortest+1); n > 0 && at < seconds; n-- {
				at += m.gap * random.ExpFloat64()
				value := math.Exp(effect + m.within*random.NormFloat64())
				list = append(list, measure.Record{
					Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Tree: tree, Sent: 1, FirstToken: 1 + value, LastToken: 1 + value, End: at,
				})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b measure.Record) int { return cmp.Compare(a.End, b.End) })
	return list
}

// stop looks every 30 s, as Watch does, and returns what is known at the look that ends the run; nil if none does. With another rule
// than that of the package inARow is not InARow.
func (m model) stop(seed uint64, target Target, inARow int, seconds float64) (*measure.UntilTarget, float64) {
	s := newSamples(measure.Rules{}, []Target{target})
	records, narrow, looks := m.play(seed, seconds), 0, 0
	for at := Every.Seconds(); at <= seconds; at += Every.Seconds() {
		for len(records) > 0 && records[0].End <= at {
			s.add(&records[0])
			records = records[1:]
		}
		if s.trees() < 20 {
			continue
		}
		looks++
		found := s.find([]Target{target}, [32]byte{byte(looks), byte(looks >> 8), byte(seed)})[0]
		narrow++
		if !found.Within() {
			narrow = 0
		}
		if narrow == inARow {
			return &found, at
		}
	}
	return nil, 0
}
