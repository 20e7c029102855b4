package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/comparison"
	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/fleet"
)

// simulateRun is one run of a command: what is simulated, and what came of it.
type simulateRun struct {
	Name    string            `json:"name"`           // what tells it from the others; empty: there is one
	Dir     string            `json:"dir"`            // of its files, below that of --out; empty: none
	Exit    int               `json:"exit"`           // exit status that the command would have for this run alone
	Page    string            `json:"page,omitempty"` // file; empty: none
	Reasons []string          `json:"reasons"`
	Summary *simulate.Summary `json:"summary"` // null: it came to no end

	config   simulate.Config
	engine   string             // its name; empty: all runs have the same
	samples  comparison.Samples // of the page of several runs
	warnings []string
	err      error
}

// variant is one value of something that runs differ in.
type variant struct {
	name string
	set  func(*simulateRun)
}

// runs returns the runs of all combinations, the last flag changing fastest.
func (f *simulateFlags) runs(base simulate.Config) []*simulateRun {
	list := []*simulateRun{{config: base}}
	for _, variants := range [][]variant{f.engineVariants(), f.workerVariants(), f.concurrencyVariants()} {
		var next []*simulateRun
		for _, r := range list {
			for _, v := range variants {
				one := &simulateRun{Name: r.Name, engine: r.engine, config: r.config}
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

func (f *simulateFlags) engineVariants() (list []variant) {
	texts := f.engines
	if len(texts) == 0 {
		texts = []string{""}
	}
	for k, text := range texts {
		base := f.engineOf("engine", text, simulate.Default().Engine.Config)
		prefill := f.engineOf("prefill-engine", f.prefillEngine, base)
		decode := f.engineOf("decode-engine", f.decodeEngine, base)
		var engines [3]simulate.Engine
		for n, c := range []engine.Config{base, prefill, decode} {
			one, err := simulate.NewEngine(c)
			if err != nil {
				f.addOnce(fmt.Errorf("%s: %w", settings.FlagText("engine", text), withoutPrefix(err, "engine: ")))
				one = simulate.Default().Engine
			}
			engines[n] = one
		}
		name := engineName(text, k+1)
		if slices.ContainsFunc(list, func(v variant) bool { return v.name == name }) { // two files of the same name
			name += "-" + strconv.Itoa(k+1)
		}
		list = append(list, variant{name, func(r *simulateRun) {
			r.config.Engine, r.config.PrefillEngine, r.config.DecodeEngine = engines[0], engines[1], engines[2]
			if len(texts) > 1 {
				r.engine = name
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

func (f *simulateFlags) workerVariants() (list []variant) {
	if f.disaggregated() {
		f.checkCounts("prefill-workers", f.prefillWorkers)
		f.checkCounts("decode-workers", f.decodeWorkers)
		for _, p := range orOne(f.prefillWorkers) {
			for _, d := range orOne(f.decodeWorkers) {
				list = append(list, variant{fmt.Sprintf("prefill-%d_decode-%d", p, d), func(r *simulateRun) {
					c := &r.config
					c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, max(p, min(1, len(f.prefillWorkers))), max(d, min(1, len(f.decodeWorkers))) // checkCounts tells of others
				}})
			}
		}
		return list
	}
	for _, n := range f.fleetSizes() {
		list = append(list, variant{"workers-" + strconv.Itoa(n), func(r *simulateRun) { r.config.Workers = n }})
	}
	return list
}

// disaggregated reports whether a flag asks for prefill and decode workers.
func (f *simulateFlags) disaggregated() bool { return len(f.prefillWorkers)+len(f.decodeWorkers) > 0 }

// checkFleet adds what does not go together.
func (f *simulateFlags) checkFleet() {
	workers := f.flags.Lookup("workers")
	if f.disaggregated() && workers.Changed {
		f.add("%s %s beside --prefill-workers and --decode-workers: want one kind of fleet", settings.Named(workers), f.workers)
	}
	for _, name := range []string{"prefill-engine", "decode-engine"} {
		if one := f.flags.Lookup(name); one.Changed && !f.disaggregated() {
			f.add("%s: only a disaggregated fleet has it: want --prefill-workers and --decode-workers, or --engine", settings.Named(one))
		}
	}
}

// checkCounts adds what is wrong with the numbers of a flag: each makes a run of its own.
func (f *simulateFlags) checkCounts(name string, list []int) {
	for k, n := range list {
		switch {
		case n < 1:
			f.add("%s: %d: want at least 1", settings.Named(f.flags.Lookup(name)), n)
		case slices.Contains(list[:k], n):
			f.add("%s: %d twice", settings.Named(f.flags.Lookup(name)), n)
		}
	}
}

// orOne returns the numbers of a flag; 0 where it is not given, which is refused with the other of its pair.
func orOne(list []int) []int {
	if len(list) == 0 {
		return []int{0}
	}
	return list
}

func (f *simulateFlags) concurrencyVariants() (list []variant) {
	f.checkCounts("concurrency", f.concurrency)
	for _, n := range orOne(f.concurrency) {
		list = append(list, variant{"concurrency-" + strconv.Itoa(n), func(r *simulateRun) { r.config.Concurrency = n }})
	}
	return list
}

// play simulates runs, several at a time, and judges each. It returns when all have ended.
func (f *simulateFlags) play(ctx context.Context, list []*simulateRun) {
	jobs := f.jobs
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	places := make(chan struct{}, jobs)
	var all sync.WaitGroup
	for _, r := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f.playOne(ctx, r)
			f.ended(r)
		})
	}
	all.Wait()
}

// ended says, at most every five seconds, which of several runs has ended.
func (f *simulateFlags) ended(r *simulateRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done++
	if now := time.Now(); !f.quiet && r.Name != "" && now.After(f.next) {
		f.next = now.Add(lineEvery)
		fmt.Fprintf(f.stderr, "agentx: runs that have ended: %d, the last %s\n", f.done, r.Name)
	}
}

// playOne simulates a run, writes its files and judges it.
func (f *simulateFlags) playOne(ctx context.Context, r *simulateRun) {
	before, begin := measure.ReadProcessUsage(), time.Now()
	result, err := simulate.Run(ctx, r.config)
	wall, usage := time.Since(begin), measure.ReadProcessUsage()
	r.Reasons = []string{}
	var stuck *fleet.DeadEnd
	switch {
	case errors.As(err, &stuck):
		r.Exit, r.err = exitVerdict, verdictError{err}
		r.Reasons = append(r.Reasons, "dead end")
		return
	case err != nil:
		r.Exit, r.err = exitFailed, err
		return
	}
	s := result.Summary()
	r.Summary, r.warnings = s, result.Warnings()
	if f.out != "" {
		r.Dir = r.Name
		s.Out = filepath.Join(f.out, r.Name)
		timing := simulate.Timing{
			Wall: wall.Seconds(), CPU: (usage.CPU - before.CPU).Seconds(), RequestRate: float64(s.Requests) / wall.Seconds(), PeakRSS: usage.PeakRSS,
		}
		files := f.files(r)
		if files.Made, err = f.pageOf(result, s); err == nil {
			err = files.Write(result, s, timing)
		}
	} else {
		err = f.writePage(result, s)
	}
	if err != nil {
		r.Exit, r.err = exitFailed, err
		return
	}
	if f.html != "" {
		r.Page = filepath.Join(f.out, r.Name, f.html)
		if r.Name != "" {
			r.samples = comparison.NewSamples(result)
		}
	}
	for _, g := range f.gateList {
		if why := g.Judge(s); why != "" {
			r.Exit, r.Reasons = exitVerdict, append(r.Reasons, fmt.Sprintf("gate %s: %s", g.Text, why))
		}
	}
	if r.Exit != 0 {
		r.err = verdictError{errors.New(strings.Join(r.Reasons, "; "))}
	}
}

func (f *simulateFlags) files(r *simulateRun) simulate.Files {
	return simulate.Files{
		Dir: filepath.Join(f.out, r.Name), PerRequest: f.perRequest, Dynamo: f.format == "dynamo", Overwrite: f.overwrite,
	}
}

// warnRuns prints what a user should know of each run beside its numbers.
func warnRuns(w io.Writer, list []*simulateRun) {
	for _, r := range list {
		at := ""
		if r.Name != "" {
			at = r.Name + ": "
		}
		for _, text := range r.warnings {
			printError(w, "agentx: warning: "+at+text)
		}
	}
}

// judgeRuns returns the error of several runs: that of the worst.
func judgeRuns(list []*simulateRun) error {
	var failed []string
	var worst error
	for _, r := range list {
		if r.err == nil {
			continue
		}
		if r.Name == "" {
			return r.err
		}
		failed = append(failed, fmt.Sprintf("%s: %s", r.Name, strings.ReplaceAll(r.err.Error(), "\n", "; ")))
		if worst == nil || r.Exit == exitFailed {
			worst = r.err
		}
	}
	if worst == nil {
		return nil
	}
	err := fmt.Errorf("%d of %d runs: %s", len(failed), len(list), strings.Join(failed, "; "))
	var verdict verdictError
	if errors.As(worst, &verdict) {
		return verdictError{err}
	}
	return err
}
