package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/settings"
	replaypreset "github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/preset"
	"github.com/agentx/agentx/simulate/runs"
	"github.com/agentx/agentx/trace"
)

// simulateFlags say what is simulated, and what becomes of the result.
type simulateFlags struct {
	flags *pflag.FlagSet
	set   *settings.Set

	c       simulate.Config // that all runs have in common
	p       runs.Player     // plays them
	workers string          // N[,N...] or auto

	prefillWorkers, decodeWorkers, concurrency []int
	engines, gates                             []string
	prefillEngine, decodeEngine, routerConfig  string
	synthetic, planner, preset, config, format string
	traceBlock                                 int
	sample                                     time.Duration
	printConfig, asJSON                        bool
	profile                                    string
	force, skipInvalid, strict                 bool
	curve                                      curveFlags
	waitFlags

	stderr io.Writer
	mu     sync.Mutex

	warned map[string]bool // about lanes
	problems
}

func (f *simulateFlags) register(cmd *cobra.Command) {
	f.flags, f.c = cmd.Flags(), simulate.Default()
	f.set = settings.New(f.flags, f.tell)
	f.set.Presets = preset.Names
	f.set.Rules, f.set.Things, f.set.Missing = rules.Names(), "switch, no setting of lanes and no rule of the reconstruction", missingInSimulations
	f.set.Add(f.fleetRows()...)
	f.set.Add(f.loadRows()...)
	f.set.Add(f.resultRows()...)
	f.set.Add(f.curve.rows()...)
	f.set.Add(f.switchRows()...)
	for _, row := range settings.Replay(&f.c.Lanes.Options) {
		if slices.Contains(laneSettings, row.Name) {
			row.Group, row.Plain = settings.Lanes, true
			f.set.Add(row)
		}
	}
	f.flags.Lookup("html").NoOptDefVal = simulate.PageFile
	f.flags.StringArray("set", nil, "")
	f.set.Adopt(settings.Presets)
	f.set.Describe("set", settings.Presets, "NAME=VALUE, a setting, or a rule of the conversion of an INPUT (repeatable)")
	f.registerConversion()
	f.set.Adopt(settings.Conversions)
}

// laneSettings are the settings of a replay that lanes of a simulation have too: all that decide which turn leaves when.
var laneSettings = strings.Fields("start start-min-ratio start-max-ratio burst-start sampler-order recycle max-live-per-trace allow-wrap " +
	"speed max-gap asap asap-keeps-order think-time-only system-idle-cap trace-idle-cap lane-start-cap spawn-offset join-timing anchor tree-idle-cap trace-cap")

// missingInSimulations says of a setting of a replay that simulations do not have it.
func missingInSimulations(name string) string {
	if !settings.InReplay(name) {
		return ""
	}
	if now := replaypreset.Renamed(name); now != name {
		return name + " is " + now + ", " + missingInSimulations(now)
	}
	return "a setting of a replay that a simulation does not have: it has " + strings.Join(laneSettings, ", ")
}

// numbersKind is a list of numbers.
func numbersKind[T any](typed string, parse func(text string) (T, error)) settings.Kind {
	k := settings.List(func(text string) (list []T, err error) {
		for part := range strings.SplitSeq(text, ",") {
			n, err := parse(part)
			if err != nil {
				return nil, settings.Explain(err)
			}
			list = append(list, n)
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

// textsKind is a list of texts.
func textsKind(words ...string) settings.Kind {
	k := settings.List(func(text string) ([]string, error) { return []string{text}, nil })
	k.Words = words
	return k
}

// beginning is a text with what it may begin with.
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

func (f *simulateFlags) fleetRows() []settings.Setting {
	counts, objects := numbersKind("intSlice", strconv.Atoi), textsKind()
	objects.Files, objects.Object = objectKind().Files, objectKind().Object
	row := rowOf(settings.Fleet)
	return []settings.Setting{
		row("workers", beginning("auto\tthe fewest", "auto:"), "1", &f.workers, "workers of an aggregated fleet; N,N,... simulates each; auto[:FROM-TO] finds the fewest that keep every --gate"),
		row("prefill-workers", counts, nil, &f.prefillWorkers, "workers that compute prompts, of a disaggregated fleet; N,N,... simulates each"),
		row("decode-workers", counts, nil, &f.decodeWorkers, "workers that emit tokens, of a disaggregated fleet; N,N,... simulates each"),
		row("engine", objects, nil, &f.engines, "engine of the workers: a JSON object of keys that differ from the defaults, or a file of one; repeatable, simulates each"),
		row("prefill-engine", objectKind(), "", &f.prefillEngine, "keys in which prefill workers differ from --engine, JSON or a file"),
		row("decode-engine", objectKind(), "", &f.decodeEngine, "keys in which decode workers differ from --engine, JSON or a file"),
		row("router", settings.Word("round_robin", "kv_router\tby prefixes and load"), "round_robin", &f.c.Router, "who chooses the worker of a request: round_robin or kv_router"),
		row("router-config", objectKind(), "", &f.routerConfig, "keys of kv_router, JSON or a file"),
		row("planner", objectKind(), "", &f.planner, "planner that scales the fleet, JSON or a file"),
	}
}

func (f *simulateFlags) loadRows() []settings.Setting {
	row, level := rowOf(settings.Load), rowOf(settings.Levels)
	block := settings.Whole(0, trace.MaxBlockSize).Numeric()
	return []settings.Setting{
		row("load", settings.Word("trace\tas recorded", "concurrency\tsessions that are open", "lanes\ttrees of Weka traces"), "", &f.c.Load, "when requests leave: trace (as recorded), concurrency (a number of sessions), or lanes (trees of Weka traces); default: trace for Mooncake, lanes for Weka, concurrency where --concurrency is given"),
		row("concurrency", numbersKind("intSlice", strconv.Atoi), nil, &f.concurrency, "sessions, or lanes, that are open at a time; N,N,... simulates each"),
		row("arrival-speedup", settings.Factor, 1.0, &f.c.Speedup, "divides first arrivals and delays of load trace; engines keep their speed"),
		row("synthetic", beginning("in="), "", &f.synthetic, "load without an INPUT: in=I,out=O,n=N[,every=MS|rate=QPS][,turns=T][,think=MS][,shared=R,groups=G]"),
		row("trace-block-size", block, 0, &f.traceBlock, "tokens of a hash id (default: as the traces say)"),
		row("limit-traces", settings.Count, 0, &f.c.LimitTraces, "only the first N traces; 0: all"),
		row("limit-requests", settings.Count, 0, &f.c.LimitRequests, "no more requests leave after N; 0: no limit"),
		row("max-sim-time", settings.Span, time.Duration(0), &f.c.MaxTime, "no more requests leave after this simulated time; 0: no limit"),
		level("sla-ttft", settings.Span, time.Duration(0), &f.c.SLA.TTFT, "a good request has its first token within this time; 0: no limit"),
		level("sla-itl", settings.Span, time.Duration(0), &f.c.SLA.ITL, "a good request has at most this mean gap between tokens; 0: no limit"),
		level("sla-e2e", settings.Span, time.Duration(0), &f.c.SLA.E2E, "a good request ends within this time; 0: no limit"),
		level("gate", textsKind("ttft.p95<", "itl.p95<", "token_gap.p99<", "latency.p95<", "good>=", "reuse>"), nil, &f.gates, "status 3 unless it holds: 'ttft.p95<2s', 'token_gap.p99<50ms', 'good>=99%', 'reuse>30%' (repeatable; the shell wants quotes)"),
	}
}

func (f *simulateFlags) resultRows() []settings.Setting {
	row := rowOf(settings.Results)
	seed := settings.Kind{Want: "0 to 2^64-1", Type: "int", Tags: []string{settings.Int}, Read: func(text string) (any, bool) {
		n, err := strconv.ParseUint(text, 10, 64)
		return n, err == nil
	}}
	list := []settings.Setting{
		row("out", settings.AnyText, "", &f.p.Files.Dir, "directory of the files; of several runs, each has a directory in it"),
		row("overwrite", settings.Yes, false, &f.p.Files.Overwrite, "replace the results in the directory of --out"),
		row("per-request", settings.Yes, false, &f.p.Files.PerRequest, "also write requests.jsonl: a line of each request, in nanoseconds"),
		row("html", settings.File("html"), "", &f.p.HTML, "also write the page of the run, --html=FILE below --out or here, and beside it a log of all that it draws"),
		row("sample", settings.Span, time.Duration(0), &f.sample, "simulated time between the samples of workers on a page without --planner; 0: a thousandth of the run, at least 0.1 s"),
		row("format", settings.Word("dynamo\tkeys of its report"), "", &f.format, "also write a file of another tool: dynamo"),
		row("json", settings.Yes, false, &f.asJSON, "one JSON object: the summary, of several runs all of them"),
		row("jobs", settings.Count, 0, &f.p.Jobs, "runs that are simulated at a time (default: one per core)"),
	}
	return append(list,
		settings.Setting{Name: "preset", Group: settings.Presets, Kind: settings.Word(preset.Names...), Default: preset.Default, To: &f.preset, Help: "values of all switches: " + strings.Join(preset.Names, ", ")},
		settings.Setting{Name: "seed", Group: settings.Presets, Plain: true, Kind: seed, Default: uint64(42), To: &f.c.Seed, Help: "decides what a run draws: Poisson arrivals, groups, ties of routers; 0 to 2^64-1"},
		settings.Setting{Name: "config", Group: settings.Presets, Plain: true, Kind: settings.File("yaml", "yml"), Default: "", To: &f.config, Help: "YAML file with settings by the names of their flags"},
		settings.Setting{Name: "print-config", Group: settings.Presets, Plain: true, Kind: settings.Yes, Default: false, To: &f.printConfig,
			Help: "print every switch, and every flag that something sets, with its value and its origin; simulate nothing"})
}

// switchRows are the switches. Package preset has their names, words and values.
func (f *simulateFlags) switchRows() (rows []settings.Setting) {
	for _, name := range preset.List() {
		row := settings.Setting{Name: strings.ReplaceAll(name, "_", "-"), Group: settings.Switches, Brief: true, Kind: settings.Word(preset.Choices(name)...), Under: map[string]any{},
			Apply: func(v any) { _ = f.c.Switches.Set(name, v.(string)) }} // the kind has checked it
		for k, value := range preset.Values(name) {
			row.Under[preset.Names[k]] = value
		}
		row.Default = row.Under[preset.Default]
		rows = append(rows, row)
	}
	return rows
}

// lanesSet are the settings of lanes that something sets.
func (f *simulateFlags) lanesSet() []string {
	return slices.DeleteFunc(slices.Clone(laneSettings), func(name string) bool { return !f.set.IsSet(name) })
}

// warnLane prints what is odd about lanes; several runs say the same once.
func (f *simulateFlags) warnLane(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.warned == nil {
		f.warned = map[string]bool{}
	}
	if !f.warned[text] {
		f.warned[text] = true
		printError(f.stderr, "agentx: warning: "+text)
	}
}

// registerConversion registers the flags of a conversion that concern its tables.
func (f *simulateFlags) registerConversion() {
	var own cobra.Command
	flags := own.Flags()
	flags.StringVar(&f.profile, "profile", convert.DefaultProfile, "reconstruction rules: default (repaired), or aiperf (those of AIPerf 0.13.0)")
	flags.BoolVar(&f.force, "force", false, "build the tables again although they are there")
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "leave invalid traces out, counted and listed, instead of failing")
	flags.BoolVar(&f.strict, "strict", false, "refuse traces with oddities that otherwise cause a warning")
	f.waitFlags.register(&own)
	f.flags.AddFlagSet(flags)
}
