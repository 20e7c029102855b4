package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/internal/pyrand"
)

// SyntheticOptions are a load without an input: doc/spec/simulate.md 3.5.
type SyntheticOptions struct {
	Sessions  int     // how many arrive
	Turns     int     // of each session; 0: one
	In, Out   int     // tokens of each prompt and of its answer
	EveryMS   float64 // between arrivals; with Rate 0
	Rate      float64 // arrivals a second, at random (Poisson)
	ThinkMS   float64 // between the completion of a turn and the next
	Shared    float64 // the share of a prompt's blocks that its group has in common, 0 to 1
	Groups    int     // into which sessions fall at random; 0: one
	BlockSize int     // of the engine
	Seed      uint64
}

// maxTurns bounds the turns of a synthetic load.
const maxTurns = 1 << 26

// Validate returns an error about each option that cannot be used, joined.
func (o SyntheticOptions) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("synthetic: "+format, args...)) }
	for _, n := range []struct {
		name         string
		value, least int
	}{{"n", o.Sessions, 0}, {"turns", o.Turns, 0}, {"in", o.In, 1}, {"out", o.Out, 1}, {"groups", o.Groups, 0}, {"block size", o.BlockSize, 1}} {
		if n.value < n.least || n.value > maxTurns {
			wrong("%s %d: want %d to %d", n.name, n.value, n.least, maxTurns)
		}
	}
	if errs == nil && o.Sessions*max(o.Turns, 1) > maxTurns {
		wrong("%d sessions of %d turns: want at most %d turns", o.Sessions, o.Turns, maxTurns)
	}
	for _, n := range []struct {
		name  string
		value float64
		most  float64
	}{{"every", o.EveryMS, 1e12}, {"rate", o.Rate, 1e9}, {"think", o.ThinkMS, 1e12}, {"shared", o.Shared, 1}} {
		if !(n.value >= 0 && n.value <= n.most) {
			wrong("%s %g: want 0 to %g", n.name, n.value, n.most)
		}
	}
	if o.EveryMS > 0 && o.Rate > 0 {
		wrong("every %g ms and a rate of %g/s contradict each other: leave one of them out", o.EveryMS, o.Rate)
	}
	return errors.Join(errs...)
}

// The streams of draws: an option draws from its own, so that it does not move what others draw.
const (
	streamArrivals = iota + 1
	streamGroups
)

func stream(seed uint64, number uint64) *pyrand.PCG64 { return pyrand.NewPCG64(seed + number<<48) }

// Synthetic returns the sessions of a load without an input. Prompts are unique but for the blocks of their group.
func Synthetic(o SyntheticOptions) (*Sessions, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	common := uint32(math.RoundToEven(float64(o.In/o.BlockSize) * o.Shared))
	groups := uint32(max(o.Groups, 1))
	arrivals, draws := stream(o.Seed, streamArrivals), stream(o.Seed, streamGroups)
	s := &Sessions{}
	at := 0.0
	for n := range o.Sessions {
		switch {
		case n == 0:
		case o.Rate > 0:
			at += 1000 / o.Rate * arrivals.InvertedExponential()
		default:
			at = float64(n) * o.EveryMS
		}
		s.begin(at)
		var chain []engine.Run
		if common > 0 {
			chain = []engine.Run{{First: draws.Bounded(groups) * common, Count: common}}
		}
		for k := range max(o.Turns, 1) {
			think := o.ThinkMS
			if k == 0 {
				think = 0
			}
			s.add(turn{delay: think, prompt: o.In, output: o.Out, chain: chain})
		}
	}
	return s, nil
}
