package main

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/preset"
)

// simulateFlags say what is simulated, and what becomes of the result.
type simulateFlags struct {
	flags *pflag.FlagSet

	workers                       string // N[,N...] or auto
	prefillWorkers, decodeWorkers []int
	engines                       []string
	prefillEngine, decodeEngine   string
	router, routerConfig          string
	load                          string
	concurrency                   []int
	speedup                       float64
	synthetic                     string
	traceBlock                    int
	limitRequests, limitTraces    int
	maxTime                       time.Duration
	planner                       string
	preset                        string
	set                           []string
	config                        string
	seed                          string
	printConfig                   bool
	slaTTFT, slaITL, slaE2E       time.Duration
	gates                         []string
	out, format                   string
	perRequest, asJSON            bool
	html                          string // FILE; empty: no page
	sample                        time.Duration
	overwrite                     bool
	jobs                          int
	profile                       string
	force, skipInvalid, strict    bool
	curve                         curveFlags
	waitFlags

	stderr io.Writer
	mu     sync.Mutex

	switches map[string]given // by name: what sets them
	lanes    *resolution      // of the settings of lanes
	warned   map[string]bool  // about lanes
	rules    []string
	gateList []simulate.Gate
	problems
}

// simulateGroups are the flags of a simulation by what they are for.
var simulateGroups = []struct{ heading, flags string }{
	{"Fleet", "workers prefill-workers decode-workers engine prefill-engine decode-engine router router-config planner"},
	{"Load and its bounds", "load concurrency arrival-speedup synthetic trace-block-size limit-traces limit-requests max-sim-time"},
	{"Lanes", "start recycle speed max-gap asap"},
	{"Service levels", "sla-ttft sla-itl sla-e2e gate"},
	{"Hit-rate curve", "hit-curve " + curveNames},
	{"Results", "out overwrite per-request html sample format json jobs"},
	{"Presets and configuration", "preset set seed config print-config"},
}

func (f *simulateFlags) register(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	f.registerFleet(f.flags)
	f.registerLoad(f.flags)
	f.registerResults(f.flags)
	registerAliases(f.flags, isLaneSetting)
	f.curve.register(f.flags)
	flags := f.flags
	flags.StringVar(&f.preset, "preset", preset.Default, "values of all switches: "+strings.Join(preset.Names, ", "))
	flags.StringArrayVar(&f.set, "set", nil, "NAME=VALUE, a switch, a setting of lanes as of agentx replay, or a rule of the conversion of an INPUT (repeatable)")
	seedVar(flags, &f.seed, "seed", "42", "decides what a run draws: Poisson arrivals, groups, ties of routers; 0 to 2^64-1")
	flags.StringVar(&f.config, "config", "", "YAML file with switches and flags by their names")
	flags.BoolVar(&f.printConfig, "print-config", false, "print every switch, and every flag that something sets, with its value and its origin; simulate nothing")
	for _, g := range simulateGroups {
		for name := range strings.FieldsSeq(g.flags) {
			flags.Lookup(name).Annotations = map[string][]string{flagGroup: {g.heading}}
		}
	}
	f.registerConversion()
	flags.VisitAll(func(one *pflag.Flag) {
		if _, list := one.Value.(pflag.SliceValue); !list && !isAlias(one) { // whose value is read with those of --set
			one.Value = checkedValue{one.Value, one.Name, one.DefValue, kind{}, &f.problems}
		}
	})
}

func (f *simulateFlags) registerFleet(flags *pflag.FlagSet) {
	flags.StringVar(&f.workers, "workers", "1", "workers of an aggregated fleet; N,N,... simulates each; auto[:FROM-TO] finds the fewest that keep every --gate")
	flags.IntSliceVar(&f.prefillWorkers, "prefill-workers", nil, "workers that compute prompts, of a disaggregated fleet; N,N,... simulates each")
	flags.IntSliceVar(&f.decodeWorkers, "decode-workers", nil, "workers that emit tokens, of a disaggregated fleet; N,N,... simulates each")
	flags.StringArrayVar(&f.engines, "engine", nil, "engine of the workers: a JSON object of keys that differ from the defaults, or a file of one; repeatable, simulates each")
	flags.StringVar(&f.prefillEngine, "prefill-engine", "", "keys in which prefill workers differ from --engine, JSON or a file")
	flags.StringVar(&f.decodeEngine, "decode-engine", "", "keys in which decode workers differ from --engine, JSON or a file")
	flags.StringVar(&f.router, "router", "round_robin", "who chooses the worker of a request: round_robin or kv_router")
	flags.StringVar(&f.routerConfig, "router-config", "", "keys of kv_router, JSON or a file")
	flags.StringVar(&f.planner, "planner", "", "planner that scales the fleet, JSON or a file")
}

func (f *simulateFlags) registerLoad(flags *pflag.FlagSet) {
	flags.StringVar(&f.load, "load", "", "when requests leave: trace (as recorded), concurrency (a number of sessions), or lanes (trees of Weka traces); default: trace for Mooncake, lanes for Weka, concurrency where --concurrency is given")
	flags.IntSliceVar(&f.concurrency, "concurrency", nil, "sessions, or lanes, that are open at a time; N,N,... simulates each")
	flags.Float64Var(&f.speedup, "arrival-speedup", 1, "divides first arrivals and delays of load trace; engines keep their speed")
	flags.StringVar(&f.synthetic, "synthetic", "", "load without an INPUT: in=I,out=O,n=N[,every=MS|rate=QPS][,turns=T][,think=MS][,shared=R,groups=G]")
	flags.IntVar(&f.traceBlock, "trace-block-size", 0, "tokens of a hash id (default: as the traces say)")
	flags.IntVar(&f.limitTraces, "limit-traces", 0, "only the first N traces; 0: all")
	flags.IntVar(&f.limitRequests, "limit-requests", 0, "no more requests leave after N; 0: no limit")
	durationVar(flags, &f.maxTime, "max-sim-time", 0, "no more requests leave after this simulated time; 0: no limit")
	durationVar(flags, &f.slaTTFT, "sla-ttft", 0, "a good request has its first token within this time; 0: no limit")
	durationVar(flags, &f.slaITL, "sla-itl", 0, "a good request has at most this mean gap between tokens; 0: no limit")
	durationVar(flags, &f.slaE2E, "sla-e2e", 0, "a good request ends within this time; 0: no limit")
	flags.StringArrayVar(&f.gates, "gate", nil, "status 3 unless it holds: 'ttft.p95<2s', 'token_gap.p99<50ms', 'good>=99%', 'reuse>30%' (repeatable; the shell wants quotes)")
}

func (f *simulateFlags) registerResults(flags *pflag.FlagSet) {
	flags.StringVar(&f.out, "out", "", "directory of the files; of several runs, each has a directory in it")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace the results in the directory of --out")
	flags.BoolVar(&f.perRequest, "per-request", false, "also write requests.jsonl: a line of each request, in nanoseconds")
	flags.StringVar(&f.html, "html", "", "also write the page of the run, --html=FILE below --out or here, and beside it a log of all that it draws")
	flags.Lookup("html").NoOptDefVal = simulate.PageFile
	durationVar(flags, &f.sample, "sample", 0, "simulated time between the samples of workers on a page without --planner; 0: a thousandth of the run, at least 0.1 s")
	flags.StringVar(&f.format, "format", "", "also write a file of another tool: dynamo")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object: the summary, of several runs all of them")
	flags.IntVar(&f.jobs, "jobs", 0, "runs that are simulated at a time (default: one per core)")
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
	flags.VisitAll(func(one *pflag.Flag) { one.Annotations = map[string][]string{flagGroup: {inputFlags}} })
	f.flags.AddFlagSet(flags)
}
