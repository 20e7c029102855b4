// Package arrivals decides when sessions begin on their own: doc/spec/replay.md 14. It computes instants, has no clock and reads
// no files, so that a replay and a simulation of it have the same arrivals.
//
//	starts, err := arrivals.Window{From: time.Minute, Speed: 60}.Select(recorded) // which traces, in which order, when
//	s := arrivals.Recorded(instants)
//
//	p := arrivals.Process{Rate: 50, Kind: arrivals.Poisson, Seed: "42"}
//	s := p.Schedule()
//	at, ok := s.Next()
//
// Instants count from the first arrival. They are whole nanoseconds and never go back. Nothing that a server does changes them.
package arrivals

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/resume"
)

// Kind is the law of the gaps between arrivals.
type Kind uint8

// The laws. The gaps of Poisson are exponential.
const (
	Poisson Kind = iota
	Constant
	Gamma
)

var kindNames = []string{Poisson: "poisson", Constant: "constant", Gamma: "gamma"}

// String returns the word by which a setting chooses the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// ParseKind reads poisson, constant or gamma:SHAPE.
func ParseKind(text string) (k Kind, shape float64, err error) {
	name, number, shaped := strings.Cut(text, ":")
	switch {
	case text == "poisson":
		return Poisson, 0, nil
	case text == "constant":
		return Constant, 0, nil
	case name == "gamma" && shaped:
		if shape, err = strconv.ParseFloat(number, 64); err == nil {
			if !(shape >= minShape && shape <= maxShape) {
				err = fmt.Errorf("arrivals: shape %g of gamma: want %g to %g", shape, minShape, float64(maxShape))
			}
			return Gamma, shape, err
		}
	}
	return 0, 0, fmt.Errorf("arrivals: %q: want poisson, constant or gamma:SHAPE, such as gamma:0.5", text)
}

// The limits of a process.
const (
	MaxRate  = 1e6              // a microsecond between arrivals: no client sends more
	minShape = 0.001            // with a smaller one nearly all gaps are below a nanosecond
	maxShape = 1e6              // with a larger one gaps differ by less than 0.1 %: constant
	MaxRamp  = 1000 * time.Hour // longer than any run
)

// Process draws arrivals. Equal values draw equal ones.
type Process struct {
	Rate  float64 // arrivals per second, once the ramp is over
	Kind  Kind
	Shape float64       // of Gamma: 1 is Poisson, less comes in bursts, more is more even; 0 for the others
	Ramp  time.Duration // the rate grows from 0 for so long
	Seed  string        // the operator's seed in decimal
}

// Schedule returns the arrivals of a valid process, without end until the 292 years that a Duration can hold are over.
func (p Process) Schedule() Schedule {
	s := &drawn{Process: p, scale: 1 / p.Rate, rise: p.Ramp.Seconds()}
	if p.Ramp > 0 {
		s.scale = 1 // S of the unit rate; instant maps it
	}
	if p.Kind == Gamma {
		s.scale = 1 / p.Shape
		if p.Ramp == 0 {
			s.scale = 1 / float64(p.Rate*p.Shape)
		}
	}
	s.draws = pyrand.NewPCG64(resume.LaneSeed(p.Seed, "arrivals", 0))
	return s
}

// drawn is the schedule of a process.
type drawn struct {
	Process
	draws *pyrand.PCG64
	scale float64 // of a gap
	rise  float64 // the ramp in seconds
	sum   float64 // of the gaps: seconds, with a ramp arrivals
	count float64 // arrivals so far
	last  time.Duration
}

// Next draws the gap to the next arrival and returns its instant; false when that is too far away for a duration.
func (s *drawn) Next() (at time.Duration, ok bool) {
	if s.count > 0 {
		s.sum = s.advance()
	}
	at, ok = nanoseconds(float64(s.seconds() * 1e9))
	if !ok { // nor later, as sums only grow
		return 0, false
	}
	s.count++
	s.last = max(s.last, at) // the two halves of a ramp meet within a rounding
	return s.last, true
}

// advance returns the sum with the next gap.
func (s *drawn) advance() float64 {
	switch s.Kind {
	case Constant:
		if s.Ramp > 0 {
			return s.count
		}
		return s.count / s.Rate
	case Gamma:
		return s.sum + float64(s.scale*s.draws.Gamma(s.Shape))
	}
	return s.sum + float64(s.scale*s.draws.Exponential())
}

// seconds returns the instant of the sum: the t at which the integral of the rate is the sum.
func (s *drawn) seconds() float64 {
	switch {
	case s.rise == 0:
		return s.sum
	case s.sum <= float64(s.Rate*s.rise)/2:
		return math.Sqrt(2 * s.rise * s.sum / s.Rate)
	}
	return s.rise/2 + float64(s.sum/s.Rate)
}

// Schedule gives the instants of arrivals, one after another.
type Schedule interface {
	// Next returns the instant of the next arrival, never before the one before it. ok is false after the last.
	Next() (at time.Duration, ok bool)
}

// Recorded returns the schedule of instants that are known. They must not go back.
func Recorded(instants []time.Duration) Schedule { return &recorded{instants} }

type recorded struct{ rest []time.Duration }

// Next returns the next recorded arrival.
func (r *recorded) Next() (at time.Duration, ok bool) {
	if len(r.rest) == 0 {
		return 0, false
	}
	at, r.rest = r.rest[0], r.rest[1:]
	return at, true
}
