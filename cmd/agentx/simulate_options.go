package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/planner"
	"github.com/agentx/agentx/simulate/router"
	"github.com/agentx/agentx/simulate/workload"
)

// base completes what all runs of the command have in common. What is wrong is added to the problems.
func (f *simulateFlags) base() {
	c := &f.c
	c.Lanes.Options.Warn, c.Lanes.Set = f.warnLane, map[string]string{}
	for _, name := range f.lanesSet() {
		c.Lanes.Set[name] = f.set.Text(name)
	}
	if f.synthetic != "" {
		var err error
		if c.Synthetic, err = parseSynthetic(f.synthetic); err != nil {
			f.addEach(f.shown("synthetic", f.synthetic), err, "synthetic: ")
		}
	}
	if one, ok := objectOf(f, "router-config", f.routerConfig, "router: ", router.Config{}, func(data []byte, _ router.Config) (router.Config, error) {
		return router.Parse(data, c.Switches.RouterCost)
	}); ok {
		c.RouterConfig = &one
	}
	mode := planner.Default() // whose mode is that of the fleet
	if f.disaggregated() {
		mode.Mode = planner.Disaggregated
	}
	if one, ok := objectOf(f, "planner", f.planner, "planner: ", mode, planner.Parse); ok {
		c.Planner = &one
	}
	c.Sampling = f.sampling(c.Planner != nil)
	if files := f.p.Files; files.Dir == "" && (files.PerRequest || f.format != "" || files.Overwrite) {
		f.add("--per-request, --format, --overwrite: they concern files: add --out DIR")
	}
	if f.synthetic != "" && f.traceBlock != 0 {
		f.add("--trace-block-size %d beside --synthetic, which has no hash ids", f.traceBlock)
	}
}

// maxObject bounds a file with a JSON object, in bytes.
const maxObject = 1 << 20

// objectOf returns what the JSON object that a flag names, itself or the content of a file, makes of a base. It is the base, and false,
// where the flag names none, or a wrong one.
func objectOf[T any](f *simulateFlags, name, text, prefix string, base T, parse func(data []byte, base T) (T, error)) (T, bool) {
	if text == "" {
		return base, false
	}
	data, err := []byte(text), error(nil)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		data, err = regular.Read(text, maxObject)
	}
	one := base
	if err == nil {
		one, err = parse(data, base)
	}
	if err != nil {
		f.addEach(f.shown(name, text), err, prefix)
		return base, false
	}
	return one, true
}

// engineOf returns the engine of a flag, based on another.
func (f *simulateFlags) engineOf(name, text string, base engine.Config) engine.Config {
	c, _ := objectOf(f, name, text, "engine: ", base, func(data []byte, base engine.Config) (engine.Config, error) {
		c, err := engine.Parse(data, base)
		if err == nil {
			err = c.Validate()
		}
		return c, err
	})
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
			errs = append(errs, jsonobject.Unknown(name, known))
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
