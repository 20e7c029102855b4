package until

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
)

// model is a run without a server. Lanes play trees without a pause. The values of the requests of a tree depend on one another: their
// logarithm is an effect of the tree plus one of the request, both of normal law.
type model struct {
	lanes           int
	shortest, most  int     // requests of a tree
	between, within float64 // standard deviations of the two effects
	gap             float64 // mean from one request to the next, s
	seconds         float64 // that it lasts at most
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
					Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Tree: tree, Numbers: measure.Numbers{Sent: measure.At(1), FirstToken: measure.At(1 + value), LastToken: measure.At(1 + value), End: measure.At(at)},
				})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b measure.Record) int { return cmp.Compare(a.End.Seconds(), b.End.Seconds()) })
	return list
}

// stop looks every 30 s, as Watch does, and returns what is known at the look that ends the run. A run that does not end in time is a
// failure of the model: one that outlasts it would be left out for being hard.
func (m model) stop(seed uint64, target Target, rule interface{ Look(bool) bool }) measure.UntilTarget {
	s := interval.NewRun(measure.RunInfo{}, measure.Rules{})
	records, looks := m.play(seed, m.seconds), 0
	for at := Every.Seconds(); at <= m.seconds; at += Every.Seconds() {
		for len(records) > 0 && records[0].End.Seconds() <= at {
			s.Add(&records[0])
			records = records[1:]
		}
		if treesOf(s) < interval.MinTrees {
			continue
		}
		looks++
		found := find(s, []Target{target}, interval.Seed{byte(looks), byte(looks >> 8), byte(seed), byte(seed >> 8)})[0]
		if rule.Look(found.Within()) {
			return found
		}
	}
	panic(fmt.Sprintf("seed %d: no end in %v s", seed, m.seconds))
}

// oneLook is the rule that one narrow look ends a run.
type oneLook struct{}

func (oneLook) Look(narrow bool) bool { return narrow }

// hits returns how many runs, of some numbers of seeds, end with a value that is within the share of the true one.
func (m model) hits(runs int, target Target, rule func() interface{ Look(bool) bool }) (n int) {
	var wait sync.WaitGroup
	var good atomic.Int64
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for k := range next {
				value := float64(m.stop(uint64(k), target, rule()).Value)
				if math.Abs(value-m.truth(target.Statistic)) <= target.Share*value {
					good.Add(1)
				}
			}
		})
	}
	for k := range runs {
		next <- k
	}
	close(next)
	wait.Wait()
	return int(good.Load())
}

func theRule() interface{ Look(bool) bool } { return new(rule) }
