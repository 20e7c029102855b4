package setup

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/internal/regular"
)

// base completes what all runs of the command have in common. What is wrong is added to the problems.
func (f *Flags) base() {
	c := &f.Config
	c.Lanes.Options.Warn, c.Lanes.Set = f.warn, map[string]string{}
	for _, name := range f.lanesSet() {
		c.Lanes.Set[name] = f.set.Text(name)
	}
	if f.Synthetic != "" {
		var err error
		if c.Synthetic, err = parseSynthetic(f.Synthetic); err != nil {
			f.addEach(f.shown("synthetic", f.Synthetic), err, "synthetic: ")
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
	f.Player.Files.Dynamo = f.format == "dynamo"
	c.Sampling = f.sampling(c.Planner != nil)
	if files := f.Player.Files; files.Dir == "" && (files.PerRequest || f.format != "" || files.Overwrite) {
		f.add("--per-request, --format, --overwrite: work only with files: add --out DIR")
	}
	if f.Synthetic != "" && f.TraceBlock != 0 {
		f.add("--trace-block-size %d beside --synthetic, which has no hash ids", f.TraceBlock)
	}
}

// maxObject bounds a file with a JSON object, in bytes.
const maxObject = 1 << 20

// objectOf returns what the JSON object that a flag names, itself or the content of a file, makes of a base. It is the base, and false,
// where the flag names none, or a wrong one.
func objectOf[T any](f *Flags, name, text, prefix string, base T, parse func(data []byte, base T) (T, error)) (T, bool) {
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
func (f *Flags) engineOf(name, text string, base engine.Config) engine.Config {
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
func (f *Flags) shown(name, text string) string {
	return settings.Shown(f.set.Flags.Lookup(name), text)
}

// isSet reports whether something sets a setting.
func (f *Flags) isSet(name string) bool { return f.set.Flags.Lookup(name).Changed }

// addEach adds the errors that were joined, each after the name of what is wrong, in place of the prefix that it may have.
func (f *Flags) addEach(name string, err error, prefix string) {
	for _, one := range unjoin(err) {
		f.add("%s: %w", name, withoutPrefix(one, prefix))
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
	o, seen, known := &workload.SyntheticOptions{BlockSize: 1}, map[string]bool{}, strings.Fields("in out n every rate turns think shared groups")
	members := map[string]any{
		"in": &o.In, "out": &o.Out, "n": &o.Sessions, "turns": &o.Turns, "groups": &o.Groups, "every": &o.EveryMS, "rate": &o.Rate, "think": &o.ThinkMS, "shared": &o.Shared,
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		var err error
		switch to := members[name].(type) {
		case *int:
			*to, err = strconv.Atoi(value)
		case *float64:
			*to, err = strconv.ParseFloat(value, 64)
		}
		switch {
		case !ok:
			wrong("%q: want NAME=VALUE with commas between", part)
		case seen[name]:
			wrong("%s: twice", name)
		case members[name] == nil:
			errs = append(errs, jsonobject.Unknown(name, known))
		case err != nil:
			wrong("%s=%s: %w", name, value, settings.Explain(err))
		case (name == "turns" || name == "groups") && reflect.ValueOf(members[name]).Elem().IsZero():
			wrong("%s=0: want 1 or more", name)
		case name == "rate" && o.Rate == 0:
			wrong("rate=0: want a number above 0")
		}
		seen[name] = true
	}
	for _, name := range known[:3] {
		if !seen[name] {
			wrong("no %s: want in=TOKENS,out=TOKENS,n=REQUESTS", name)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return o, o.Validate() // with the engine its block size is checked
}
