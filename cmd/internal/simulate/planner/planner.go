// Package planner decides how many workers a simulated fleet has: doc/spec/simulate.md 10 and 11. It moves no clock and owns no worker.
// A fleet tells it what arrives, what ends and what passes were, asks when it ticks next, and gets decisions:
//
//	p, err := planner.New(planner.Options{Config: config, Switches: switches, Engines: []planner.Engine{planner.EngineOf(c, &timing)}})
//	p.Arrived(prompt, output)
//	p.Passed(pool, worker, pass)
//	p.Completed(planner.Completion{...})
//	if now == p.Next() {
//		tick, targets, err := p.Tick(event, []planner.Workers{{Active: ids}})
//	}
//
// In mode agg there is one pool, in mode disagg there are two: prefill, then decode. [Tick] has all that a page draws.
//
// A tick looks at the models ([model]: what a pass costs), at the traffic ([Window]) and at the last pass of every worker. Throughput decides
// before load, so that load sees the new floor.
package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Options are what a planner is made of.
type Options struct {
	Config   Config
	Switches preset.Switches
	Engines  []Engine // of the pools, in their order
}

// Validate returns an error about the first option that cannot be used.
func (o Options) Validate() error {
	if err := cmp.Or(o.Config.Validate(), o.Switches.Validate()); err != nil {
		return err
	}
	pools := o.Config.pools()
	if len(o.Engines) != len(pools) {
		return fmt.Errorf("planner: mode %s needs engines of %d pools, the fleet has %d", o.Config.Mode, len(pools), len(o.Engines))
	}
	gpus := []int{}
	for i, e := range o.Engines {
		if err := e.validate(); err != nil {
			return fmt.Errorf("planner: the engine of pool %s: %w", pools[i], err)
		}
		gpus = append(gpus, e.GPUs)
	}
	if _, err := o.predictor(); err != nil {
		return err
	}
	return o.Config.checkBudget(gpus)
}

// predictor returns the name of the predictor: that of the configuration, else that of the switches.
func (o Options) predictor() (string, error) {
	if o.Config.Predictor != "" {
		return o.Config.Predictor, nil
	}
	if o.Switches.Predictor == preset.PredictARIMA {
		return "", fmt.Errorf("planner: predictor %q: agentx has none of this name: set predictor to %s or %s", preset.PredictARIMA, kalman, constant)
	}
	return string(o.Switches.Predictor), nil
}

// Planner decides the sizes of the pools of a fleet. It belongs to one goroutine.
type Planner struct {
	config        Config
	balance       preset.Choice
	count         preset.Choice
	discount      bool // cached prefixes are no work
	consolidation bool
	whileScaling  bool
	idleEmpty     bool // an engine without a pass is empty
	pipeline      bool
	engines       []Engine
	budget        budget

	clock    *clock
	models   []*model
	forward  []*forward          // of a pipeline, instead
	records  []record            // since the last tick
	states   []map[int]EngineNow // by worker
	window   Window
	forecast forecast
	hit      float64 // that load discounts by
	floors   []int
	boot     Bootstrap
	missed   []int // throughput ticks at which an engine of a pool could not keep its limit with one request
	last     int64 // the tick before
	hours    float64
}

// New returns a planner whose models know what the engines' own timing says. Where that says nothing they begin empty: Bootstrap
// tells why.
func New(o Options) (*Planner, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, s := o.Config.Resolve(), o.Switches
	p := &Planner{
		config: c, balance: s.Balance, count: s.TrafficNumReq, discount: s.HitDiscount == preset.On, consolidation: s.Consolidation == preset.On,
		whileScaling: s.ScaleWhileScaling == preset.On, idleEmpty: s.IdleEngine == preset.IdleEmpty, pipeline: s.Planning == preset.PlanningPipeline,
		engines: o.Engines, clock: newClock(c, s.TickTime), window: newWindow(0, s.TrafficNumReq), budget: budget{least: c.least(), floor: c.MinGPUBudget, most: c.MaxGPUBudget},
	}
	if p.pipeline {
		p.clock, p.window.ended = newBeat(c), true
	}
	name, _ := o.predictor() // Validate has asked
	for _, one := range []*predictor{&p.forecast.requests, &p.forecast.isl, &p.forecast.osl, &p.forecast.hit} {
		one.config, one.kalman, one.start = &p.config, name == kalman, firstCovariance
		if p.pipeline {
			one.start = pipelineCovariance
		}
	}
	kinds := []kind{aggKind}
	if c.Mode == Disaggregated {
		kinds = []kind{prefillKind, decodeKind}
	}
	for i, k := range kinds {
		p.models = append(p.models, newModel(k, c))
		p.states = append(p.states, map[int]EngineNow{})
		if p.pipeline {
			p.forward = append(p.forward, newForward(k, c, o.Engines[i]))
		}
		p.budget.gpus = append(p.budget.gpus, o.Engines[i].GPUs)
		p.floors = append(p.floors, p.budget.least[i])
		p.missed = append(p.missed, 0)
	}
	if c.Target != TargetSLA || s.Bootstrap != preset.On {
		return p, nil // fixed bounds need no model
	}
	return p, p.bootstrap()
}

// Bootstrap says what the models knew before the first tick.
func (p *Planner) Bootstrap() Bootstrap { return p.boot }

// Warnings returns what a user should know of the decisions, pool by pool.
func (p *Planner) Warnings() (list []string) {
	for i, m := range p.models {
		if n := p.missed[i]; n > 0 {
			list = append(list, fmt.Sprintf("%s: at %d of %d throughput ticks with traffic, one request of the predicted lengths misses %s on an engine of its own, which more engines do not mend: raise the limit, or choose a faster engine",
				p.config.pools()[i], n, p.forecast.requests.points, p.limits(m.kind)))
		}
	}
	return list
}

// Next returns when the next tick is, in nanoseconds.
func (p *Planner) Next() int64 { return p.clock.at() }

// Arrived tells of a request that arrives, by the tokens of its prompt and its output.
func (p *Planner) Arrived(prompt, output int) { p.window.arrived(prompt, output) }

// Routed tells how many blocks of a prompt its worker had, of how many.
func (p *Planner) Routed(overlap, blocks int) { p.window.routed(overlap, blocks) }

// Completed tells of a request that has ended with output.
func (p *Planner) Completed(c Completion) { p.window.Completed(c) }

// Passed tells of a pass that has ended on a worker of a pool. To a pipeline one that did nothing, as all that wait lack blocks, is none.
func (p *Planner) Passed(pool, worker int, pass *engine.Pass) {
	if p.pipeline && pass.End == pass.Start && pass.Prefill.Requests+pass.Decode.Requests == 0 {
		return
	}
	p.records = append(p.records, recordOf(pool, worker, pass))
}

// Window returns the traffic since the last throughput tick.
func (p *Planner) Window() Window { return p.window }

// Tick decides at Next. event is when something last happened in the fleet before it; pools are the workers as they are. The targets
// are of workers that are active or starting.
func (p *Planner) Tick(event int64, pools []Workers) (t *Tick, targets []int, err error) {
	if len(pools) != len(p.models) {
		return nil, nil, fmt.Errorf("planner: a tick got the workers of %d pools: want those of %d", len(pools), len(p.models))
	}
	t = &Tick{At: p.clock.at()}
	t.Load, t.Throughput = p.clock.due()
	t.Now = p.clock.tick(event)
	p.absorb()
	p.look(t, pools)
	var want []int
	if p.pipeline {
		p.hear(t)
	}
	if t.Throughput { // before load, which sees the new floor
		p.drain(t)
		want = p.throughput(t)
	}
	if t.Load {
		if result := p.load(t); result != nil {
			want = result
		}
	}
	if p.pipeline {
		want = p.project(t, want)
	}
	p.note(t)
	return t, t.targets(want), nil
}

// look notes the workers and their last passes, and forgets those that are no longer active.
func (p *Planner) look(t *Tick, pools []Workers) {
	before := p.last
	hours := float64(t.At-before) / 3600e9
	p.last = t.At
	for i, w := range pools {
		one := PoolTick{Name: p.config.pools()[i], Active: len(w.Active), Starting: w.Starting, Draining: w.Draining}
		one.Recommended = one.Active + one.Starting
		for id := range p.states[i] {
			if !slices.Contains(w.Active, id) {
				delete(p.states[i], id)
			}
		}
		for k, id := range w.Active {
			now, ok := p.states[i][id]
			if p.idleEmpty {
				if !ok {
					now = EngineNow{Worker: id, since: before}
					if w.Ready != nil {
						now.since = w.Ready[k]
					}
				}
				if n := (t.At - now.since) / idle; n > 0 {
					now, ok = EngineNow{Worker: id, since: now.since + n*idle}, true
					p.states[i][id] = now
				}
			}
			if ok {
				one.Engines = append(one.Engines, now)
			}
		}
		p.hours += hours * float64((one.Active+one.Starting+one.Draining)*p.budget.gpus[i])
		t.Pools = append(t.Pools, one)
	}
	t.GPUHours = p.hours
}

// idle is after how many nanoseconds without the end of a pass an engine says that it is idle, where the switch idle-engine is empty.
const idle = 1_000_000_000

// drain ends the traffic window with the tick, and begins the next.
func (p *Planner) drain(t *Tick) {
	w := p.window
	w.End = t.Now
	t.Window = &w
	t.Observed = &Observed{Seconds: w.Seconds(), ISL: w.isl(), OSL: w.osl(), TTFTMS: w.ttftMS(), ITLMS: w.itlMS(), HitRate: w.hitRate()}
	p.window = newWindow(t.Now, p.count)
	p.window.ended = p.pipeline
}

// afford cuts the targets of throughput to the budget.
func (p *Planner) afford(t *Tick, want []int) []int {
	for i := range want {
		t.Pools[i].Recommended = want[i]
	}
	return p.budget.clamp(want)
}

// note adds the floors and the fitted models of the pools to the tick.
func (p *Planner) note(t *Tick) {
	for i := range t.Pools {
		t.Pools[i].Floor = p.floors[i]
		if l := p.models[i].line(); l.Fitted {
			t.Pools[i].Line = &l
		}
	}
}

// Engine is what a planner knows of the engines of a pool.
type Engine struct {
	MaxBatchedTokens int // MBT: the budget of a pass
	MaxSeqs          int // 0: unknown
	MaxKV            int // tokens of the pool; 0: unknown
	ContextLength    int // of the longest request; 0: unknown
	GPUs             int // of a worker
	Timing           Timing
}

// validate returns an error about the first field that cannot be used.
func (e Engine) validate() error {
	if e.Timing == nil {
		return errors.New("it has no Timing")
	}
	for _, n := range []struct {
		name         string
		value, least int
	}{{"MaxBatchedTokens", e.MaxBatchedTokens, 1}, {"MaxKV", e.MaxKV, 1}, {"ContextLength", e.ContextLength, 0}, {"GPUs", e.GPUs, 0}} {
		if n.value < n.least {
			return fmt.Errorf("%s %d: want at least %d", n.name, n.value, n.least)
		}
	}
	return nil
}

// Timing says what the parts of a pass take, in nanoseconds. An engine.Timing does.
type Timing interface {
	Prefill(tokens int) int64
	Decode(kv, length, requests int) int64
}

// EngineOf returns what a planner knows of an engine.
func EngineOf(c engine.Config, t *engine.Timing) Engine {
	return Engine{
		MaxBatchedTokens: c.MaxBatchedTokens, MaxSeqs: c.MaxSeqs, MaxKV: c.Blocks * c.BlockSize, ContextLength: c.MaxModelLen, GPUs: c.GPUsPerWorker, Timing: t,
	}
}
