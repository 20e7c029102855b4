package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/report/index"
	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/guard"
)

// indexFlags ask for the index of the runs below a directory.
type indexFlags struct {
	write, serve bool
	listen       string
}

func (f *indexFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.write, "index", false, "write index.html to DIR or --out: all runs in and below DIR, to sort, filter and compare")
	flags.BoolVar(&f.serve, "listen-index", false, "serve that index, and the pages of the runs, while runs go on, until interrupted")
	flags.StringVar(&f.listen, "listen", ":0", "with --listen-index: HOST:PORT to listen on; :PORT is this machine alone, port 0 one that is free")
}

// check adds errors of flags that contradict each other.
func (f *indexFlags) check(r *reportFlags) {
	if !f.serve && r.flags.Lookup("listen").Changed {
		r.add("--listen: nothing is served: add --listen-index, or leave it out")
	}
	if !f.write && !f.serve {
		return
	}
	if f.write && f.serve {
		r.add("--index and --listen-index: give one of them")
	}
	for _, name := range []string{"compare", "format", "gate", "base", "slo", "json", "partial"} {
		if r.flags.Lookup(name).Changed {
			r.add("--%s: an index lists runs as they are: leave it out", name)
		}
	}
	if f.serve && r.out != "" {
		r.add("--out: --listen-index writes nothing: leave it out")
	}
	var err error
	if f.listen, err = live.Address(f.listen); err != nil {
		r.add("--listen %w", err)
	}
}

// run writes the index of a directory, or serves it.
func (f *indexFlags) run(cmd *cobra.Command, dirs []string, out string) error {
	if len(dirs) != 1 {
		return usageError{fmt.Errorf("--index: %d directories given: name one that has all runs", len(dirs))}
	}
	dir := dirs[0]
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%w: want a directory with runs", err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s: not a directory: want one with runs", dir)
	}
	if f.serve {
		return f.serveIndex(cmd, dir)
	}
	out = cmp.Or(out, dir)
	text, err := index.HTML(dir, out)
	path := filepath.Join(out, index.File)
	if err == nil {
		err = os.MkdirAll(out, 0o777)
	}
	if err == nil {
		err = durable.WriteFile(path, text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
	return err
}

// serveIndex serves the index until the command is interrupted.
func (f *indexFlags) serveIndex(cmd *cobra.Command, dir string) error {
	site, err := live.Serve("--listen", f.listen, os.Getenv(guard.Variable), index.NewServer(dir, time.Now).Handler())
	if err != nil {
		return usageError{fmt.Errorf("--listen: %w", err)}
	}
	printError(cmd.ErrOrStderr(), "agentx: the index is served at "+site.URL())
	if site.Drawn != "" {
		printError(cmd.ErrOrStderr(), tokenLine("--listen-index", site.Drawn))
	}
	<-cmd.Context().Done()
	return errors.Join(cmd.Context().Err(), site.Close())
}
