package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// payloads are the endpoints by the values of --payload.
var payloads = map[string]payload.Endpoint{
	"chat": payload.ChatCompletions, "anthropic": payload.Messages, "ids": payload.Completions, "text": payload.TextCompletions,
}

// replayFlags say what to play, how, and against which server.
type replayFlags struct {
	urls                            []string
	model, payload, apiKeyEnv, out  string
	preset, config                  string
	concurrency                     []int
	requests, trees, repeat         int
	limitTraces                     int
	maxContext                      contextLength
	duration                        time.Duration
	once, prefault                  bool
	noPreflight, noCalibrate        bool
	overwrite, stopOnFailure        bool
	printConfig, configSchema, json bool
	header, scrape                  []string
	wire                            wireFlags
	scenario                        scenarioFlags
	arrivals                        arrivalChoice
	export                          exportFlags
	listen                          listenFlag
	slo                             sloFlags
	auto                            autoFlags
	until                           untilFlags
	part                            partFlags

	flags *pflag.FlagSet
	problems
}

func (f *replayFlags) register(cmd *cobra.Command) {
	f.wire.register(cmd)
	f.scenario.register(cmd)
	flags := cmd.Flags()
	f.flags = flags
	registerAliases(flags, nil)
	flags.StringVar(&f.preset, "preset", preset.Default, "values of all switches: default, faithful to the recording; aiperf-0.13, as AIPerf 0.13.0; agentx-1.0.12, as agentx-harness 1.0.12")
	flags.StringVar(&f.config, "config", "", "YAML file with switches and options by their names, and flags by theirs (doc/replay.md)")
	flags.BoolVar(&f.printConfig, "print-config", false, "print every switch and option with its value and its origin, as --config takes them, and send nothing")
	flags.BoolVar(&f.configSchema, "config-schema", false, "print the JSON schema of --config, and send nothing")
	flags.StringArrayVar(&f.urls, "url", nil, "server, such as http://127.0.0.1:8000; also with /v1, or with the endpoint, /v1/chat/completions (repeatable, or with commas: trees are dealt to the servers in turn, and each stays on one)")
	flags.StringVar(&f.model, "model", "", "name of the model to ask for")
	f.concurrency = []int{replay.DefaultConcurrency}
	f.auto.register(flags)
	flags.Var(lanes{counts{&f.concurrency}, &f.auto}, "concurrency", "lanes: trees played at a time, or with --arrivals recorded or rate the most that are open at a time; several numbers with commas between: one run each; auto or auto:FROM-TO: search for the most that keep every --slo on the run")
	flags.Bool(allowFailures, false, "a run that broke ends with status 0: over 10 % of its requests failed, a server went away, or none answered in the last minute")
	flags.BoolVar(&f.stopOnFailure, "stop-on-failure", false, "with several numbers of --concurrency, or --repeat: a run that fails or is not valid ends the list")
	flags.IntVar(&f.repeat, "repeat", 1, "play the same this many times, with a directory for each, and print the mean of each figure with its interval over the runs")
	durationVar(flags, &f.duration, "duration", 0, "stop sending after this time; the first bound that is reached ends the run")
	flags.IntVar(&f.requests, "requests", 0, "stop after this many requests")
	flags.IntVar(&f.trees, "trees", 0, "stop after this many trees")
	flags.BoolVar(&f.once, "once", false, "play every trace at most once (the default without another bound)")
	flags.StringVar(&f.payload, "payload", "chat", "chat: messages to /v1/chat/completions; anthropic: messages to /v1/messages; ids: token ids to /v1/completions; text: one text to /v1/completions")
	flags.StringArrayVar(&f.header, "header", nil, "NAME:VALUE, a header of every request (repeatable)")
	flags.StringVar(&f.apiKeyEnv, "api-key-env", "", "environment variable that holds the API key")
	flags.StringArrayVar(&f.scrape, "scrape", nil, "page of Prometheus metrics that is read beside the run (repeatable, or with commas); off: none (default: /metrics of each server, if it has one)")
	flags.BoolVar(&f.prefault, "prefault", false, "read the whole cache into memory before the first request")
	flags.IntVar(&f.limitTraces, "limit-traces", 0, "play only this many traces, the first; 0: all")
	flags.Var(&f.maxContext, "max-context", "play only traces whose requests all fit a context of this many tokens: prompt, completion, marker, and the chat template of one message; server: of as many as the server tells (max_model_len, n_ctx); 0: all")
	flags.BoolVar(&f.noPreflight, "no-preflight", false, "do not ask the server for its models, nor for one token, before the run")
	flags.BoolVar(&f.noCalibrate, "no-calibrate", false, "do not measure for 2 s before the run what this machine reaches alone; runs of less than 20 s or 1,000 requests do without, too")
	flags.StringVar(&f.out, "out", "", "directory for the results (default: agentx-results/TIME, with a number if that exists)")
	flags.BoolVar(&f.overwrite, "overwrite", false, "remove results that --out has already")
	f.part.register(flags)
	f.until.register(flags)
	f.slo.register(flags, "the summary says how much meets them (doc/report.md)")
	flags.StringVar(&f.listen.address, "listen", "", "HOST:PORT on which to serve the page of the run while it is played, /metrics for Prometheus and /status; without a host for this machine alone; port 0: one that is free")
	f.export.register(flags, "report", "files to write beside the results at the end, with commas between: html, aiperf, json, csv, parquet (agentx help report)")
}

// options resolves the flags and applies the values of switches and options; the caller opens the cache. What is wrong is
// added to the problems.
func (f *replayFlags) options(r *resolution) (o replay.Options) {
	o.Model, o.Concurrency, o.Traces, o.MaxContext = f.model, f.concurrency[0], f.limitTraces, int(f.maxContext)
	o.Duration, o.Requests, o.Trees, o.Once = f.duration, f.requests, f.trees, f.once
	o.Out, o.Overwrite, o.SkipPreflight = f.out, f.overwrite, f.noPreflight
	o.Endpoint = payloads[f.payload]
	if o.MaxContext == replay.ServerContext && o.SkipPreflight {
		f.add("%s: the preflight asks the server for its context, and --no-preflight leaves that out: want one of the two, or a number of tokens", f.named("max-context"))
	}
	f.applyServers(&o)
	f.wire.apply(&o, &f.problems)
	f.applyHeader(&o)
	f.applyScrape(&o)
	f.applyPart(&o)
	f.applyOut(&o)
	if err := f.listen.check(); err != nil {
		f.add("%s: %w", f.named("listen"), err)
	}
	f.errs = append(f.errs, f.export.check(replayFormats)...)
	levels, errs := f.slo.conditions()
	o.SLO, f.errs = levels, append(f.errs, errs...)
	r.apply(&o)
	if err := o.TLS.Validate(); err != nil {
		f.add("%s: %w", f.named("ca-file"), err)
	}
	f.applyUntil(r, &o)
	f.chooseCalibration(r, &o)
	r.chooseRetryAfter(&o)
	return o
}

// chooseRetryAfter notes for the results what a throttled request becomes, where nothing says so.
func (r *resolution) chooseRetryAfter(o *replay.Options) {
	chosen := r.values["RetryAfter"]
	for name, mode := range retries {
		if chosen.from.kind == fromDefault && mode == o.Throttling() {
			chosen.value = name
		}
	}
	r.values["RetryAfter"] = chosen
}

// A run that is known to be shorter is not calibrated, unless that is asked for.
const (
	calibratedFrom         = 20 * time.Second
	calibratedFromRequests = 1000
)

// chooseCalibration decides whether the machine is calibrated before the run. Of --no-calibrate and a value of Calibrate the one
// counts that has the last word.
func (f *replayFlags) chooseCalibration(r *resolution, o *replay.Options) {
	rank := func(from origin) int { return slices.Index(precedence, from.kind) }
	chosen, flag := r.values["Calibrate"], originOf(f.flags.Lookup("no-calibrate"))
	switch {
	case f.noCalibrate && o.Calibrate && rank(flag) == rank(chosen.from):
		f.add("%s: it contradicts Calibrate=true of %s", f.named("no-calibrate"), chosen.from.at)
	case f.noCalibrate && rank(flag) > rank(chosen.from):
		o.Calibrate, chosen.from = false, flag
	case chosen.from.kind == fromDefault:
		o.Calibrate = (o.Duration == 0 || o.Duration >= calibratedFrom) && (o.Requests == 0 || o.Requests >= calibratedFromRequests)
	}
	chosen.value = o.Calibrate // which the results list among the options
	r.values["Calibrate"] = chosen
}

// named returns a flag as the user wrote it.
func (f *replayFlags) named(flag string) string { return named(f.flags.Lookup(flag)) }

// applyServers resolves --url and --model. Messages leave URLs out: they may hold a password.
func (f *replayFlags) applyServers(o *replay.Options) {
	for _, list := range f.urls {
		o.URLs = append(o.URLs, strings.Split(list, ",")...)
	}
	if strings.Join(o.URLs, "") == "" {
		o.URLs = nil
	}
	if len(o.URLs) == 0 && !f.printConfig {
		f.errs = append(f.errs, hintError{usageError{errors.New("--url: say which server to send to")}, "agentx mock serves one without a model"})
	}
	for _, server := range o.URLs {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			f.add("%s: want http://HOST:PORT or https://HOST", f.named("url"))
		} else if _, err := wire.New(server, wire.Options{}); err != nil {
			f.add("%s: %w", f.named("url"), err)
		}
	}
	if f.model == "" && !f.printConfig {
		f.add("--model: say which model to ask for")
	}
}

// applyHeader resolves --header and --api-key-env.
func (f *replayFlags) applyHeader(o *replay.Options) {
	for _, h := range f.header {
		name, value, ok := strings.Cut(h, ":")
		field := wire.HeaderField{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if !ok {
			f.add("%s: a field without a colon: want NAME:VALUE", f.named("header")) // it may be a secret
		} else if err := field.Validate(); err != nil {
			f.add("%s: %w", f.named("header"), err)
		}
		o.Header = append(o.Header, field)
	}
	if f.apiKeyEnv == "" {
		return
	}
	if o.APIKey = os.Getenv(f.apiKeyEnv); o.APIKey == "" {
		f.add("%s %s: that variable is not set", f.named("api-key-env"), f.apiKeyEnv)
	} else if _, err := wire.New("http://localhost", wire.Options{APIKey: o.APIKey}); err != nil {
		f.add("%s %s: %w", f.named("api-key-env"), f.apiKeyEnv, err)
	}
}

// applyScrape resolves --scrape.
func (f *replayFlags) applyScrape(o *replay.Options) {
	for _, list := range f.scrape {
		for page := range strings.SplitSeq(list, ",") {
			switch {
			case page == "off":
				o.Scrape.Off = true
			case page != "":
				o.Scrape.Pages = append(o.Scrape.Pages, page)
			}
		}
	}
	if o.Scrape.Off && len(o.Scrape.Pages) > 0 {
		f.add("%s: off, and a page: want one of the two", f.named("scrape"))
	}
	if err := (replay.Scrape{Pages: o.Scrape.Pages}).Validate(); err != nil {
		f.add("%s: %w", f.named("scrape"), err)
	}
}

// applyOut resolves --out. Without it the results go to a new directory named by the time.
func (f *replayFlags) applyOut(o *replay.Options) {
	if o.Out == "" {
		o.Out, o.UniqueOut = filepath.Join("agentx-results", time.Now().Format("20060102-150405")), true
		return
	}
	dir := o.Out
	if o.Part.IsSet() {
		dir = filepath.Join(o.Out, o.Part.Dir())
	} else if f.part.value.auto {
		return // which part this is is not known, and so is its directory
	} else if err := o.Part.CheckOut(o.Out); err != nil {
		f.add("%s %w", f.named("out"), err)
		return // --overwrite removes no parts
	}
	err := replay.CheckResultsDir(dir)
	if l, several := f.list(o); several && !o.Part.IsSet() {
		err = l.CheckDir(o.Out)
	}
	if err != nil && !o.Overwrite {
		f.errs = append(f.errs, hintReplay(err))
	}
}

// chooseMarker chooses the marker of a run without --marker, and warns where that is none.
func (r *resolution) chooseMarker(cmd *cobra.Command, o *replay.Options) {
	chosen := r.values["Marker"]
	if chosen.from.kind != fromDefault {
		return
	}
	o.Marker = o.Marker.Resolve(o.Cache)
	chosen.value = o.Marker.String() // which the results list among the options
	r.values["Marker"] = chosen
	if quiet, _ := cmd.Flags().GetBool("quiet"); o.Marker == payload.NoMarker && !quiet {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: no cache-bust marker: %s traces share blocks, and a marker would end that (--marker sets one)", groupDigits(o.Cache.SharedTraces())))
	}
}
