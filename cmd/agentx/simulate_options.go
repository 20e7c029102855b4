package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/planner"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/router"
	"github.com/agentx/agentx/simulate/workload"
)

// base returns what all runs of the command have in common. What is wrong is added to the problems.
func (f *simulateFlags) base() simulate.Config {
	c := simulate.Default()
	c.Switches = f.switches
	c.Router, c.Load, c.Speedup = simulate.Router(f.router), simulate.Load(f.load), f.speedup
	c.Lanes = f.lanesOf()
	c.LimitRequests, c.LimitTraces, c.MaxTime, c.Seed = f.limitRequests, f.limitTraces, f.maxTime, f.seed
	c.SLA = simulate.SLA{TTFT: int64(f.slaTTFT), ITL: int64(f.slaITL), E2E: int64(f.slaE2E)}
	if f.synthetic != "" {
		var err error
		if c.Synthetic, err = parseSynthetic(f.synthetic); err != nil {
			f.addEach(f.shown("synthetic", f.synthetic), err, "synthetic: ")
		}
	}
	if f.routerConfig != "" {
		c.RouterConfig = f.routerOf(c.Switches.RouterCost)
	}
	if f.planner != "" {
		c.Planner = f.plannerOf()
	}
	c.Sampling = f.sampling(c.Planner != nil)
	if f.out == "" && (f.perRequest || f.format != "" || f.overwrite) {
		f.add("--per-request, --format, --overwrite: they concern files: add --out DIR")
	}
	if f.synthetic != "" && f.traceBlock != 0 {
		f.add("--trace-block-size %d beside --synthetic, which has no hash ids", f.traceBlock)
	}
	return c
}

// wrongKey names the nearest of several keys in an error about one that does not exist.
func wrongKey(name string, known []string) error {
	if near := suggest.Closest(name, known); near != "" {
		return fmt.Errorf("unknown key %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown key %q; the keys are %s", name, strings.Join(known, ", "))
}

// maxObject bounds a file with a JSON object, in bytes.
const maxObject = 1 << 20

// objectOf returns the JSON object that a flag names: itself, or the content of a file.
func objectOf(text string) ([]byte, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return []byte(text), nil
	}
	return regular.Read(text, maxObject)
}

// engineOf returns the engine of a flag, based on another.
func (f *simulateFlags) engineOf(name, text string, base engine.Config) engine.Config {
	if text == "" {
		return base
	}
	data, err := objectOf(text)
	c := base
	if err == nil {
		c, err = engine.Parse(data, base)
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		f.addEach(f.shown(name, text), err, "engine: ")
		return base
	}
	return c
}

// shown returns a flag with a value as the user wrote them.
func (f *simulateFlags) shown(name, text string) string {
	return settings.Shown(f.flags.Lookup(name), text)
}

// addEach adds the errors that were joined, each after the name of what is wrong, in place of the prefix that it may have.
func (f *simulateFlags) addEach(name string, err error, prefix string) {
	for _, one := range unjoin(err) {
		f.addOnce(fmt.Errorf("%s: %w", name, withoutPrefix(one, prefix)))
	}
}

// routerOf returns the keys of kv_router; nil where they are wrong.
func (f *simulateFlags) routerOf(cost preset.Choice) *router.Config {
	data, err := objectOf(f.routerConfig)
	var c router.Config
	if err == nil {
		c, err = router.Parse(data, cost)
	}
	if err != nil {
		f.addEach(f.shown("router-config", f.routerConfig), err, "router: ")
		return nil
	}
	return &c
}

// plannerOf returns the planner of a flag, whose mode is that of the fleet where it names none; nil where it is wrong.
func (f *simulateFlags) plannerOf() *planner.Config {
	base := planner.Default()
	if len(f.prefillWorkers)+len(f.decodeWorkers) > 0 {
		base.Mode = planner.Disaggregated
	}
	data, err := objectOf(f.planner)
	if err == nil {
		base, err = planner.Parse(data, base)
	}
	if err != nil {
		f.addEach(f.shown("planner", f.planner), err, "planner: ")
		return nil
	}
	return &base
}

// withoutPrefix returns an error without the beginning of its text, which repeats what stands before it.
func withoutPrefix(err error, prefix string) error {
	if text, ok := strings.CutPrefix(err.Error(), prefix); ok {
		return errors.New(text)
	}
	return err
}

// parseSynthetic reads in=I,out=O,n=N and what may follow.
func parseSynthetic(text string) (*workload.SyntheticOptions, error) {
	o := &workload.SyntheticOptions{}
	counts := map[string]*int{"in": &o.In, "out": &o.Out, "n": &o.Sessions, "turns": &o.Turns, "groups": &o.Groups}
	numbers := map[string]*float64{"every": &o.EveryMS, "rate": &o.Rate, "think": &o.ThinkMS, "shared": &o.Shared}
	known := []string{"in", "out", "n", "every", "rate", "turns", "think", "shared", "groups"}
	seen := map[string]bool{}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		var err error
		switch {
		case !ok:
			wrong("%q: want NAME=VALUE with commas between", part)
		case seen[name]:
			wrong("%s: twice", name)
		case counts[name] != nil:
			if *counts[name], err = strconv.Atoi(value); err == nil && *counts[name] == 0 && (name == "turns" || name == "groups") {
				wrong("%s=0: want 1 or more", name)
			}
		case numbers[name] != nil:
			if *numbers[name], err = strconv.ParseFloat(value, 64); err == nil && *numbers[name] == 0 && name == "rate" {
				wrong("rate=0: want a number above 0")
			}
		default:
			errs = append(errs, wrongKey(name, known))
		}
		if err != nil {
			wrong("%s=%s: %w", name, value, settings.Explain(err))
		}
		seen[name] = true
	}
	for _, name := range []string{"in", "out", "n"} {
		if !seen[name] {
			wrong("no %s: want in=TOKENS,out=TOKENS,n=REQUESTS", name)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	checked := *o
	checked.BlockSize = 1 // that of the engine is checked with it
	return o, checked.Validate()
}
