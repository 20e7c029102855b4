package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/page"
	"github.com/agentx/agentx/replay/measure"
)

// Player plays runs.
type Player struct {
	Files simulate.Files // of each run, whose directory is below Files.Dir; an empty Dir: none
	HTML  string         // file of the page of a run; empty: there are no pages
	Gates []simulate.Gate

	Extrapolate bool // accept runs of fitted engines whose passes lie outside of what these were fitted to

	Jobs  int        // at a time; 0: one per core
	Ended func(*Run) // is told of each run that has ended, one after the other; may be nil

	Origin charts.Origin // of the pages
}

// Play simulates runs, several at a time, and judges each. It returns when all have ended.
func (p *Player) Play(ctx context.Context, list []*Run) {
	jobs := p.Jobs
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	places := make(chan struct{}, jobs)
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, r := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			r.Reasons = []string{}
			if r.Err = p.playOne(ctx, r); r.Err != nil && r.Exit == 0 {
				r.Exit = failed
			}
			mu.Lock()
			defer mu.Unlock()
			if p.Ended != nil {
				p.Ended(r)
			}
		})
	}
	all.Wait()
}

// playOne simulates a run, writes its files and judges it.
func (p *Player) playOne(ctx context.Context, r *Run) error {
	before, begin := measure.ReadProcessUsage(), time.Now()
	config, files := r.Config, p.FilesOf(r)
	if config.Forget = p.HTML == "" && config.Measured == nil; config.Forget && files.PerRequest {
		if err := files.Begin(); err != nil {
			return err
		}
		defer files.Discard() // but for what was published
		config.Each = files.Add
	}
	result, err := simulate.Run(ctx, config)
	wall, usage := time.Since(begin), measure.ReadProcessUsage()
	var stuck *fleet.DeadEnd
	if errors.As(err, &stuck) {
		r.Exit, r.Reasons = No, append(r.Reasons, "dead end")
	}
	if err != nil {
		return err
	}
	if err := result.Extrapolated(); err != nil && !p.Extrapolate {
		return err
	}
	s := result.Summary()
	r.Summary, r.Warnings = s, result.Warnings()
	if measured := r.Config.Measured; measured != nil {
		r.Compared = fit.CompareLoads(measured, result.Requests)
	}
	if p.Files.Dir != "" {
		r.Dir, s.Out = r.Name, files.Dir
	}
	if files.Made, err = p.pageOf(result, s); err == nil && p.Files.Dir != "" {
		err = files.Write(result, s, simulate.Timing{
			Wall: wall.Seconds(), CPU: (usage.CPU - before.CPU).Seconds(), RequestRate: float64(s.Requests) / wall.Seconds(), PeakRSS: usage.PeakRSS,
		})
	} else if err == nil {
		err = simulate.WriteMade("", files.Made)
	}
	if err != nil {
		return err
	}
	if p.HTML != "" {
		r.Page = filepath.Join(files.Dir, p.HTML)
		if r.Name != "" {
			r.Samples = newSamples(result)
		}
	}
	for _, g := range p.Gates {
		if why := g.Judge(s); why != "" {
			r.Exit, r.Reasons = No, append(r.Reasons, fmt.Sprintf("gate %s: %s", g.Text, why))
		}
	}
	if r.Exit != 0 {
		return errors.New(strings.Join(r.Reasons, "; "))
	}
	return nil
}

// FilesOf returns the files of a run.
func (p *Player) FilesOf(r *Run) simulate.Files {
	files := p.Files
	files.Dir = filepath.Join(files.Dir, r.Name)
	return files
}

// pageOf returns the page of a run and its log; nothing where no page is wanted.
func (p *Player) pageOf(r *simulate.Result, s *simulate.Summary) ([]simulate.MadeFile, error) {
	if p.HTML == "" {
		return nil, nil
	}
	html, err := page.Make(r, s, p.Origin)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var log bytes.Buffer
	if err := page.WriteLog(&log, r); err != nil {
		return nil, fmt.Errorf("log of the page: %w", err)
	}
	return []simulate.MadeFile{{Name: p.HTML, Data: html}, {Name: LogName(p.HTML), Data: log.Bytes()}}, nil
}

// LogName returns the file of the log beside a page.
func LogName(page string) string {
	return strings.TrimSuffix(page, filepath.Ext(page)) + strings.TrimPrefix(simulate.LogFile, "simulate")
}

// Answer is what a search for the fewest workers found.
type Answer struct {
	Workers *int     `json:"workers"` // the fewest that keep every gate; null: none of those tried do
	Tried   []int    `json:"tried"`
	Gates   []string `json:"gates"`
	Text    string   `json:"text"`
}

// Sized returns the run of a search for the fewest workers that has so many.
func Sized(workers int, base simulate.Config) *Run {
	base.Workers = workers
	return &Run{Name: "workers-" + strconv.Itoa(workers), Config: base}
}

// Size searches for the fewest workers, from least to most, with which a run keeps its gates: it doubles their number until one does, and
// halves what lies between. More workers are taken to be no worse.
func (p *Player) Size(ctx context.Context, least, most int, base simulate.Config) (tried []*Run, a *Answer, err error) {
	a = &Answer{}
	for _, g := range p.Gates {
		a.Gates = append(a.Gates, g.Text)
	}
	keeps := func(n int) bool {
		r := Sized(n, base)
		p.Play(ctx, []*Run{r})
		tried, a.Tried = append(tried, r), append(a.Tried, n)
		if r.Exit == failed {
			err = fmt.Errorf("%s: %w", r.Name, r.Err)
		}
		return r.Exit == 0
	}
	defer func() { slices.SortFunc(tried, func(x, y *Run) int { return x.Config.Workers - y.Config.Workers }) }()
	low, n := least-1, least // with low it does not keep them
	for !keeps(n) {
		if err != nil {
			return tried, a, err
		}
		if low = n; n == most {
			a.Text = axes[0].verdict(n, false, p.Gates)
			return tried, a, nil
		}
		n = min(2*n, most)
	}
	for n-low > 1 {
		if middle := low + (n-low)/2; keeps(middle) {
			n = middle
		} else if low = middle; err != nil {
			return tried, a, err
		}
	}
	a.Workers, a.Text = &n, axes[0].verdict(n, true, p.Gates)
	if low >= least { // fewer are not asked for
		a.Text += "; " + axes[0].others(low)
	}
	return tried, a, nil
}

// path returns where the page of several runs is.
func (p *Player) path() string { return filepath.Join(p.Files.Dir, pageFile) }

// CheckPage returns an error that wraps simulate.ErrResultsExist if the page of several runs would replace another one.
func (p *Player) CheckPage() error { return p.Files.CheckFile(pageFile) }

// writePage writes the page of several runs and returns where it is. Where no pages are wanted, it removes that of other runs.
func (p *Player) writePage(list []*Run, lead []string) (path string, err error) {
	switch {
	case p.Files.Dir == "":
		return "", nil
	case p.HTML != "":
		return p.path(), Write(p.path(), Options{Title: fmt.Sprintf("Simulated: %d runs", len(list)), Lead: lead, Runs: list, Gates: p.Gates, Origin: p.Origin})
	}
	if err = os.Remove(p.path()); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return "", err
}
