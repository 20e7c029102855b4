// Package setup makes of what a command line, a file and the environment say the runs of a simulation: doc/spec/simulate.md 0.
//
// [Flags] have a row of package settings for each thing that can be said. Once these are resolved, [Flags.Plan] makes the runs of all
// combinations, or the search for the fewest workers, [Flags.Check] and [Flags.Validate] tell everything that is wrong with them, and
// [Flags.Play] simulates them and prints the results, or the curves of hit rates.
package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/cmd/internal/simulate/runs"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/trace"
)

// Flags say what is simulated, and what becomes of the result.
type Flags struct {
	Config      simulate.Config // that all runs have in common
	Player      runs.Player     // plays them
	Synthetic   string
	TraceBlock  int
	PrintConfig bool
	RunDir      string // results of a replay that are simulated, or fitted; "": an input is
	Date        string // of the pages
	JSON        bool
	Stderr      io.Writer // for warnings
	Quiet       bool      // no progress

	set   *settings.Set
	tell  func(err error, hint string)
	told  map[string]bool // errors and warnings
	mu    sync.Mutex      // of told
	wrong bool            // an error was told

	runs  []*runs.Run
	sized *interval // nil: nothing is searched

	workers                                    string // N[,N...] or auto
	prefillWorkers, decodeWorkers, concurrency []int
	engines, gates                             []string
	prefillEngine, decodeEngine, routerConfig  string
	timing, planner, preset, config, format    string
	sample                                     time.Duration
	fit                                        bool
	curve                                      curveFlags
}

// Register makes a flag of each row, and of those of a conversion, whose rules --set takes besides. Everything that is wrong is told, with
// what to try or "".
func (f *Flags) Register(flags, conversion *pflag.FlagSet, rules []string, tell func(err error, hint string)) {
	f.tell, f.told, f.Config = tell, map[string]bool{}, simulate.Default()
	f.set = settings.New(flags, f.refuse, slices.Concat(f.fleetRows(), f.loadRows(), f.resultRows(), f.curve.rows(), f.switchRows())...)
	f.set.Presets, f.set.Rules = preset.Names, rules
	f.set.Things, f.set.Missing = "switch, no setting of lanes and no rule of the reconstruction", settings.MissingBeside(laneSettings)
	for _, row := range settings.Replay(&f.Config.Lanes.Options) {
		if slices.Contains(laneSettings, row.Name) {
			row.Group, row.Plain = settings.Lanes, true
			f.set.Add(row)
		}
	}
	flags.Lookup("html").NoOptDefVal = simulate.PageFile
	flags.StringArray("set", nil, "")
	f.set.Adopt(settings.Presets)
	f.set.Describe("set", settings.Presets, "NAME=VALUE, a setting, or a rule of the conversion of an INPUT (repeatable)")
	flags.AddFlagSet(conversion)
	f.set.Adopt(settings.Conversions)
}

// Print prints the configuration.
func (f *Flags) Print(w io.Writer) error { return f.set.Print(w, f.JSON) }

// Rules returns NAME=VALUE for each rule of the conversion that is set.
func (f *Flags) Rules() []string { return f.set.Ruled }

// laneSettings are the settings of a replay that lanes of a simulation have too: all that decide which turn leaves when.
var laneSettings = strings.Fields("start start-min-ratio start-max-ratio burst-start sampler-order recycle max-live-per-trace allow-wrap " +
	"speed max-gap asap asap-keeps-order think-time-only system-idle-cap trace-idle-cap lane-start-cap spawn-offset join-timing anchor tree-idle-cap trace-cap")

// counts reads a number, or those of FROM..TO: each twice the one before, and TO.
func counts(text string) (list []int, err error) {
	first, last, several := strings.Cut(text, "..")
	n, err := strconv.Atoi(first)
	if err != nil || !several {
		return []int{n}, err
	}
	to, err := strconv.Atoi(last)
	if err == nil && (n < 1 || to <= n) {
		err = fmt.Errorf("want FROM..TO with 1 <= FROM < TO, such as 8..512")
	}
	if err != nil {
		return nil, err
	}
	for ; n < to; n *= 2 {
		list = append(list, n)
	}
	return append(list, to), nil
}

// numbersKind is the kind of a list of numbers with commas between them, of a flag's type.
func numbersKind[T any](typed string, parse func(text string) ([]T, error)) settings.Kind {
	k := settings.List(func(text string) (list []T, err error) {
		for part := range strings.SplitSeq(text, ",") {
			n, err := parse(part)
			if err != nil {
				return nil, settings.Explain(err)
			}
			list = append(list, n...)
		}
		return list, nil
	})
	k.Type, k.Want, k.Tags = typed, "a number", []string{settings.Int, settings.Float, settings.Text}
	return k
}

// objectKind is a JSON object, or the name of a file of one. In a file it may also be an object.
func objectKind() settings.Kind {
	k := settings.AnyText
	k.Files = []string{"json"}
	k.Object = func(n *yaml.Node) (string, error) {
		var object map[string]any
		if err := n.Decode(&object); err != nil {
			why := strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n  ") // line 3: ...
			return "", errors.New(strings.ReplaceAll(why, "\n  ", "; "))
		}
		data, err := json.Marshal(object)
		return string(data), err
	}
	return k
}

// textsKind is the kind of a flag that is repeated, with words that completions offer.
func textsKind(words ...string) settings.Kind {
	k := settings.List(func(text string) ([]string, error) { return []string{text}, nil })
	k.Words = words
	return k
}

// beginning is the kind of a text that may begin with one of some words, which completions offer.
func beginning(words ...string) settings.Kind {
	k := settings.AnyText
	k.Words, k.Tags = words, []string{settings.Int, settings.Text}
	return k
}

// rowOf makes settings of a group that stand in files as flags do.
func rowOf(group string) func(name string, k settings.Kind, value, to any, help string) settings.Setting {
	return func(name string, k settings.Kind, value, to any, help string) settings.Setting {
		return settings.Setting{Name: name, Group: group, Plain: true, Kind: k, Default: value, To: to, Help: help}
	}
}

// fleetRows returns the settings of workers, engines, router and planner.
func (f *Flags) fleetRows() []settings.Setting {
	numbers, objects := numbersKind("intSlice", counts), textsKind()
	objects.Files, objects.Object = objectKind().Files, objectKind().Object
	row := rowOf(settings.Fleet)
	return []settings.Setting{
		row("workers", beginning("auto\tthe fewest", "auto:"), "1", &f.workers, "workers of an aggregated fleet; N,N,... simulates each; auto[:FROM-TO] finds the fewest that keep every --gate"),
		row("prefill-workers", numbers, nil, &f.prefillWorkers, "workers that compute prompts, of a disaggregated fleet; N,N,... simulates each"),
		row("decode-workers", numbers, nil, &f.decodeWorkers, "workers that emit tokens, of a disaggregated fleet; N,N,... simulates each"),
		row("engine", objects, nil, &f.engines, "engine of the workers: a JSON object of keys that differ from the defaults, or a file of one; repeatable, simulates each"),
		row("timing", beginning("poly\tbelongs to no GPU", "table:", "aic:"), "", &f.timing, "durations of passes, in place of timing of the engines: poly, table:FILE (.npz or JSON), aic:FILE (of contrib/aic/grid.py)"),
		row("prefill-engine", objectKind(), "", &f.prefillEngine, "keys in which prefill workers differ from --engine, JSON or a file"),
		row("decode-engine", objectKind(), "", &f.decodeEngine, "keys in which decode workers differ from --engine, JSON or a file"),
		row("fit", settings.Yes, false, &f.fit, "fit an engine to a RUN, print how far off it is, and write it to fit.json in --out or RUN"),
		row("extrapolate", settings.Yes, false, &f.Player.Extrapolate, "accept answers of a fitted engine far from the passes that it was fitted to"),
		row("router", settings.Word("round_robin", "kv_router\tby prefixes and load"), "round_robin", &f.Config.Router, "who chooses the worker of a request: round_robin or kv_router"),
		row("router-config", objectKind(), "", &f.routerConfig, "keys of kv_router, JSON or a file"),
		row("planner", objectKind(), "", &f.planner, "planner that scales the fleet, JSON or a file"),
	}
}

// loadRows returns the settings of what is played, and of what a good request keeps.
func (f *Flags) loadRows() []settings.Setting {
	row, level := rowOf(settings.Load), rowOf(settings.Levels)
	block := settings.Whole(0, trace.MaxBlockSize).Numeric()
	return []settings.Setting{
		row("load", settings.Word("trace\tas recorded", "concurrency\tsessions that are open", "lanes\ttrees of Weka traces"), "", &f.Config.Load, "when requests leave: trace (as recorded), concurrency (a number of sessions), or lanes (trees of Weka traces); default: trace for Mooncake rows and tables, lanes for others, concurrency where --concurrency is given"),
		row("concurrency", numbersKind("intSlice", counts), nil, &f.concurrency, "sessions, or lanes, that are open at a time; N,N,... simulates each; FROM..TO doubles"),
		row("arrival-speedup", settings.Factor, 1.0, &f.Config.Speedup, "divides first arrivals and delays of load trace; engines keep their speed"),
		row("synthetic", beginning("in="), "", &f.Synthetic, "load without an INPUT: in=I,out=O,n=N[,every=MS|rate=QPS][,turns=T][,think=MS][,shared=R,groups=G]"),
		row("trace-block-size", block, 0, &f.TraceBlock, "tokens of a hash id (default: as the traces say)"),
		row("limit-traces", settings.Count, 0, &f.Config.LimitTraces, "only the first N traces; 0: all"),
		row("limit-requests", settings.Count, 0, &f.Config.LimitRequests, "no more requests leave after N; 0: no limit"),
		row("max-sim-time", settings.Span, time.Duration(0), &f.Config.MaxTime, "no more requests leave after this simulated time; 0: no limit"),
		level("sla-ttft", settings.Span, time.Duration(0), &f.Config.SLA.TTFT, "a good request has its first token within this time; 0: no limit"),
		level("sla-itl", settings.Span, time.Duration(0), &f.Config.SLA.ITL, "a good request has at most this mean gap between tokens; 0: no limit"),
		level("sla-e2e", settings.Span, time.Duration(0), &f.Config.SLA.E2E, "a good request ends within this time; 0: no limit"),
		level("gate", textsKind("ttft.p95<", "itl.p95<", "token_gap.p99<", "latency.p95<", "good>=", "reuse>"), nil, &f.gates, "status 3 unless it holds: 'ttft.p95<2s', 'token_gap.p99<50ms', 'good>=99%', 'reuse>30%' (repeatable; the shell wants quotes)"),
	}
}

// resultRows returns the settings of files, output, seed and configuration.
func (f *Flags) resultRows() []settings.Setting {
	row := rowOf(settings.Results)
	seed := settings.Kind{Want: "0 to 2^64-1", Type: "int", Tags: []string{settings.Int}, Read: func(text string) (any, bool) {
		n, err := strconv.ParseUint(text, 10, 64)
		return n, err == nil
	}}
	list := []settings.Setting{
		row("out", settings.AnyText, "", &f.Player.Files.Dir, "directory of the files; of several runs, each has a directory in it"),
		row("overwrite", settings.Yes, false, &f.Player.Files.Overwrite, "replace the results in the directory of --out"),
		row("per-request", settings.Yes, false, &f.Player.Files.PerRequest, "also write requests.jsonl: a line of each request, in nanoseconds"),
		row("html", settings.File("html"), "", &f.Player.HTML, "also write the page of the run, --html=FILE below --out or here, and beside it a log of all that it draws"),
		row("date", settings.AnyText, "", &f.Date, "date that pages show; without it they show none, so that equal commands make equal pages"),
		row("sample", settings.Span, time.Duration(0), &f.sample, "simulated time between the samples of workers on a page without --planner; 0: a thousandth of the run, at least 0.1 s"),
		row("format", settings.Word("dynamo\tkeys of its report"), "", &f.format, "also write a file of another tool: dynamo"),
		row("json", settings.Yes, false, &f.JSON, "one JSON object: the summary, of several runs all of them"),
		row("jobs", settings.Count, 0, &f.Player.Jobs, "runs that are simulated at a time (default: one per core)"),
	}
	return append(list,
		settings.Setting{Name: "preset", Group: settings.Presets, Kind: settings.Word(preset.Names...), Default: preset.Default, To: &f.preset, Help: "values of all switches: " + strings.Join(preset.Names, ", ")},
		settings.Setting{Name: "seed", Group: settings.Presets, Plain: true, Kind: seed, Default: uint64(42), To: &f.Config.Seed, Help: "decides what a run draws: Poisson arrivals, groups, ties of routers; 0 to 2^64-1"},
		settings.Setting{Name: "config", Group: settings.Presets, Plain: true, Kind: settings.File("yaml", "yml"), Default: "", To: &f.config, Help: "YAML file with settings by the names of their flags"},
		settings.Setting{Name: "print-config", Group: settings.Presets, Plain: true, Kind: settings.Yes, Default: false, To: &f.PrintConfig,
			Help: "print every switch, and every flag that something sets, with its value and its origin; simulate nothing"})
}

// switchRows are the switches. Package preset has their names, words and values.
func (f *Flags) switchRows() (rows []settings.Setting) {
	for _, name := range preset.List() {
		row := settings.Setting{Name: strings.ReplaceAll(name, "_", "-"), Group: settings.Switches, Brief: true, Kind: settings.Word(preset.Choices(name)...), Under: map[string]any{},
			Apply: func(v any) { _ = f.Config.Switches.Set(name, v.(string)) }} // the kind has checked it
		for k, value := range preset.Values(name) {
			row.Under[preset.Names[k]] = value
		}
		row.Default = row.Under[preset.Default]
		rows = append(rows, row)
	}
	return rows
}

// lanesSet are the settings of lanes that something sets.
func (f *Flags) lanesSet() []string {
	return slices.DeleteFunc(slices.Clone(laneSettings), func(name string) bool { return !f.set.IsSet(name) })
}

// Warn prints what is odd about a run; several runs say the same once.
func (f *Flags) warn(text string) {
	if f.first("warning: " + text) {
		terminal.Say(f.Stderr, "agentx: warning: "+text)
	}
}

// first reports whether a text was not told before, and notes it.
func (f *Flags) first(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.told[text]
	f.told[text] = true
	return !known
}

// refuse tells an error, once.
func (f *Flags) refuse(err error, hint string) {
	if f.wrong = true; f.first(err.Error()) {
		f.tell(err, hint)
	}
}

// add tells what is wrong with a flag.
func (f *Flags) add(format string, args ...any) { f.refuse(fmt.Errorf(format, args...), "") }

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
		f.add("--trace-block-size %d beside --synthetic, which has no hash ids: leave one of them out", f.TraceBlock)
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

// timed returns an engine with the durations that --timing says, else as it is.
func (f *Flags) timed(c engine.Config) engine.Config {
	kind, file, _ := strings.Cut(f.timing, ":")
	switch {
	case f.timing == "":
	case f.timing == "poly":
		c.Timing, c.Fit = engine.Source{}, nil
	case (kind == "table" || kind == "aic") && file != "":
		c.Timing, c.Fit = engine.Source{Table: file}, nil
	default:
		f.add("%s: want poly, table:FILE or aic:FILE", f.shown("timing", f.timing))
	}
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
			wrong("%s is given twice", name)
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
