package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/report/until"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// replayFlags say what to play, how, and against which server.
type replayFlags struct {
	o   replay.Options // that settings write to
	set *settings.Set

	convert convertFlags // of an INPUT

	apiKeyEnv, config               string
	repeat                          int
	prefault, stopOnFailure         bool
	allowFailures                   bool
	printConfig, configSchema, json bool
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

// presetWords are the presets, with what each is behind a tab.
var presetWords = []string{preset.Default + "\tfaithful to the recording", preset.AIPerf + "\tas AIPerf 0.13.0", preset.AgentX + "\tas agentx-harness 1.0.12"}

// presetKind is the kind of the name of a preset, old names included.
func presetKind() settings.Kind {
	k := settings.Word(presetWords...)
	k.Read = func(text string) (any, bool) {
		_, ok := preset.Named(text)
		return text, ok
	}
	return k
}

// register adds the settings of a replay to a command, as flags.
func (f *replayFlags) register(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	f.set = settings.New(f.flags, f.tell, settings.Replay(&f.o)...)
	f.set.Presets, f.set.Canonical = preset.Names, preset.Canonical
	f.set.Rules, f.set.Things = append(rules.Names(), "backend"), "switch, option or rule of the reconstruction"
	f.set.Add(
		settings.Setting{Name: "preset", Group: settings.Presets, Kind: presetKind(), Default: preset.Default, To: &f.o.Preset,
			Help: "values of all switches: " + strings.ReplaceAll(strings.Join(presetWords, "; "), "\t", ", ")},
		settings.Setting{Name: "config", Group: settings.Presets, Plain: true, Kind: settings.File("yaml", "yml"), Default: "", To: &f.config,
			Help: "YAML file with settings by the names of their flags (doc/replay.md)"},
		settings.Setting{Name: "print-config", Group: settings.Presets, Plain: true, Kind: settings.Yes, Default: false, To: &f.printConfig,
			Help: "print every setting with its value and its origin, as --config takes them, and send nothing"},
		settings.Setting{Name: "config-schema", Group: settings.Presets, Plain: true, Kind: settings.Yes, Default: false, To: &f.configSchema,
			Help: "print the JSON schema of --config, and send nothing"},
		settings.Setting{Name: "json", Group: settings.Results, Plain: true, Kind: settings.Yes, Default: false, To: &f.json,
			Help: "one JSON object: the summary, or the configuration"},
		settings.Setting{Name: "concurrency", Group: settings.Load, Plain: true, Kind: lanesKind(), Default: lanes{counts: []int{f.o.Defaults()[&f.o.Concurrency][0].(int)}}, To: &f.auto.lanes,
			Help: "lanes: how many trees are played at a time, or with --arrivals recorded or rate how many may be open at a time; several numbers with commas between: one run each; auto or auto:FROM-TO: search for the most lanes that keep every --slo on the run"},
		settings.Setting{Name: "drain", Group: settings.Load, Plain: true, Kind: settings.Span, Default: defaultDrain, To: &f.auto.drain,
			Help: "with --concurrency auto: pause before every probe but the first, in which the servers drain"},
		settings.Setting{Name: "allow-failures", Group: settings.Load, Plain: true, Kind: settings.Yes, Default: false, To: &f.allowFailures,
			Help: "end with status 0 although the run broke: over 10 % of its requests failed, a server went away, or none answered in the last minute"},
		settings.Setting{Name: "stop-on-failure", Group: settings.Load, Plain: true, Kind: settings.Yes, Default: false, To: &f.stopOnFailure,
			Help: "with several numbers of --concurrency, or --repeat: start no further run after one that fails or is not valid"},
		settings.Setting{Name: "repeat", Group: settings.Load, Plain: true, Kind: settings.Whole(1, replay.MaxRepeat).Numeric(), Default: 1, To: &f.repeat,
			Help: "play the same this many times, with a directory for each, and print the mean of each figure with its interval over the runs"},
		settings.Setting{Name: "api-key-env", Group: settings.Server, Plain: true, Kind: settings.AnyText, Default: "", To: &f.apiKeyEnv,
			Help: "environment variable that holds the API key"},
		settings.Setting{Name: "prefault", Group: settings.Load, Plain: true, Kind: settings.Yes, Default: false, To: &f.prefault,
			Help: "read the whole cache into memory before the first request"},
		settings.Setting{Name: "out", Group: settings.Results, Plain: true, Kind: settings.AnyText, Default: "", To: &f.o.Out,
			Help: "directory for the results (default: agentx-results/TIME, with a number if that exists)"},
		settings.Setting{Name: "overwrite", Group: settings.Results, Plain: true, Kind: settings.Yes, Default: false, To: &f.o.Overwrite,
			Help: "remove the results that --out has already"},
		settings.Setting{Name: "listen", Group: settings.Results, Plain: true, Kind: settings.AnyText, Default: "", To: &f.listen.address,
			Help: "HOST:PORT on which agentx serves the page of the run while it is played, /metrics for Prometheus and /status; without HOST for this machine alone; port 0: a free one"},
		settings.Setting{Name: "otlp", Group: settings.Results, Plain: true, Secret: true, Kind: collectorKind(), Default: "",
			Shown: func(v any) any { return replay.RedactURL(v.(string)) },
			Help:  "URL of an OpenTelemetry collector (OTLP/JSON over HTTP), which gets requests as spans and figures as metrics; off: none"},
	)
	f.set.Add(f.scenario.rows()...)
	f.set.Add(f.part.rows()...)
	f.set.Add(f.until.rows()...)
	f.set.Add(wordRows()...)
	f.slo.register(f.flags, "the summary says how much meets them (doc/report.md)")
	f.export.register(f.flags, "report", "files to write beside the results at the end, with commas between: "+strings.Join(replayFormats, ", ")+" (agentx help report)")
	f.set.Adopt(settings.Results)
}

// options completes the options of a run, but for the cache, which the caller opens. It adds what is wrong to the problems.
func (f *replayFlags) options() {
	o := &f.o
	o.Concurrency = f.auto.counts[0]
	lacks := func(name string) bool { return !f.printConfig && !f.set.Refused(name) && !f.set.Refused("config") }
	if len(o.URLs) == 0 && lacks("url") {
		f.tell(errors.New("--url: name the server to send to, such as http://localhost:8000"), "agentx mock serves one without a model")
	}
	f.applyKey(o)
	if o.Model == "" && lacks("model") {
		hint := "--model NAME, as the server calls what it serves"
		if len(o.URLs) > 0 && len(f.errs) == 0 {
			if list := replay.Models(context.Background(), *o); len(list) > 0 {
				hint = "--model " + strings.Join(list[:min(5, len(list))], ", or --model ")
			}
		}
		f.tell(errors.New("--model: name the model to ask for"), hint)
	}
	f.applyPart(o)
	f.applyOut(o)
	if err := f.listen.check(); err != nil {
		f.add("%s: %w", f.named("listen"), err)
	}
	f.export.check(&f.problems, replayFormats)
	o.SLO = f.slo.conditions(&f.problems)
	if err := o.TLS.Validate(); err != nil {
		f.add("%s: %w", f.named("ca-file"), err)
	}
	f.applyUntil(o)
	if f.set.From("no-calibrate").Kind == settings.FromDefault {
		o.Calibrate = (o.Duration == 0 || o.Duration >= calibratedFrom) && (o.Requests == 0 || o.Requests >= calibratedFromRequests)
		f.set.Choose("no-calibrate", !o.Calibrate)
	}
	f.chooseRetryAfter(o)
}

// A run with a shorter duration, or fewer requests, is calibrated only if --no-calibrate=false is given.
const (
	calibratedFrom         = 20 * time.Second
	calibratedFromRequests = 1000
)

// chooseRetryAfter notes for the results the default of --retry-after, which depends on the other options.
func (f *replayFlags) chooseRetryAfter(o *replay.Options) {
	if f.set.From("retry-after").Kind == settings.FromDefault {
		f.set.Choose("retry-after", o.Throttling())
	}
}

// named returns a setting as the user wrote it: --url, AGENTX_URL, or run.yaml:3: url.
func (f *replayFlags) named(flag string) string { return f.set.Named(flag) }

// applyKey takes the API key from the variable that --api-key-env names.
func (f *replayFlags) applyKey(o *replay.Options) {
	if f.apiKeyEnv == "" {
		return
	}
	if o.APIKey = os.Getenv(f.apiKeyEnv); o.APIKey == "" {
		f.add("%s %s: that variable is not set", f.named("api-key-env"), f.apiKeyEnv)
	} else if _, err := wire.New("http://localhost", wire.Options{APIKey: o.APIKey}); err != nil {
		f.add("%s %s: %w", f.named("api-key-env"), f.apiKeyEnv, err)
	}
}

// applyOut checks the directory of --out. Without --out the results go to a new directory named by the time.
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

// checkSettings adds errors of values that are right by themselves but not beside others, and settles what depends on others.
func (f *replayFlags) checkSettings() {
	s, o := f.set, &f.o
	if s.From("primer-lead-max").Kind == settings.FromDefault && o.Limits.SystemIdle > 0 { // which bounds leads instead
		s.Choose("primer-lead-max", nil)
		o.Warmup.LeadMax = replay.Off
	}
	if own, _ := preset.Named(o.Preset); o.Switches.SubtractNegative != own.SubtractNegative {
		f.add("%s: fixed when the cache is built, so a replay cannot change it: want %v, or nothing (--profile of agentx convert chooses it)", s.Show("negative-duration"), map[bool]string{false: "zero", true: "subtract"}[own.SubtractNegative])
	}
}

// checkContradictions adds an error for each contradiction between settings.
func (f *replayFlags) checkContradictions() {
	o := f.o
	if f.part.meet.address != "" {
		o.Meeting = new(meet.Meeting) // it will be joined
	}
	if f.several() {
		o.Concurrency = replay.MaxConcurrency // of each run
	}
	f.set.Contradict(&o)
}

// chooseMarker chooses the marker of a run without --marker, by its cache, and says so if that is none.
func (f *replayFlags) chooseMarker(cmd *cobra.Command, o *replay.Options) {
	if f.set.From("marker").Kind != settings.FromDefault {
		return
	}
	o.Marker = o.Marker.Resolve(o.Cache)
	f.set.Choose("marker", o.Marker) // which the results list
	if quiet, _ := cmd.Flags().GetBool("quiet"); o.Marker == payload.NoMarker && !quiet {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: no cache-bust marker: %s traces share blocks, and a marker would end that (--marker sets one)", groupDigits(o.Cache.SharedTraces())))
	}
}

// wrong returns all errors of a command line, conflicts with its scenario included; nil if there are none.
func (f *replayFlags) wrong() error {
	if list := slices.Concat(f.errs, f.scenario.errors()); len(list) > 0 {
		return errorList(list)
	}
	return nil
}

// wrongFlags returns all errors of a command line that has unknown flags. pflag stops at the first of these, so wrongFlags takes it out
// and parses the rest again.
func (f *replayFlags) wrongFlags(cmd *cobra.Command, err error) error {
	args, _ := cmd.Context().Value(commandLine{}).([]string)
	args = slices.Clone(args)
	var unknown []error
	for err != nil {
		unknown = append(unknown, flagError(cmd, err))
		if try, meant := errors.AsType[hintError](unknown[len(unknown)-1]); meant {
			f.set.Refuse(strings.TrimPrefix(try.hint, "--"))
		}
		var named *pflag.NotExistError
		if !errors.As(err, &named) {
			break
		}
		f.set.Misspelled(named.GetSpecifiedName())
		wrong := "--" + named.GetSpecifiedName()
		k := slices.IndexFunc(args, func(a string) bool { return a == wrong || strings.HasPrefix(a, wrong+"=") })
		if k < 0 { // such as -x
			break
		}
		args = slices.Delete(args, k, k+1)
		f.errs, f.convert.set = nil, nil // they are read once more
		f.set.Forget()
		err = cmd.Flags().Parse(args)
	}
	f.resolve(cmd, cmd.Flags().Arg(0))
	return errorList(slices.Concat(unknown, f.errs, f.scenario.errors()))
}

// arrivalChoice is what the command line says of arrivals. The dataset decides the rest.
type arrivalChoice struct {
	given bool   // the command line says how trees arrive
	lanes string // setting that excludes recorded starts, as the user wrote it; "": there is none
}

// resolveArrivals chooses how trees arrive if --arrivals, or a setting that implies it, says so.
func (f *replayFlags) resolveArrivals(o *replay.Options) {
	a := &o.Arrivals
	imply := func(applies bool, mode replay.ArrivalMode, by string) {
		if applies && !f.arrivals.given {
			a.Mode, f.arrivals.given = mode, true
			f.set.Imply("arrivals", mode, by)
		}
	}
	f.arrivals.given = f.set.IsSet("arrivals")
	imply(a.Rate > 0, replay.RateArrivals, "rate")
	imply(a.From > 0, replay.RecordedArrivals, "from")
	imply(a.To > 0, replay.RecordedArrivals, "to")
	if !f.arrivals.given {
		f.arrivals.lanes = f.needsLanes(*o)
	} else if a.Mode != replay.Lanes {
		if f.several() {
			f.add("%s and %s: trees that arrive on their own have one cap: want one number of lanes", f.set.Show("concurrency"), f.set.Show("arrivals"))
		}
		f.settleArrivals(o)
	}
}

// needsLanes names a setting that excludes recorded starts, as the user wrote it; "" if there is none.
func (f *replayFlags) needsLanes(o replay.Options) string {
	if f.several() {
		return f.set.Show("concurrency")
	}
	o.Arrivals.Mode = replay.RecordedArrivals
	return f.set.Against("arrivals", &o)
}

// several reports whether --concurrency asks for several runs.
func (f *replayFlags) several() bool { return f.auto.auto != nil || len(f.auto.counts) > 1 }

// settleArrivals sets what follows when trees arrive on their own: without --concurrency any number may be open.
func (f *replayFlags) settleArrivals(o *replay.Options) {
	if !f.set.IsSet("concurrency") {
		o.Concurrency = 0
	}
	f.set.Choose("arrivals", o.Arrivals.Mode) // which the results list
}

// chooseArrivals plays recorded starts if the dataset has them and the command line does not exclude them, and says so. Then it checks that
// the dataset has what the chosen arrivals need.
func (f *replayFlags) chooseArrivals(cmd *cobra.Command, o *replay.Options) error {
	quiet, _ := cmd.Flags().GetBool("quiet")
	tell := func(format string, args ...any) {
		if !quiet {
			printError(cmd.ErrOrStderr(), "agentx: "+fmt.Sprintf(format, args...))
		}
	}
	switch {
	case f.arrivals.given || !o.HasRecordedStarts():
	case f.arrivals.lanes != "":
		tell("traces are played in lanes, not at their recorded starts: %s needs lanes", f.arrivals.lanes)
	default:
		o.Arrivals.Mode = replay.RecordedArrivals
		f.settleArrivals(o)
		limit := ""
		if o.Concurrency > 0 {
			limit = fmt.Sprintf(", at most %d at a time", o.Concurrency)
		}
		tell("every trace opens at its recorded start%s, because the input says when it began (--arrivals lanes plays --concurrency at a time)", limit)
	}
	if o.Arrivals.Mode == replay.Lanes {
		return nil
	}
	if err := o.CheckArrivals(); err != nil {
		return usageError{err}
	}
	return nil
}

// minUntilInterval is the shortest --until-interval: records reach their file every quarter of a second.
const minUntilInterval = 100 * time.Millisecond

// untilFlags say which metrics a run is to know, and how well.
type untilFlags struct {
	targets []until.Target
	every   time.Duration
}

// rows are the settings --until and --until-interval.
func (f *untilFlags) rows() []settings.Setting {
	return []settings.Setting{
		{Name: "until-interval", Group: settings.Load, Brief: true, Kind: settings.Span.AtLeast(minUntilInterval), Default: until.Every, To: &f.every,
			Help: "how often --until looks at the intervals"},
		{Name: "until", Group: settings.Load, Plain: true, Kind: settings.List(readTargets), To: &f.targets, Shown: targetTexts, Help: "METRIC=SHARE, such as ttft.p95=5%: end the run when the 95 % interval of this figure lies within this share of it, at three looks 30 s apart, from the 20th tree on (repeatable, or with commas); the other bounds stay"},
	}
}

// readTargets reads METRIC=SHARE, several with commas between.
func readTargets(texts string) (list []until.Target, err error) {
	if texts == "" { // an empty variable is none
		return nil, nil
	}
	for text := range strings.SplitSeq(texts, ",") {
		t, err := until.Parse(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// targetTexts returns the values of --until as texts for the results.
func targetTexts(v any) any {
	var texts []string
	for _, t := range v.([]until.Target) {
		texts = append(texts, targetLine(t))
	}
	return texts
}

// targetLine writes a target as --until takes it: ttft.p95=5%.
func targetLine(t until.Target) string { return fmt.Sprintf("%s=%g%%", t, 100*t.Share) }

// untilNames lists the figures that --until takes, each with = behind it, for completions.
func untilNames() (list []string) {
	for _, m := range measure.MetricNames() {
		for _, statistic := range slo.Statistics {
			if f := (slo.Figure{Metric: m, Statistic: statistic}); m.OfEach && statistic != "max" {
				list = append(list, f.String()+"=")
			}
		}
	}
	return list
}

// applyUntil sets Options.Watch so that a run ends when the figures of --until are known well enough.
func (f *replayFlags) applyUntil(o *replay.Options) {
	targets := f.until.targets
	for k, t := range targets {
		if slices.ContainsFunc(targets[:k], func(other until.Target) bool { return other.String() == t.String() }) {
			f.add("%s %s: %s occurs twice", f.named("until"), targetLine(t), t)
		}
	}
	if len(targets) == 0 {
		return
	}
	o.Watch = func(ctx context.Context, w replay.Watched) *measure.Until {
		tick := time.NewTicker(f.until.every)
		defer tick.Stop()
		watcher := until.Watcher{Dir: w.Dir, Targets: targets, Tick: tick.C, End: w.End}
		if quiet, _ := f.flags.GetBool("quiet"); !quiet {
			watcher.Tell = untilLines(w.Notice)
		}
		found, err := watcher.Watch(ctx)
		if err != nil {
			w.Warn("--until: " + err.Error())
		}
		return found
	}
}

// untilLineEvery is how many looks without a change pass until a line is printed anyway.
const untilLineEvery = 10

// untilLines returns a function that prints the first look, each that changes the count of looks in a row, and every tenth.
func untilLines(notice func(string)) func(until.Look) {
	inARow := 0
	return func(l until.Look) {
		changed := l.InARow != inARow
		if inARow = l.InARow; l.Number == 1 || changed || l.Number%untilLineEvery == 0 {
			notice("until: " + l.String())
		}
	}
}
