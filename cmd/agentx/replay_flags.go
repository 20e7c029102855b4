package main

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

// replayFlags say what to play, how, and against which server.
type replayFlags struct {
	urls                                   []string
	model, payload, marker, apiKeyEnv, out string
	start                                  string
	concurrency, requests, trees           int
	limitTraces, maxContext                int
	duration, grace, maxGap, timeout       time.Duration
	speed, failedThreshold                 float64
	asap, once, prefault, noPreflight      bool
	overwrite, resetCache                  bool
	waitReady                              time.Duration
	header                                 []string
	wire                                   wireFlags
}

func (f *replayFlags) register(cmd *cobra.Command) {
	f.wire.register(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.urls, "url", nil, "server, such as http://127.0.0.1:8000; also with /v1, or with the endpoint, /v1/chat/completions (repeatable, or with commas: trees are dealt to the servers in turn, and each stays on one)")
	flags.StringVar(&f.model, "model", "", "name of the model to ask for")
	flags.IntVar(&f.concurrency, "concurrency", replay.DefaultConcurrency, "lanes: trees played at a time")
	durationVar(flags, &f.duration, "duration", 0, "stop sending after this time; the first bound that is reached ends the run")
	flags.IntVar(&f.requests, "requests", 0, "stop after this many requests")
	flags.IntVar(&f.trees, "trees", 0, "stop after this many trees")
	flags.BoolVar(&f.once, "once", false, "play every trace at most once (the default without another bound)")
	durationVar(flags, &f.grace, "grace", replay.DefaultGrace, "how long requests in flight may go on after --duration or an interrupt")
	durationVar(flags, &f.timeout, "timeout", replay.DefaultTimeout, "longest time of one request")
	flags.Float64Var(&f.failedThreshold, "max-error-rate", 0, "end the run when more than this share of requests has failed, 0 to 1, from the 10th ended request on, or one on each lane; 0: no limit")
	flags.StringVar(&f.start, "start", "zero", "where lanes begin in their first traces: zero, at the first turn; sampled, at an instant drawn from --seed, trace and lane")
	flags.Float64Var(&f.speed, "speed", 1, "divide recorded gaps by this")
	durationVar(flags, &f.maxGap, "max-gap", 0, "shorten gaps to this, after --speed; 0: no limit")
	flags.BoolVar(&f.asap, "asap", false, "no gaps: send every turn as soon as the one before is answered")
	flags.StringVar(&f.marker, "marker", "", "unique text in every tree, so that no tree hits what another one left in the prefix cache: first_turn_prefix or first_turn_suffix, before or after the first user message; system_prefix or system_suffix, before or after the system prompt; off (default: first_turn_prefix, or off where traces share blocks)")
	flags.StringVar(&f.payload, "payload", "chat", "chat: messages to /v1/chat/completions; ids: token ids to /v1/completions")
	flags.StringArrayVar(&f.header, "header", nil, "NAME:VALUE, a header of every request (repeatable)")
	flags.StringVar(&f.apiKeyEnv, "api-key-env", "", "environment variable that holds the API key")
	flags.BoolVar(&f.prefault, "prefault", false, "read the whole cache into memory before the first request")
	flags.IntVar(&f.limitTraces, "limit-traces", 0, "play only this many traces, the first; 0: all")
	flags.IntVar(&f.maxContext, "max-context", 0, "play only traces whose requests all fit a context of this many tokens: prompt, completion, marker, and the chat template of one message; 0: all")
	flags.BoolVar(&f.noPreflight, "no-preflight", false, "do not ask the server for its models, nor for one token, before the run")
	durationVar(flags, &f.waitReady, "wait-ready", 0, "wait until every server serves the model, for this long at most; 0: do not wait")
	flags.BoolVar(&f.resetCache, "reset-cache", false, "empty the prefix cache of every server before the run (POST /reset_prefix_cache)")
	flags.StringVar(&f.out, "out", "", "directory for the results (default: agentx-results/TIME, with a number if that exists)")
	flags.BoolVar(&f.overwrite, "overwrite", false, "remove results that --out has already")
}

// defaultReplay returns the options that no flag sets, before --set.
func defaultReplay() replay.Options {
	s, _ := preset.Named(preset.Default)
	return replay.Options{
		Start:    replay.Start{Ratios: &resume.Ratios{Min: replay.DefaultMinRatio, Max: replay.DefaultMaxRatio}},
		Limits:   replay.Limits{LaneStart: replay.DefaultLaneStart},
		Switches: &s,
		Backoff:  replay.Backoff{First: replay.DefaultBackoffFirst, Max: replay.DefaultBackoffMax},

		Readiness:  replay.Readiness{Interval: replay.DefaultReadyInterval},
		CacheReset: replay.CacheReset{Path: replay.DefaultResetPath, Timeout: replay.DefaultResetTimeout},
	}
}

// options resolves the flags; the caller opens the cache. Errors are usage errors.
func (f *replayFlags) options() (replay.Options, error) {
	o := defaultReplay()
	o.Model, o.Concurrency, o.Traces, o.MaxContext = f.model, f.concurrency, f.limitTraces, f.maxContext
	o.Readiness.Timeout, o.CacheReset.Enabled = f.waitReady, f.resetCache
	o.Pace = replay.Pace{Speed: f.speed, MaxGap: f.maxGap, ASAP: f.asap}
	o.Start.Sampled = f.start == "sampled"
	o.Duration, o.Requests, o.Trees, o.Once = f.duration, f.requests, f.trees, f.once
	o.Grace, o.Timeout, o.FailedRequestThreshold = f.grace, f.timeout, f.failedThreshold
	o.Out, o.Overwrite, o.SkipPreflight = f.out, f.overwrite, f.noPreflight
	for _, apply := range []func(*replay.Options) error{f.applyServers, f.checkNumbers, f.applyNames, f.wire.apply, f.applyHeader, f.applyOut} {
		if err := apply(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// applyServers resolves --url and --model. Messages leave URLs out: they may hold a password.
func (f *replayFlags) applyServers(o *replay.Options) error {
	for _, list := range f.urls {
		o.URLs = append(o.URLs, strings.Split(list, ",")...)
	}
	if strings.Join(o.URLs, "") == "" {
		return hintError{usageError{errors.New("--url: say which server to send to")}, "agentx mock serves one without a model"}
	}
	for _, server := range o.URLs {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usageError{errors.New("--url: want http://HOST:PORT or https://HOST")}
		}
		if _, err := wire.New(server, wire.Options{}); err != nil {
			return usageError{fmt.Errorf("--url: %w", err)}
		}
	}
	if f.model == "" {
		return usageError{errors.New("--model: say which model to ask for")}
	}
	return nil
}

func (f *replayFlags) checkNumbers(*replay.Options) error {
	switch {
	case f.concurrency < 1 || f.concurrency > replay.MaxConcurrency:
		return usageError{fmt.Errorf("--concurrency %d: want 1 to %d", f.concurrency, replay.MaxConcurrency)}
	case f.timeout <= 0:
		return usageError{fmt.Errorf("--timeout %v: want more than 0", f.timeout)}
	case f.duration < 0 || f.requests < 0 || f.trees < 0 || f.grace < 0 || f.maxGap < 0 || f.limitTraces < 0 || f.maxContext < 0 || f.waitReady < 0:
		return usageError{errors.New("--duration, --requests, --trees, --grace, --max-gap, --limit-traces, --max-context, --wait-ready: want no negative value")}
	case !(f.speed > 0) || math.IsInf(f.speed, 1):
		return hintError{usageError{fmt.Errorf("--speed %g: want a number above 0", f.speed)}, "--asap leaves out all gaps"}
	case !(f.failedThreshold >= 0 && f.failedThreshold <= 1):
		return usageError{fmt.Errorf("--max-error-rate %g: want 0 to 1", f.failedThreshold)}
	}
	return nil
}

// applyNames resolves the flags that take a name: --start, --marker, --payload.
func (f *replayFlags) applyNames(o *replay.Options) (err error) {
	if f.start != "zero" && f.start != "sampled" {
		return usageError{fmt.Errorf("--start %s: want zero or sampled", f.start)}
	}
	if o.Marker, err = payload.ParseMarkerTarget(f.marker); err != nil && f.marker != "" {
		return usageError{fmt.Errorf("--marker %s: %w", f.marker, err)}
	}
	switch f.payload {
	case "chat":
		o.Endpoint = payload.ChatCompletions
	case "ids":
		o.Endpoint = payload.Completions
	default:
		return usageError{fmt.Errorf("--payload %s: want chat or ids", f.payload)}
	}
	return nil
}

// applyHeader resolves --header and --api-key-env.
func (f *replayFlags) applyHeader(o *replay.Options) error {
	for _, h := range f.header {
		name, value, ok := strings.Cut(h, ":")
		field := wire.HeaderField{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if !ok {
			return usageError{fmt.Errorf("--header %s: want NAME:VALUE", name)}
		}
		if err := field.Validate(); err != nil {
			return usageError{fmt.Errorf("--header: %w", err)}
		}
		o.Header = append(o.Header, field)
	}
	if f.apiKeyEnv == "" {
		return nil
	}
	if o.APIKey = os.Getenv(f.apiKeyEnv); o.APIKey == "" {
		return usageError{fmt.Errorf("--api-key-env %s: that variable is not set", f.apiKeyEnv)}
	}
	if _, err := wire.New(o.URLs[0], wire.Options{APIKey: o.APIKey}); err != nil {
		return usageError{fmt.Errorf("--api-key-env %s: %w", f.apiKeyEnv, err)}
	}
	return nil
}

// applyOut resolves --out. Without it the results go to a new directory named by the time.
func (f *replayFlags) applyOut(o *replay.Options) error {
	if o.Out == "" {
		o.Out, o.UniqueOut = filepath.Join("agentx-results", time.Now().Format("20060102-150405")), true
	} else if err := replay.CheckResultsDir(o.Out); err != nil && !o.Overwrite {
		return hintReplay(err)
	}
	return nil
}

// chooseMarker chooses the marker of a run without --marker, and warns where that is none.
func (f *replayFlags) chooseMarker(cmd *cobra.Command, o *replay.Options) {
	if f.marker != "" {
		return
	}
	o.Marker = o.Marker.Resolve(o.Cache)
	f.marker = o.Marker.String() // which the results list among the options
	if quiet, _ := cmd.Flags().GetBool("quiet"); o.Marker == payload.NoMarker && !quiet {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: no cache-bust marker: %s traces share blocks, and a marker would end that (--marker sets one)", groupDigits(o.Cache.SharedTraces())))
	}
}
