package simulate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/replay"
)

// Lanes say how the lanes of LoadLanes play trees: doc/spec/simulate.md 3.4. The zero value plays them as a replay does of which nothing
// is said.
type Lanes struct {
	// Options are those of a replay. Of them count where lanes begin, which trace comes next, gaps and limits: Start, Order, Recycle,
	// MaxLivePerTrace, AllowWrap, Pace, Limits, Preset and Switches. The run itself says what is played, on how many lanes and how long.
	Options replay.Options
	Set     map[string]string // what the user has set, by its name in a replay; the report has it
}

// lanesOf returns the options of a replay that plays what the run does.
func (c *Config) lanesOf() replay.Options {
	o := replay.Options{
		Start: c.Lanes.Options.Start, Order: c.Lanes.Options.Order, Recycle: c.Lanes.Options.Recycle, MaxLivePerTrace: c.Lanes.Options.MaxLivePerTrace,
		AllowWrap: c.Lanes.Options.AllowWrap, Pace: c.Lanes.Options.Pace, Limits: c.Lanes.Options.Limits, Preset: c.Lanes.Options.Preset,
		Switches: c.Lanes.Options.Switches, Warn: c.Lanes.Options.Warn,
	}
	o.Cache, o.Concurrency, o.Seed = c.Input.Cache(), c.Concurrency, strconv.FormatUint(c.Seed, 10)
	o.Traces, o.Requests, o.Duration = c.LimitTraces, c.LimitRequests, c.MaxTime
	if o.Duration > 0 && o.Duration < math.MaxInt64 {
		o.Duration++ // what is due at the bound still leaves
	}
	return o
}

// lanes returns the load of trees. The bounds are those of the player: without one it plays every tree once, else again and again.
func (c *Config) lanes() (workload.Load, error) {
	return workload.Lanes(workload.LanesOptions{Replay: c.lanesOf(), BlockSize: c.BlockSize(), IDWidth: c.Switches.IDWidth})
}

// fitLanes returns an error about lanes that cannot play the input within its bounds.
func (c *Config) fitLanes() error {
	if (c.LimitRequests > 0 || c.MaxTime > 0) && c.Concurrency > c.traces() && !c.Lanes.Options.AllowWrap {
		return fmt.Errorf("%d lanes, but %d traces: within a bound of requests or time traces are played again and again, and lanes that play one at a time would share its prefix; want at most %[2]d lanes, or no bound, under which every trace is played once, or --allow-wrap",
			c.Concurrency, c.traces())
	}
	if c.Concurrency > replay.MaxConcurrency {
		return fmt.Errorf("load %s: concurrency %d: want 1 to %d", LoadLanes, c.Concurrency, replay.MaxConcurrency)
	}
	if err := c.lanesOf().ValidatePlayer(); err != nil {
		return fmt.Errorf("load %s: %w", LoadLanes, err)
	}
	return nil
}
