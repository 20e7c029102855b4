package simulate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
)

// Input is the structure of a cache: lengths, times and ids of prompts, without their text. Several runs may use it at a
// time.
type Input struct {
	cache *mmapcache.Cache
	timed bool // see Timed
	block int  // tokens that an id of the first trace stands for

	mu       sync.Mutex
	sessions map[numbering]*workload.Sessions // made once for each
}

// numbering is what the chain numbers of prompts depend on.
type numbering struct {
	block int
	width preset.Choice
}

// NewInput returns the input of a cache, of which it reads the tables alone. It refuses one that mixes formats.
func NewInput(c *mmapcache.Cache) (*Input, error) {
	n := 0
	for _, format := range timedFormats {
		n += c.Facts.Generations[format]
	}
	switch traces := c.Traces(); {
	case traces == 0:
		return nil, errors.New("the input has no trace to simulate")
	case c.Facts.Rules.LiveAnswers:
		return nil, errors.New("its prompts contain answers that only a replay gets (session_rows=live): convert the input with session_rows=new, which puts filler in their place")
	case n > 0 && n < traces:
		return nil, fmt.Errorf("the input mixes %d traces of Mooncake rows or tables, which arrive at recorded times, with %d of another format, which are trees of sessions: simulate each format on its own", n, traces-n)
	}
	first, err := c.Trace(0)
	if err != nil {
		return nil, err
	}
	return &Input{cache: c, timed: n > 0, block: int(first.BlockSize), sessions: map[numbering]*workload.Sessions{}}, nil
}

// timedFormats are those of traces that are single sessions with recorded starts: Mooncake rows, and the tables of convert/loads.
var timedFormats = []string{mmapcache.FormatMooncake, "azure", "burstgpt"}

// Timed reports whether the traces are single sessions that arrive at recorded times. Others are trees of sessions.
func (in *Input) Timed() bool { return in.timed }

// Cache returns the cache, of which only the tables may be open.
func (in *Input) Cache() *mmapcache.Cache { return in.cache }

// BlockSize returns the tokens that a hash id of the first trace stands for.
func (in *Input) BlockSize() int { return in.block }

// sessionsOf returns the sessions that arrive at recorded times, or the roots of trees, with blocks numbered for an engine.
func (in *Input) sessionsOf(block int, width preset.Choice) (*workload.Sessions, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := numbering{block, width}
	if s := in.sessions[key]; s != nil {
		return s, nil
	}
	number := workload.Roots
	if in.timed {
		number = workload.Timed
	}
	s, err := number(in.cache, block, width)
	if err == nil {
		in.sessions[key] = s
	}
	return s, err
}

// load returns the load of a run, within its bounds.
func (c *Config) load() (load workload.Load, err error) {
	if c.again() {
		return bound(fit.Load(c.Measured, true), c.LimitRequests, int64(c.MaxTime)), nil
	}
	if c.LoadOf() == LoadLanes {
		return c.lanes()
	}
	sessions, err := c.sessions()
	if err != nil {
		return nil, err
	}
	if c.LoadOf() == LoadConcurrency {
		load, err = sessions.Concurrency(c.Concurrency, c.Switches.ConcurrencyUnit)
	} else {
		load, err = sessions.Trace(c.Speedup)
	}
	if err != nil {
		return nil, err
	}
	return bound(load, c.LimitRequests, int64(c.MaxTime)), nil
}

// sessions returns the sessions of the input, or of the synthetic load.
func (c *Config) sessions() (s *workload.Sessions, err error) {
	if c.Synthetic != nil {
		o := *c.Synthetic
		o.BlockSize, o.Seed = c.BlockSize(), c.Seed
		s, err = workload.Synthetic(o)
	} else {
		s, err = c.Input.sessionsOf(c.BlockSize(), c.Switches.IDWidth)
	}
	if err == nil && c.LimitTraces > 0 {
		s = s.First(c.LimitTraces)
	}
	return s, err
}

// bounded is a load of which nothing leaves after a number of requests, or after a time.
type bounded struct {
	workload.Load
	requests int64 // that may still leave
	until    int64 // nanoseconds
}

// bound returns a load that ends after so many requests, or at a time in nanoseconds; 0: no bound.
func bound(l workload.Load, requests int, until int64) workload.Load {
	if requests == 0 && until == 0 {
		return l
	}
	b := &bounded{l, int64(requests), until}
	if requests == 0 {
		b.requests = never
	}
	if until == 0 {
		b.until = never
	}
	return b
}

const never = 1<<63 - 1

// Next is that of the load, until the bounds are reached.
func (b *bounded) Next() (int64, bool) {
	at, ok := b.Load.Next()
	if b.requests == 0 || at > b.until {
		return 0, false
	}
	return at, ok
}

// Release is that of the load, until the bounds are reached, and counts what leaves.
func (b *bounded) Release(now int64) (t workload.Turn, ok bool) {
	if b.requests == 0 || now > b.until {
		return t, false
	}
	if t, ok = b.Load.Release(now); ok {
		b.requests--
	}
	return t, ok
}

// Left returns 0: turns beyond the bounds are not missed.
func (b *bounded) Left() int { return 0 }

// Lanes say how the lanes of LoadLanes play trees: doc/spec/simulate.md 3.4. The zero value plays them as a replay does of which nothing
// is said.
type Lanes struct {
	// Options are those of a replay. Of them count where lanes begin, which trace comes next, gaps and limits: Start, Order, Recycle,
	// MaxLivePerTrace, AllowWrap, Pace, Limits, Preset and Switches. The run itself says what is played, on how many lanes and how long.
	Options replay.Options
	Set     map[string]string // what the user has set, by its name in a replay; the report has it
	Run     bool              // Options are those of a replay as it was played: all of them count, but Cache and Concurrency
	Marked  bool              // prompts of different trees share no block
}

// lanesOf returns the options of a replay that plays what the run does.
func (c *Config) lanesOf() replay.Options {
	if c.Lanes.Run {
		o := c.Lanes.Options
		o.Cache, o.Concurrency = c.Input.Cache(), c.Concurrency
		return o
	}
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
	if _, set := c.Lanes.Set["tree-idle-cap"]; !set && c.Switches.LaneIdle == preset.IdleUncapped {
		switches := *o.WithDefaults().Switches
		switches.TreeIdleCap, o.Switches = nil, &switches
	}
	return o
}

// lanes returns the load of trees. The bounds are those of the player: without one it plays every tree once, else again and again.
func (c *Config) lanes() (workload.Load, error) {
	return workload.Lanes(workload.LanesOptions{Replay: c.lanesOf(), Separate: c.Lanes.Marked, BlockSize: c.BlockSize(), IDWidth: c.Switches.IDWidth})
}

// fitLanes returns an error about lanes that cannot play the input within its bounds.
func (c *Config) fitLanes() error {
	if (c.LimitRequests > 0 || c.MaxTime > 0) && c.Concurrency > c.traces() && !c.Lanes.Options.AllowWrap {
		return fmt.Errorf("%d lanes, but %d traces: within a bound of requests or time traces are played again and again, and two lanes that play the same trace at a time share its prefix: use at most %[2]d lanes, or no bound, so that every trace is played once, or --allow-wrap",
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
