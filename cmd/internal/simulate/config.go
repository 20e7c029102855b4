package simulate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/suggest"
)

// Config is all that decides a run. Default returns one without a load.
type Config struct {
	Switches preset.Switches
	Seed     uint64

	Workers        int // of an aggregated fleet; 0: the fleet is disaggregated
	PrefillWorkers int
	DecodeWorkers  int
	Engine         Engine // of an aggregated fleet
	PrefillEngine  Engine // of a disaggregated fleet
	DecodeEngine   Engine

	Router       Router
	RouterConfig *router.Config // of KVRouter; nil: the default of the cost function
	Tie          router.Tie     // of KVRouter; nil: the switch router-tie decides

	Input       *Input                     // what is played; nil: Synthetic
	Synthetic   *workload.SyntheticOptions // BlockSize and Seed are those of the run
	Measured    []fit.Request              // what a run measured; without Input its requests are played, each as long after what it waited for as then; nil: none
	Load        Load                       // "": the one of the input
	Concurrency int                        // sessions or requests of LoadConcurrency, lanes of LoadLanes
	Lanes       Lanes                      // of LoadLanes: how they play trees
	Speedup     float64                    // of LoadTrace: divides first arrivals and delays

	LimitTraces   int           // 0: all
	LimitRequests int           // nothing leaves after so many; 0: no limit
	MaxTime       time.Duration // nothing leaves after it, in virtual time; 0: no limit

	SLA SLA

	Planner  *planner.Config      // scales the fleet; nil: it stays as it is
	Sampling Sampling             // whether Result has Samples
	Forget   bool                 // Result.Requests has no request: about 0.5 KB less for each
	Each     func(*fleet.Request) // is told of each request that is forgotten, in the order of release; may be nil
	Observer fleet.Observer       // may be nil
	Plain    bool                 // play pass by pass, without skip-ahead: the oracle of tests
}

// Engine is an engine and its durations.
type Engine struct {
	Config engine.Config
	Timing engine.Timing
}

// NewEngine returns an engine, and reads the table that its configuration may name.
func NewEngine(c engine.Config) (e Engine, err error) {
	var table *engine.Table
	if c.Timing.Table != "" {
		if table, err = engine.ReadTable(c.Timing.Table); err != nil {
			return e, fmt.Errorf("engine: timing: %w", err)
		}
	}
	return Engine{c, engine.NewTiming(c, table)}, nil
}

// Load says when requests leave: doc/spec/simulate.md 3.4.
type Load string

// The loads.
const (
	LoadTrace       Load = "trace"
	LoadConcurrency Load = "concurrency"
	LoadLanes       Load = "lanes"
	LoadRun         Load = "run" // that of a run; no user names it
)

// loads are the loads.
var loads = []Load{LoadTrace, LoadConcurrency, LoadLanes}

// Router chooses workers: doc/spec/simulate.md 7.2, 8.
type Router string

// The routers.
const (
	RoundRobin Router = "round_robin"
	KVRouter   Router = "kv_router"
)

// routers are the routers.
var routers = []Router{RoundRobin, KVRouter}

// SLA is what a good request keeps, in nanoseconds, inclusive. 0: no limit.
type SLA struct {
	TTFT, ITL, E2E int64
}

// Default returns the configuration of one aggregated worker with the rules of preset default, without a load.
func Default() Config {
	switches, _ := preset.Named(preset.Default)
	one, _ := NewEngine(engine.Default())
	return Config{
		Switches: switches, Seed: 42, Workers: 1, Engine: one, PrefillEngine: one, DecodeEngine: one,
		Router: RoundRobin, Speedup: 1,
	}
}

// Disaggregated reports whether prefill and decode have workers of their own.
func (c *Config) Disaggregated() bool { return c.PrefillWorkers > 0 || c.DecodeWorkers > 0 }

// Engines returns the engines of the fleet: one, or that of prefill and that of decode.
func (c *Config) Engines() []Engine {
	if c.Disaggregated() {
		return []Engine{c.PrefillEngine, c.DecodeEngine}
	}
	return []Engine{c.Engine}
}

// BlockSize returns the tokens of an engine block, which all pools share.
func (c *Config) BlockSize() int { return c.Engines()[0].Config.BlockSize }

// again reports whether the requests of a run are played as they were sent.
func (c *Config) again() bool { return c.Measured != nil && c.Input == nil }

// LoadOf returns the load: the one that is set, or that of the input.
func (c *Config) LoadOf() Load {
	switch {
	case c.again():
		return LoadRun
	case c.Load != "":
		return c.Load
	case c.Input != nil && !c.Input.Timed():
		return LoadLanes
	case c.Concurrency > 0:
		return LoadConcurrency
	}
	return LoadTrace
}

// Validate returns everything that is wrong with the configuration, joined.
func (c Config) Validate() error {
	return errors.Join(c.ValidateWithoutInput(), c.validateLoad())
}

// ValidateWithoutInput returns everything that is wrong whatever is played, joined: a caller may ask before it has opened Input.
func (c Config) ValidateWithoutInput() error {
	return errors.Join(c.Switches.Validate(), c.validateFleet(), c.validateSpeedup(), c.validateBounds(), c.validatePlanner(), c.Sampling.Validate())
}

// validateFleet returns what is wrong with workers, engines and router, joined.
func (c *Config) validateFleet() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.Disaggregated() && c.Workers > 0:
		wrong("%d workers beside %d prefill and %d decode workers: want one kind of fleet", c.Workers, c.PrefillWorkers, c.DecodeWorkers)
	case c.Disaggregated() && (c.PrefillWorkers < 1 || c.DecodeWorkers < 1):
		wrong("%d prefill and %d decode workers: want at least 1 of each", c.PrefillWorkers, c.DecodeWorkers)
	case !c.Disaggregated() && c.Workers < 1:
		wrong("%d workers: want at least 1", c.Workers)
	}
	if n := max(c.Workers, c.PrefillWorkers, c.DecodeWorkers); n > maxWorkers {
		wrong("%d workers: want at most %d", n, maxWorkers)
	}
	for _, e := range c.Engines() {
		if err := errors.Join(e.Config.Validate(), e.Config.FitsTiers(c.Switches)); err != nil && !slices.ContainsFunc(errs, func(other error) bool { return other.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	if c.Disaggregated() && c.PrefillEngine.Config.BlockSize != c.DecodeEngine.Config.BlockSize {
		wrong("block_size %d of the prefill engine, %d of the decode engine: want the same", c.PrefillEngine.Config.BlockSize, c.DecodeEngine.Config.BlockSize)
	}
	if c.Disaggregated() && slices.ContainsFunc(c.Engines(), func(e Engine) bool { return e.Config.Type == engine.TRTLLM }) {
		wrong("engine_type %q in a disaggregated fleet: want %q or %q", engine.TRTLLM, engine.VLLM, engine.SGLang)
	}
	switch {
	case !slices.Contains(routers, c.Router):
		wrong("router %q: want %s", c.Router, suggest.Either(routers))
	case c.Router == KVRouter && max(c.Workers, c.PrefillWorkers, c.DecodeWorkers) < 2:
		wrong("router %s with one worker: nothing to choose; want 2 workers or more, or %s", KVRouter, RoundRobin)
	}
	switch {
	case c.Router == KVRouter:
		if err := c.routerKeys().Validate(); err != nil {
			errs = append(errs, err)
		}
	case c.RouterConfig != nil:
		wrong("a configuration of router %s contradicts router %s: leave the configuration out", KVRouter, c.Router)
	}
	return errors.Join(errs...)
}

// maxWorkers bounds the workers of a pool.
const maxWorkers = 1 << 16

// validateLoad returns what is wrong with what is played, joined.
func (c *Config) validateLoad() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.again() && c.Speedup != 1:
		wrong("arrival speed-up %g with the load of a run: leave it out", c.Speedup)
	case c.again():
	case c.Input == nil && c.Synthetic == nil:
		wrong("neither an input nor a synthetic load is given: give one")
	case c.Input != nil && c.Synthetic != nil:
		wrong("an input and a synthetic load contradict each other: leave one of them out")
	case c.Load != "" && !slices.Contains(loads, c.Load):
		wrong("load %q: want %s", c.Load, suggest.Either(loads))
	default:
		if err := c.fits(); err != nil {
			errs = append(errs, err)
		}
	}
	if !c.again() && c.validateSpeedup() == nil && c.Speedup != 1 && c.LoadOf() != LoadTrace {
		wrong("arrival speed-up %g with load %s: only load %s has arrivals that it divides: leave it out", c.Speedup, c.LoadOf(), LoadTrace)
	}
	return errors.Join(errs...)
}

// validateSpeedup returns an error about a factor by which no time can be divided.
func (c *Config) validateSpeedup() error {
	if !(c.Speedup > 0) || math.IsInf(c.Speedup, 0) {
		return fmt.Errorf("arrival speed-up %g: want a finite number above 0", c.Speedup)
	}
	return nil
}

// fits returns an error where load and input do not go together.
func (c *Config) fits() error {
	load := c.LoadOf()
	weka := c.Input != nil && !c.Input.Timed()
	switch {
	case load == LoadLanes && !weka:
		return fmt.Errorf("load %s: it plays trees of sessions, which no load of Mooncake rows or tables and no synthetic one has: want %s or %s", load, LoadTrace, LoadConcurrency)
	case load == LoadTrace && weka:
		return fmt.Errorf("load %s: only Mooncake rows, tables and synthetic loads have arrivals; want %s", load, LoadLanes)
	case load != LoadTrace && c.Concurrency < 1:
		return fmt.Errorf("load %s with concurrency %d: want at least 1", load, c.Concurrency)
	case load == LoadTrace && c.Concurrency != 0:
		return fmt.Errorf("load %s with concurrency %d: its requests leave as recorded: leave the concurrency out", load, c.Concurrency)
	case load == LoadLanes:
		return c.fitLanes()
	case len(c.Lanes.Set) > 0:
		return fmt.Errorf("load %s has no lanes: %s: want load %s of Weka traces", load, strings.Join(slices.Sorted(maps.Keys(c.Lanes.Set)), ", "), LoadLanes)
	}
	return nil
}

// traces returns how many traces of the input are played.
func (c *Config) traces() int {
	n := c.Input.Cache().Traces()
	if c.LimitTraces > 0 {
		n = min(n, c.LimitTraces)
	}
	return n
}

// validateBounds returns an error about the first bound or limit below 0.
func (c *Config) validateBounds() error {
	switch {
	case c.LimitTraces < 0:
		return fmt.Errorf("limit of traces %d: want 0 (none) or more", c.LimitTraces)
	case c.LimitRequests < 0:
		return fmt.Errorf("limit of requests %d: want 0 (none) or more", c.LimitRequests)
	case c.MaxTime < 0:
		return fmt.Errorf("limit of time %s: want 0 (none) or more", c.MaxTime)
	case c.SLA.TTFT < 0 || c.SLA.ITL < 0 || c.SLA.E2E < 0:
		return fmt.Errorf("limits of TTFT, ITL and latency of %d, %d and %d ns: want 0 (none) or more", c.SLA.TTFT, c.SLA.ITL, c.SLA.E2E)
	}
	return nil
}
