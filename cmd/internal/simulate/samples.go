package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// Samples are the workers of a run at even instants: doc/spec/simulate.md 12.3.
type Samples struct {
	Every int64 // nanoseconds between them; the first is at 0
	List  []Sample
}

// Sample is the workers of each pool at an instant, by ascending id.
type Sample struct {
	At    int64
	Pools [][]fleet.WorkerState
}

// Sampling says at which instants a run keeps its workers. The zero value keeps none.
type Sampling struct {
	On    bool
	Every time.Duration // 0: 0.1 s times a power of two, so that there are 500 to 1,000 samples of a run that is long enough
}

const (
	leastEvery   = time.Millisecond
	defaultEvery = 100 * time.Millisecond
	mostSamples  = 1000
	mostGiven    = 20_000  // samples, where somebody says how far apart they are
	mostStates   = 1 << 20 // workers in all samples
)

// Validate returns an error for instants that are too close.
func (s Sampling) Validate() error {
	if s.Every != 0 && s.Every < leastEvery {
		return fmt.Errorf("samples every %s: want at least %s, or 0 for the default", s.Every, leastEvery)
	}
	return nil
}

// sampler collects samples. When they become too many it drops every second one.
type sampler struct {
	Samples
	most   int
	states int
	next   int64
}

func newSampler(s Sampling) *sampler {
	if s.Every > 0 {
		return &sampler{Samples: Samples{Every: int64(s.Every)}, most: mostGiven}
	}
	return &sampler{Samples: Samples{Every: int64(defaultEvery)}, most: mostSamples}
}

// Next returns when the next sample is due.
func (s *sampler) Next() int64 { return s.next }

// Sample keeps the workers at an instant.
func (s *sampler) Sample(at int64, pools [][]fleet.WorkerState) {
	one := Sample{At: at}
	for _, list := range pools {
		one.Pools = append(one.Pools, append([]fleet.WorkerState{}, list...))
		s.states += len(list)
	}
	s.List = append(s.List, one)
	for (len(s.List) > s.most || s.states > mostStates) && s.Every <= math.MaxInt64/4 && len(s.List) > 1 {
		s.halve()
	}
	s.next = at - at%s.Every + s.Every
}

// halve doubles the distance of the samples.
func (s *sampler) halve() {
	s.Every *= 2
	kept := s.List[:0]
	s.states = 0
	for _, one := range s.List {
		if one.At%s.Every != 0 {
			continue
		}
		kept = append(kept, one)
		for _, list := range one.Pools {
			s.states += len(list)
		}
	}
	clear(s.List[len(kept):])
	s.List = kept
}
