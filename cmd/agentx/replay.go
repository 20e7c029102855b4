package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// replayFlags say what is played and how.
type replayFlags struct {
	url, model, payload, marker, apiKeyEnv, out string
	start                                       string
	concurrency, requests, trees                int
	limitTraces, maxContext                     int
	duration, grace, maxGap, timeout            time.Duration
	speed, maxErrorRate                         float64
	asap, once, prefault, noPreflight           bool
	overwrite                                   bool
	header                                      []string
	wire                                        wireFlags
}

func (f *replayFlags) register(cmd *cobra.Command) {
	f.wire.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "server, for example http://127.0.0.1:8000; also the root of its API, .../v1, or an endpoint, .../v1/chat/completions")
	flags.StringVar(&f.model, "model", "", "model name to ask for")
	flags.IntVar(&f.concurrency, "concurrency", 1, "lanes: trees of sessions played at a time")
	durationVar(flags, &f.duration, "duration", 0, "send for this long; of several bounds the first that is reached ends the run")
	flags.IntVar(&f.requests, "requests", 0, "send so many requests")
	flags.IntVar(&f.trees, "trees", 0, "play so many trees")
	flags.BoolVar(&f.once, "once", false, "play every trace once at most (the default without another bound)")
	durationVar(flags, &f.grace, "grace", 30*time.Second, "how long running requests may go on after --duration or an interrupt")
	durationVar(flags, &f.timeout, "timeout", 6*time.Hour, "longest time for one request")
	flags.Float64Var(&f.maxErrorRate, "max-error-rate", 0, "end the run when more than this share of requests fails, 0 to 1, looked at from the 20th on; 0: no limit")
	flags.StringVar(&f.start, "start", "zero", "where lanes begin: zero, with the first turn; sampled, at an instant drawn from --seed, trace and lane")
	flags.Float64Var(&f.speed, "speed", 1, "recorded gaps are divided by it")
	durationVar(flags, &f.maxGap, "max-gap", 0, "longest gap that is played, after --speed; 0: no limit")
	flags.BoolVar(&f.asap, "asap", false, "no gaps: every turn as soon as the one before is answered")
	flags.StringVar(&f.marker, "marker", "", "cache-bust marker: off; first_turn_prefix, behind the system prompt; system_prefix, in front of it (default: first_turn_prefix, or off where traces share blocks)")
	flags.StringVar(&f.payload, "payload", "chat", "chat: messages; ids: token ids to /v1/completions")
	flags.StringArrayVar(&f.header, "header", nil, "NAME:VALUE, sent with every request (repeatable)")
	flags.StringVar(&f.apiKeyEnv, "api-key-env", "", "environment variable that holds the API key")
	flags.BoolVar(&f.prefault, "prefault", false, "read the whole cache into memory before the first request")
	flags.IntVar(&f.limitTraces, "limit-traces", 0, "play only the first so many traces")
	flags.IntVar(&f.maxContext, "max-context", 0, "play only traces of which every prompt and completion fit so many tokens, the marker and the chat template of one message included")
	flags.BoolVar(&f.noPreflight, "no-preflight", false, "begin without a look at the server: the list of its models, and one request for one token")
	flags.StringVar(&f.out, "out", "", "directory for the results (default: agentx-results/TIME, with a number where that is taken)")
	flags.BoolVar(&f.overwrite, "overwrite", false, "remove the results that --out has already")
}

// maxLanes is more than one machine has ports to one server for.
const maxLanes = 1 << 16

// options resolves the flags; the cache is opened by the caller.
func (f *replayFlags) options() (replay.Options, error) {
	o := replay.Options{
		Model: f.model, Concurrency: f.concurrency, Traces: f.limitTraces, MaxContext: f.maxContext,
		Pace:     replay.Pace{Speed: f.speed, MaxGap: f.maxGap, ASAP: f.asap},
		Duration: f.duration, Requests: f.requests, Trees: f.trees, Once: f.once, Grace: f.grace, Timeout: f.timeout, Out: f.out, Overwrite: f.overwrite, Preflight: !f.noPreflight,
		Start:   replay.Start{Sampled: f.start == "sampled", Min: 0.25, Max: 0.75},
		Limits:  replay.Limits{LaneStart: 300 * time.Second, TreeIdle: 300 * time.Second},
		Backoff: replay.Backoff{First: time.Second, Max: 30 * time.Second}, MaxErrorRate: f.maxErrorRate,
	}
	u, err := url.Parse(f.url)
	switch {
	case f.url == "":
		return o, hintError{usageError{fmt.Errorf("--url: say which server to send to")}, "agentx mock serves one without a model"}
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return o, usageError{fmt.Errorf("--url: want http://HOST:PORT or https://HOST")} // it is not printed, for it may hold a password
	case f.model == "":
		return o, usageError{fmt.Errorf("--model: say which model to ask for")}
	case f.concurrency < 1 || f.concurrency > maxLanes:
		return o, usageError{fmt.Errorf("--concurrency %d: want 1 to %d", f.concurrency, maxLanes)}
	case f.timeout <= 0:
		return o, usageError{fmt.Errorf("--timeout %v: want more than 0", f.timeout)}
	case f.duration < 0 || f.requests < 0 || f.trees < 0 || f.grace < 0 || f.maxGap < 0 || f.limitTraces < 0 || f.maxContext < 0:
		return o, usageError{fmt.Errorf("--duration, --requests, --trees, --grace, --max-gap, --limit-traces, --max-context: want no negative value")}
	case !(f.speed > 0) || math.IsInf(f.speed, 1):
		return o, hintError{usageError{fmt.Errorf("--speed %g: want a number above 0", f.speed)}, "--asap leaves out all gaps"}
	case !(f.maxErrorRate >= 0 && f.maxErrorRate <= 1):
		return o, usageError{fmt.Errorf("--max-error-rate %g: want 0 to 1", f.maxErrorRate)}
	case f.start != "zero" && f.start != "sampled":
		return o, usageError{fmt.Errorf("--start %s: want zero or sampled", f.start)}
	}
	if _, err := wire.New(f.url, wire.Options{}); err != nil {
		return o, usageError{fmt.Errorf("--url: %w", err)}
	}
	if o.Marker, err = payload.ParseMarkerTarget(f.marker); err != nil && f.marker != "" {
		return o, usageError{fmt.Errorf("--marker %s: %w", f.marker, err)}
	}
	if err := f.wire.apply(&o); err != nil {
		return o, err
	}
	o.URL = f.url
	switch f.payload {
	case "chat":
		o.Endpoint = payload.ChatCompletions
	case "ids":
		o.Endpoint = payload.Completions
	default:
		return o, usageError{fmt.Errorf("--payload %s: want chat or ids", f.payload)}
	}
	for _, h := range f.header {
		name, value, ok := strings.Cut(h, ":")
		field := wire.HeaderField{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if !ok {
			return o, usageError{fmt.Errorf("--header %s: want NAME:VALUE", name)}
		}
		if err := field.Validate(); err != nil {
			return o, usageError{fmt.Errorf("--header: %w", err)}
		}
		o.Header = append(o.Header, field)
	}
	if f.apiKeyEnv != "" {
		if o.APIKey = os.Getenv(f.apiKeyEnv); o.APIKey == "" {
			return o, usageError{fmt.Errorf("--api-key-env %s: that variable is not set", f.apiKeyEnv)}
		}
		if _, err := wire.New(f.url, wire.Options{APIKey: o.APIKey}); err != nil {
			return o, usageError{fmt.Errorf("--api-key-env %s: %w", f.apiKeyEnv, err)}
		}
	}
	if o.Out == "" {
		o.Out, o.OutNew = filepath.Join("agentx-results", time.Now().Format("20060102-150405")), true
	} else if err := replay.CheckResultsDir(o.Out); err != nil && !o.Overwrite {
		return o, hintReplay(err)
	}
	return o, nil
}

// hintReplay adds what to try to an error of a replay.
func hintReplay(err error) error {
	var refused *replay.PreflightError
	switch {
	case errors.As(err, &refused):
		return hintError{err, refused.Hint}
	case errors.Is(err, replay.ErrResultsExist):
		return hintError{usageError{fmt.Errorf("--out %w", err)}, "--overwrite removes them; or another --out"}
	}
	return err
}

func newReplay() *cobra.Command {
	var f replayFlags
	var c convertFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay CACHE|INPUT",
		Short: "Play a prepared cache against an inference server",
		Long: `Play a prepared cache against an OpenAI-compatible server and record what happens. An INPUT is
converted first, or found converted.

Every lane plays one tree of sessions at a time, with the recorded gaps between the end of one
turn and the start of the next, subagents started and joined where they were recorded. The first
interrupt ends the sending and writes the results; the second leaves at once.

--set takes these besides the rules of the reconstruction:` + settingsHelp(),
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --concurrency 8 --duration 30s\n  agentx replay CACHE --url http://127.0.0.1:8000 --model m --concurrency 64 --asap --requests 1000",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			set := c.set
			if c.set, err = applySettings(&o, set); err != nil {
				return err
			}
			o.Seed = c.seed
			dataset, err := openDataset(cmd, &c, args[0])
			if err != nil {
				return err
			}
			defer dataset.Close()
			o.Cache = dataset.Cache
			f.chooseMarker(cmd, &o)
			if f.prefault {
				if err := prefault(cmd, o.Cache); err != nil {
					return err
				}
			}
			if o.Provenance, err = aboutRun(cmd, &o, set); err != nil {
				return err
			}
			return runReplay(cmd, o, asJSON)
		},
	}
	f.register(cmd)
	c.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object: the summary")
	return cmd
}

// openDataset opens the dataset that a CACHE argument names, or that an INPUT converts to.
func openDataset(cmd *cobra.Command, f *convertFlags, name string) (*cachestore.Dataset, error) {
	root, rootErr := cacheRoot(cmd)
	found, key, err := cachestore.Find(root, name) // a path needs no cache root
	if err == nil {
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			_, standing := flag.Annotations[inEnvironment]
			lanes := flag.Name == "seed" && cmd.Flags().Lookup("start") != nil // it also says where lanes begin
			if !standing && !lanes && f.is(flag.Name) && (flag.Name != "set" || len(f.set) > 0) {
				fmt.Fprintf(cmd.ErrOrStderr(), "agentx: warning: --%s has no effect: %s is prepared already\n", flag.Name, name)
			}
		})
		return cachestore.Open(cmd.Context(), found, key)
	}
	if rootErr != nil {
		return nil, rootErr
	}
	if !errors.Is(err, mmapcache.ErrNoCache) || cachestore.IsCachePath(name) { // more than one; or none, and no input
		return nil, err
	}
	o, err := f.options(cmd, []string{name})
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) && name != "-" && o.Source.Embedded[name] == nil && !hub.IsRef(name) {
		err := fmt.Errorf("%s: neither a prepared cache in %s, by its path or 8 characters or more of its key, nor an input", name, root)
		return nil, hintError{err, cmp.Or(hub.Suggest(name), suggest.Closest(name, slices.Collect(maps.Keys(o.Source.Embedded))), "agentx cache ls")}
	}
	r, err := runConvert(cmd, o)
	if err != nil {
		return nil, err
	}
	return cachestore.Open(cmd.Context(), o.Root, r.Key)
}

// chooseMarker settles the marker of a run where none was asked for, and says so where that is none.
func (f *replayFlags) chooseMarker(cmd *cobra.Command, o *replay.Options) {
	if f.marker != "" {
		return
	}
	o.Marker = o.Marker.Resolve(o.Cache)
	f.marker = o.Marker.String() // for what the run says of itself
	if quiet, _ := cmd.Flags().GetBool("quiet"); o.Marker == payload.NoMarker && !quiet {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: no cache-bust marker: %s traces share blocks, and a marker would end that (--marker sets one)", groupDigits(o.Cache.SharedTraces())))
	}
}

// prefault reads a cache into memory with progress.
func prefault(cmd *cobra.Command, c *mmapcache.Cache) error {
	p := newProgress(cmd)
	defer p.close()
	last := int64(0)
	return c.Prefault(cmd.Context(), func(done, total int64) {
		p.update("prefault", done-last, total)
		last = done
	})
}

// runReplay plays with progress on standard error and prints the summary.
func runReplay(cmd *cobra.Command, o replay.Options, asJSON bool) error {
	p := newProgress(cmd)
	length, err := plannedLength(cmd, o, p)
	if err != nil {
		return err
	}
	o.Progress = p.replayed(o, length)
	o.Warn = func(about string) { p.println("agentx: warning: " + about) }
	if about := passedProxy(o.URL); about != "" {
		o.Warn(about)
	}
	o.Notice = func(about string) { p.println("agentx: " + about) }
	s, err := replay.Run(cmd.Context(), o)
	p.close()
	if s != nil { // measured, even where something went wrong
		err = errors.Join(err, printReplayed(cmd, s, asJSON))
	}
	if err != nil {
		return hintReplay(err)
	}
	if cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	if s.DeadlockedTrees > 0 {
		return verdictError{fmt.Errorf("replay: %d trees could not be played to their end", int(s.DeadlockedTrees))}
	}
	if s.Completed == 0 {
		return fmt.Errorf("replay: not one of %d requests completed%s", s.Requests, commonestErrors(s))
	}
	return nil
}

// commonestErrors names the commonestErrors message of the failed requests, "" where there is none.
func commonestErrors(s *measure.Summary) string {
	best, of := measure.ErrorSample{}, wire.Category("")
	for _, category := range slices.Sorted(maps.Keys(s.ErrorSamples)) {
		for _, m := range s.ErrorSamples[category] {
			if m.N > best.N {
				best, of = m, category
			}
		}
	}
	if best.N == 0 {
		return ""
	}
	return fmt.Sprintf(": %s: %s", of, best.Message)
}

// plannedLength says of a run without a bound how long it may last, and returns it; 0 for others.
func plannedLength(cmd *cobra.Command, o replay.Options, p *progress) (time.Duration, error) {
	if p.quiet || o.Duration > 0 || o.Requests > 0 || o.Trees > 0 {
		return 0, nil
	}
	length, err := replay.EstimateDuration(o)
	if err == nil {
		p.println(fmt.Sprintf("agentx: every trace is played once, for about %s if the server answers as fast as the recorded one; --duration bounds it, --speed, --max-gap and --asap shorten gaps",
			max(length.Round(time.Second), time.Second)))
	}
	return length, err
}

func printReplayed(cmd *cobra.Command, s *measure.Summary, asJSON bool) error {
	if asJSON {
		return s.WriteJSON(cmd.OutOrStdout())
	}
	return s.WriteTable(cmd.OutOrStdout(), columns(cmd.OutOrStdout()))
}
