package setup

import (
	"context"
	"errors"
	"fmt"
	"github.com/spf13/pflag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/runs"
	"github.com/agentx/agentx/internal/terminal"
)

// interval is the numbers of workers in which a search looks.
type interval struct{ from, to int }

// Plan resolves the settings and makes the runs. It returns the names of before that were given.
func (f *Flags) Plan() (oldNames []string) {
	f.set.Resolve(nil)
	lanes := f.Config.Lanes.Options
	lanes.Duration = 1 // the bounds of a simulation are others
	f.set.Contradict(&lanes)
	f.readRun()
	f.checkFleet()
	f.base()
	f.readTiers()
	f.runs = f.combinations()
	f.sized = f.readGates()
	if f.several() && !f.curve.on && f.Player.HTML != "" && f.Player.Files.Dir == "" {
		f.add("--html of several runs: add --out DIR, in which each has a directory with its page")
	}
	f.checkCurve()
	return f.set.OldNames
}

// several reports whether there is more than one run.
func (f *Flags) several() bool { return len(f.runs) > 1 || f.sized != nil }

// readGates reads the gates, and the search that --workers may ask for. One that has no gate looks for the service levels.
func (f *Flags) readGates() *interval {
	size, err := f.sizing()
	if err != nil {
		f.refuse(err, "")
	}
	texts := f.gates
	levels := f.Config.SLA != simulate.SLA{}
	if size != nil && len(texts) == 0 && levels {
		texts = []string{"good>=99%"}
	}
	for _, text := range texts {
		g, err := simulate.ParseGate(text)
		if err != nil {
			f.add("%s: %w", f.shown("gate", text), err)
			continue
		}
		if g.NeedsSLA() && !levels {
			f.add("%s: no request is good or not without a limit: add --sla-ttft, --sla-itl or --sla-e2e", f.shown("gate", text))
		}
		f.Player.Gates = append(f.Player.Gates, g)
	}
	switch {
	case size == nil:
	case len(texts) == 0:
		f.add("%s: nothing to keep: add --gate 'ttft.p95<2s', or --sla-ttft, --sla-itl, --sla-e2e", f.shown("workers", f.workers))
	case len(f.concurrency) > 1 || len(f.engines) > 1:
		f.add("%s with several values of --concurrency or --engine: want one of each", f.shown("workers", f.workers))
	case f.planner != "":
		f.add("%s beside --planner, which chooses the workers itself: leave one of them out", f.shown("workers", f.workers))
	}
	return size
}

// Check tells what is wrong with the runs whatever they play, and with the directories of their results.
func (f *Flags) Check() {
	f.validate(simulate.Config.ValidateWithoutInput)
	if f.Player.Files.Dir == "" || f.curve.on {
		return
	}
	list := f.runs
	if f.sized != nil {
		list = nil
		for n := f.sized.from; n <= f.sized.to; n++ {
			list = append(list, runs.Sized(n, simulate.Config{}))
		}
	}
	checks := make([]func() error, 0, len(list)+1)
	for _, r := range list {
		checks = append(checks, f.Player.FilesOf(r).Check)
	}
	if len(list) > 1 {
		checks = append(checks, f.Player.CheckPage)
	}
	for _, check := range checks {
		switch err := check(); {
		case errors.Is(err, simulate.ErrResultsExist):
			f.refuse(err, "--overwrite, or another --out")
		case err != nil:
			f.refuseOut(err)
			return // the others say the same
		}
	}
}

// refuseOut tells an error about the directory of --out.
func (f *Flags) refuseOut(err error) { f.add("%s: %w", f.shown("out", f.Player.Files.Dir), err) }

// Validate tells what is wrong with the runs of an input, nil for a synthetic load, and makes the directory of the results.
func (f *Flags) Validate(input *simulate.Input) {
	for _, r := range f.runs {
		c := &r.Config
		if c.Input = input; input != nil && c.LoadOf() == simulate.LoadLanes && c.Concurrency == 0 {
			c.Concurrency = 1 // as in a replay
		}
	}
	if f.validate(simulate.Config.Validate); f.wrong || f.curve.on || f.Player.Files.Dir == "" {
		return
	}
	err := os.MkdirAll(f.Player.Files.Dir, 0o777)
	if err == nil {
		var probe *os.File // whether files can be written to it
		if probe, err = os.CreateTemp(f.Player.Files.Dir, ".agentx-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		f.refuseOut(err)
	}
}

// validate tells what a check finds wrong with the runs. Those of a search begin with its fewest workers.
func (f *Flags) validate(check func(simulate.Config) error) {
	for _, r := range f.runs {
		checked := r.Config
		if f.sized != nil {
			checked.Workers = f.sized.from
		}
		for _, one := range unjoin(check(checked)) {
			f.refuse(one, "")
		}
	}
}

// Describe says on pages what is simulated, by which version and command.
func (f *Flags) Describe(flags *pflag.FlagSet, args []string, version string) {
	o := &f.Player.Origin
	for _, fact := range [][2]string{{"trace", strings.Join(args, " ")}, {"synthetic", f.Synthetic}, {"date", f.Date}, {"agentx", version}} {
		if fact[1] != "" {
			o.Facts = append(o.Facts, fact)
		}
	}
	words := []string{"agentx simulate"}
	for _, name := range args {
		words = append(words, terminal.Word(name))
	}
	flags.Visit(func(flag *pflag.Flag) {
		if slices.Contains(ofFiles, flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+flag.Name+"="+terminal.Word(v))
		}
	})
	o.Command = strings.Join(words, " ")
}

// ofFiles are flags that say what is written, and how a machine does its work: the command that pages show lacks them.
var ofFiles = strings.Fields("out overwrite per-request html format json jobs quiet verbose force wait no-wait cache")

// DescribeKey says on pages of which cache the traces are.
func (f *Flags) DescribeKey(key string) {
	f.Player.Origin.Facts = append(f.Player.Origin.Facts, [2]string{"key", key})
}

// endedEvery is how often it is told which of several runs has ended.
const endedEvery = 5 * time.Second

// Play simulates the runs, or computes the curves of hit rates, and prints the results. no: every run came to its end, and the verdict
// is what the error says.
func (f *Flags) Play(ctx context.Context, w io.Writer) (no bool, err error) {
	if f.curve.on {
		return false, f.printCurves(ctx, w)
	}
	p, list := &f.Player, f.runs
	next, ended := time.Now().Add(endedEvery), 0
	p.Ended = func(last *runs.Run) {
		ended++
		if now := time.Now(); !f.Quiet && last.Name != "" && now.After(next) {
			next = now.Add(endedEvery)
			fmt.Fprintf(f.Stderr, "agentx: runs that have ended: %d, the last %s\n", ended, last.Name)
		}
	}
	var answer *runs.Answer
	if f.sized != nil {
		list, answer, err = p.Size(ctx, f.sized.from, f.sized.to, list[0].Config)
	} else {
		p.Play(ctx, list)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for _, r := range list {
		for _, text := range r.Warnings {
			terminal.Say(f.Stderr, "agentx: warning: "+strings.TrimPrefix(r.Name+": ", ": ")+text)
		}
	}
	switch err := errors.Join(err, p.Print(w, list, answer, f.JSON)); {
	case err != nil:
		return false, err
	case answer != nil && answer.Workers == nil:
		return true, errors.New(answer.Text)
	case answer != nil:
		return false, nil
	}
	return runs.Judge(list)
}

// unjoin returns the errors that were joined.
func unjoin(err error) (list []error) {
	var several interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &several):
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		list = append(list, unjoin(one)...)
	}
	return list
}

// variant is one value of something that runs differ in.
type variant struct {
	name string
	set  func(*runs.Run)
}

// combinations returns the runs of all combinations, the last flag changing fastest.
func (f *Flags) combinations() []*runs.Run {
	list := []*runs.Run{{Config: f.Config}}
	for _, variants := range [][]variant{f.engineVariants(), f.workerVariants(), f.concurrencyVariants()} {
		var next []*runs.Run
		for _, r := range list {
			for _, v := range variants {
				one := &runs.Run{Name: r.Name, Engine: r.Engine, Config: r.Config}
				if len(variants) > 1 {
					one.Name = strings.TrimPrefix(r.Name+"_"+v.name, "_")
				}
				v.set(one)
				next = append(next, one)
			}
		}
		list = next
	}
	return list
}

// engineVariants returns a variant for each --engine, with the prefill and decode engines that are based on it.
func (f *Flags) engineVariants() (list []variant) {
	texts := f.engines
	if len(texts) == 0 {
		texts = []string{""}
	}
	for k, text := range texts {
		base := f.tieredEngine(f.engineOf("engine", text, simulate.Default().Engine.Config))
		prefill := f.engineOf("prefill-engine", f.prefillEngine, base)
		decode := f.engineOf("decode-engine", f.decodeEngine, base)
		var engines [3]simulate.Engine
		for n, c := range []engine.Config{base, prefill, decode} {
			one, err := simulate.NewEngine(f.timed(c))
			if err != nil {
				f.add("%s: %w", f.shown("engine", text), withoutPrefix(err, "engine: "))
				one = simulate.Default().Engine
			}
			engines[n] = one
		}
		name := engineName(text, k+1)
		if slices.ContainsFunc(list, func(v variant) bool { return v.name == name }) { // two files of the same name
			name += "-" + strconv.Itoa(k+1)
		}
		list = append(list, variant{name, func(r *runs.Run) {
			r.Config.Engine, r.Config.PrefillEngine, r.Config.DecodeEngine = engines[0], engines[1], engines[2]
			if len(texts) > 1 {
				r.Engine = name
			}
		}})
	}
	return list
}

// engineName names an engine after its file, or by its number. As the name is that of a directory too, it does not begin with a dot.
func engineName(text string, number int) string {
	name := strings.TrimSuffix(filepath.Base(text), filepath.Ext(text))
	if strings.HasPrefix(strings.TrimSpace(text), "{") || name == "" || strings.HasPrefix(name, ".") {
		return "engine-" + strconv.Itoa(number)
	}
	return name
}

// workerVariants returns a variant for each size of the fleet: numbers of --workers, or pairs of prefill and decode workers.
func (f *Flags) workerVariants() (list []variant) {
	if f.disaggregated() {
		f.checkCounts("prefill-workers", f.prefillWorkers)
		f.checkCounts("decode-workers", f.decodeWorkers)
		for _, p := range orZero(f.prefillWorkers) {
			for _, d := range orZero(f.decodeWorkers) {
				list = append(list, variant{fmt.Sprintf("prefill-%d_decode-%d", p, d), func(r *runs.Run) {
					c := &r.Config
					c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, max(p, min(1, len(f.prefillWorkers))), max(d, min(1, len(f.decodeWorkers))) // checkCounts tells of others
				}})
			}
		}
		return list
	}
	for _, n := range f.fleetSizes() {
		list = append(list, variant{"workers-" + strconv.Itoa(n), func(r *runs.Run) { r.Config.Workers = n }})
	}
	return list
}

// disaggregated reports whether a flag asks for prefill and decode workers.
func (f *Flags) disaggregated() bool { return len(f.prefillWorkers)+len(f.decodeWorkers) > 0 }

// checkFleet tells which flags of aggregated and disaggregated fleets contradict each other.
func (f *Flags) checkFleet() {
	if f.disaggregated() && f.isSet("workers") {
		f.add("%s %s beside --prefill-workers and --decode-workers: want one kind of fleet", f.set.Named("workers"), f.workers)
	}
	for _, name := range []string{"prefill-engine", "decode-engine"} {
		if f.isSet(name) && !f.disaggregated() {
			f.add("%s: only a disaggregated fleet has it: want --prefill-workers and --decode-workers, or --engine", f.set.Named(name))
		}
	}
}

// checkCounts adds what is wrong with the numbers of a flag: each makes a run of its own.
func (f *Flags) checkCounts(name string, list []int) {
	for k, n := range list {
		switch {
		case n < 1:
			f.add("%s: %d: want at least 1", f.set.Named(name), n)
		case slices.Contains(list[:k], n):
			f.add("%s: %d is given twice", f.set.Named(name), n)
		}
	}
}

// orZero returns the numbers of a flag, and one 0 where it is not given: a number that no flag can give.
func orZero(list []int) []int {
	if len(list) == 0 {
		return []int{0}
	}
	return list
}

// concurrencyVariants returns a variant for each number of --concurrency.
func (f *Flags) concurrencyVariants() (list []variant) {
	f.checkCounts("concurrency", f.concurrency)
	for _, n := range orZero(f.concurrency) {
		list = append(list, variant{"concurrency-" + strconv.Itoa(n), func(r *runs.Run) { r.Config.Concurrency = n }})
	}
	return list
}

// maxSized bounds a search without a bound of its own.
const maxSized = 256

// sizing reads auto[:FROM-TO]; nil for another value of --workers. The search is one of 1 where the value is wrong.
func (f *Flags) sizing() (*interval, error) {
	if !strings.HasPrefix(f.workers, "auto") {
		return nil, nil
	}
	from, to, ok := settings.ParseAuto(f.workers, math.MaxInt)
	switch {
	case !ok:
		return &interval{1, 1}, fmt.Errorf("%s: want auto, or auto:FROM-TO such as auto:2-64", f.shown("workers", f.workers))
	case f.workers == "auto" && f.Config.Router == simulate.KVRouter: // which needs a choice
		from, to = 2, maxSized
	case f.workers == "auto":
		to = maxSized
	}
	return &interval{from, to}, nil
}

// fleetSizes returns the numbers of --workers.
func (f *Flags) fleetSizes() (list []int) {
	if s, _ := f.sizing(); s != nil { // readGates tells the error
		return []int{s.from}
	}
	for text := range strings.SplitSeq(f.workers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			f.add("%s: want a number from 1, several with commas, or auto", f.shown("workers", f.workers))
			return []int{1}
		}
		if slices.Contains(list, n) {
			f.add("%s: %d is given twice", f.shown("workers", f.workers), n)
		}
		list = append(list, n)
	}
	return list
}

// sampling says which samples a page needs, and adds what is wrong with its flags. A planner's ticks take the place of samples.
func (f *Flags) sampling(planned bool) simulate.Sampling {
	switch f.Player.HTML {
	case "true": // of a file or the environment
		f.Player.HTML = simulate.PageFile
	case "false":
		f.Player.HTML = ""
	}
	switch {
	case f.sample == 0:
	case f.Player.HTML == "":
		f.add("%s works only with a page: add --html", f.shown("sample", f.sample.String()))
	case planned:
		f.add("%s beside --planner: the page has the ticks of the planner instead of samples: leave it out", f.shown("sample", f.sample.String()))
	}
	if f.Player.HTML == "" {
		return simulate.Sampling{}
	}
	switch {
	case filepath.Ext(f.Player.HTML) != ".html":
		f.add("%s: want a name that ends in .html", f.shown("html", f.Player.HTML))
	case f.Player.Files.Dir != "" && filepath.Base(f.Player.HTML) != f.Player.HTML:
		f.add("%s beside --out: want a name without a directory, which --out is", f.shown("html", f.Player.HTML))
	case f.Player.Files.Dir == "" && !isDirectory(filepath.Dir(f.Player.HTML)):
		f.add("%s: there is no directory %s: make it, or name another file", f.shown("html", f.Player.HTML), filepath.Dir(f.Player.HTML))
	default:
		for _, name := range []string{f.Player.HTML, runs.LogName(f.Player.HTML)} {
			if path := filepath.Join(f.Player.Files.Dir, name); isDirectory(path) {
				f.add("%s: %s is a directory: want another name", f.shown("html", f.Player.HTML), path)
			}
		}
	}
	samples := simulate.Sampling{On: !planned, Every: f.sample}
	if err := samples.Validate(); err != nil {
		f.add("--sample: %w", err)
		samples.Every = 0
	}
	return samples
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
