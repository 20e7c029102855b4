package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/merge"
)

// fitFile is the engine that was fitted to a run, beside its results.
const fitFile = "fit.json"

// loadNames are the flags that say what is played, where a run does.
const loadNames = "load concurrency arrival-speedup synthetic trace-block-size limit-traces hit-curve planner"

// readRun tells what contradicts a run, and takes the engine that was fitted to it where no other is named.
func (f *Flags) readRun() {
	if f.RunDir == "" {
		if f.fit {
			f.add("--fit: want the results of a replay: agentx simulate RUN --fit")
		}
		return
	}
	for name := range strings.FieldsSeq(loadNames) {
		if f.isSet(name) {
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

// PlayRun simulates the load of a run whose dataset is cache, and prints measured beside simulated figures; with --fit it fits an engine.
// no is that of Play.
func (f *Flags) PlayRun(ctx context.Context, w io.Writer, run *merge.Run, cache *mmapcache.Cache) (no bool, err error) {
	config := &f.runs[0].Config
	told, err := fit.Tell(run)
	if err != nil {
		return false, err
	}
	blockSize := config.BlockSize()
	if f.fit && len(f.engines) == 0 && told.BlockSize > 0 {
		blockSize = told.BlockSize
	}
	list, left, err := fit.Read(run, cache, fit.ReadOptions{BlockSize: blockSize, IDWidth: config.Switches.IDWidth})
	if err != nil {
		return false, err
	}
	if left > 0 {
		f.warn(fmt.Sprintf("%d requests that failed or were cut are left out", left))
	}
	for _, r := range f.runs {
		r.Config.Measured = list
	}
	if f.Validate(nil); f.wrong {
		return false, nil
	}
	if !f.fit {
		return f.Play(ctx, w)
	}
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
		return false, err
	}
	var text bytes.Buffer
	if err := terminal.IndentedJSON(&text, result.Engine); err != nil {
		return false, err
	}
	path := filepath.Join(f.RunDir, fitFile)
	if f.Player.Files.Dir != "" {
		path = filepath.Join(f.Player.Files.Dir, fitFile)
	}
	if err := durable.WriteFile(path, text.Bytes()); err != nil {
		return false, err
	}
	if f.JSON {
		_, err = w.Write(text.Bytes())
	} else {
		_, err = io.WriteString(w, result.Text()+"\nengine                  "+path+"\n")
	}
	return false, err
}
