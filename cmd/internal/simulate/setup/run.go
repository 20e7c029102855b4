package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
)

// fitFile is the engine that was fitted to a run, beside its results.
const fitFile = "fit.json"

// loadNames are the flags that say what is played, where a run does.
const loadNames = "load arrival-speedup synthetic trace-block-size limit-traces limit-requests max-sim-time hit-curve planner"

// readRun tells what contradicts a run, and takes the engine that was fitted to it where no other is named.
func (f *Flags) readRun() {
	if f.RunDir == "" {
		if f.fit {
			f.add("--fit: want the results of a replay: agentx simulate RUN --fit")
		}
		return
	}
	for name := range strings.FieldsSeq(loadNames + " concurrency") {
		if f.isSet(name) && (f.fit || name != "concurrency") {
			f.add("--%s beside the results of a run, which say what is played: leave it out, or name the run's dataset in place of the run", name)
		}
	}
	for _, name := range f.lanesSet() {
		f.add("%s beside the results of a run, which say what is played: leave it out", f.set.Show(name))
	}
	if f.fit || len(f.engines) > 0 || f.isSet("timing") {
		return
	}
	path := filepath.Join(f.RunDir, fitFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		f.add("%s has no %s: fit an engine first, agentx simulate %[1]s --fit, or name one by --engine", f.RunDir, fitFile)
		return
	}
	f.engines = []string{path}
	if c := f.engineOf("engine", path, engine.Default()); c.Fit != nil && c.Fit.Disaggregated && !f.isSet("workers") && !f.disaggregated() {
		f.prefillWorkers, f.decodeWorkers = []int{1}, []int{1}
	}
}

// conducted returns how the lanes of a run, of which the last request ended then, played its dataset; the error says why the player of a
// simulation cannot play it again.
func conducted(run *merge.Run, input *simulate.Input, last time.Duration) (*simulate.Lanes, error) {
	info := &run.Info
	switch {
	case info.Parts != nil:
		return nil, errors.New("it was played in parts")
	case info.Lanes == 0:
		return nil, errors.New("its trees arrived on their own, not in lanes")
	case input.Timed():
		return nil, errors.New("its traces are rows with recorded starts, not trees")
	}
	o, err := settings.PlayedBy(&info.Run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", measure.RunFile, err)
	}
	for _, one := range info.Options {
		if one.Name == "seed" {
			o.Seed = strings.Trim(string(one.Value), `"`)
		}
	}
	switch facts := info.Facts; {
	case facts == nil: // it has no end
		o.Duration = min(cmp.Or(o.Duration, last), last)
	case facts.Deadline > 0: // of an interrupt, too
		o.Duration = time.Duration(facts.Deadline * 1e9)
	}
	lanes := &simulate.Lanes{Options: o, Run: true, Marked: fit.Marked(run)}
	lanes.Options.AllowWrap = o.AllowWrap || lanes.Marked
	o.Cache, o.Concurrency = input.Cache(), info.Lanes
	return lanes, o.ValidatePlayer()
}

// PlayRun simulates the load of a run whose dataset is input, and prints measured beside simulated figures; with --fit it fits an engine.
// no is that of Play.
func (f *Flags) PlayRun(ctx context.Context, w io.Writer, run *merge.Run, input *simulate.Input) (no bool, err error) {
	config := &f.runs[0].Config
	told, err := fit.Tell(run)
	if err != nil {
		return false, err
	}
	blockSize := config.BlockSize()
	if f.fit && len(f.engines) == 0 && told.BlockSize > 0 {
		blockSize = told.BlockSize
	}
	list, left, err := fit.Read(run, input.Cache(), fit.ReadOptions{BlockSize: blockSize, IDWidth: config.Switches.IDWidth})
	if err != nil {
		return false, err
	}
	if left > 0 {
		f.warn(fmt.Sprintf("%d requests that failed or were cut are left out", left))
	}
	if len(list) == 0 {
		return false, fmt.Errorf("%s: no request ended well, so that there is nothing to compare with or to fit: play for longer", f.RunDir)
	}
	for _, r := range f.runs {
		r.Config.Measured = list
	}
	if !f.fit {
		input = f.playAgain(run, input, list)
	} else {
		input = nil
	}
	switch f.Validate(input); {
	case f.wrong:
		return false, nil
	case f.fit:
		return false, f.fitRun(ctx, w, run, list, told, blockSize)
	}
	return f.Play(ctx, w)
}

// playAgain lets the conductor play the load of a run, and returns the input; nil where it cannot, so that the requests are played as they
// were sent.
func (f *Flags) playAgain(run *merge.Run, input *simulate.Input, list []fit.Request) *simulate.Input {
	last := time.Duration(slices.MaxFunc(list, func(a, b fit.Request) int { return cmp.Compare(a.Last, b.Last) }).Last)
	lanes, why := conducted(run, input, last)
	if why != nil {
		if f.isSet("concurrency") {
			f.add("--concurrency: the conductor cannot play the load of this run: %w: leave it out", why)
		}
		f.warn(fmt.Sprintf("the conductor cannot play the load of this run: %v; its requests are played, each as long after the end of the one that it waited for as it was sent then", why))
		return nil
	}
	if run.Info.Facts == nil {
		f.warn(fmt.Sprintf("the run was killed, or goes on: its load is played until its last request ended, for %s", last.Round(time.Millisecond)))
	}
	lanes.Options.Warn, lanes.Set = f.warn, map[string]string{"seed": lanes.Options.Seed}
	for _, r := range f.runs {
		c := &r.Config
		c.Lanes = *lanes
		if c.Concurrency = cmp.Or(c.Concurrency, run.Info.Lanes); c.Concurrency != run.Info.Lanes {
			c.Measured = nil // what if
		}
	}
	return input
}

// fitRun fits an engine to requests of a run, writes it and prints how far off it is.
func (f *Flags) fitRun(ctx context.Context, w io.Writer, run *merge.Run, list []fit.Request, told fit.Told, blockSize int) error {
	config := &f.runs[0].Config
	o := fit.Options{Base: config.Engine.Config, Switches: config.Switches, Workers: config.Workers, Told: told}
	if !f.isSet("workers") {
		o.Workers = max(len(run.Info.URLs), 1)
	}
	if len(f.engines) == 0 { // what neither the server nor the user says is not scarce
		o.Base.BlockSize, o.Base.Blocks = blockSize, told.Blocks
		if told.Blocks == 0 {
			o.Base.Blocks = max(config.Engine.Config.Blocks, fit.Blocks(list, blockSize))
		}
	}
	result, err := fit.Engine(ctx, list, o)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := terminal.IndentedJSON(&text, result.Engine); err != nil {
		return err
	}
	path := filepath.Join(f.RunDir, fitFile)
	if f.Player.Files.Dir != "" {
		path = filepath.Join(f.Player.Files.Dir, fitFile)
	}
	if err := durable.WriteFile(path, text.Bytes()); err != nil {
		return err
	}
	if f.JSON {
		_, err = w.Write(text.Bytes())
	} else {
		_, err = io.WriteString(w, result.Text()+"\nengine                  "+path+"\n")
	}
	return err
}
