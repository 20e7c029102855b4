package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report/compare"
)

// compareFlags are those of report --compare.
type compareFlags struct {
	on       bool
	gpus     int
	gpusFlag *pflag.Flag
	strict   bool

	partial bool
	levels  []slo.Condition // in the place of the runs' service levels; nil: those of the runs
}

func (f *compareFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "compare", false, "compare the runs with the first: a table, and compare.html, compare.json, compare.csv in --out")
	flags.IntVar(&f.gpus, "gpus", 0, "with --compare: GPUs that served each run; throughput is then per GPU")
	f.gpusFlag = flags.Lookup("gpus")
	flags.BoolVar(&f.strict, "strict", false, "with --compare: status 3 if the runs differ in a setting that must be equal")
}

// check returns what is wrong with the flags beside others.
func (f *compareFlags) check(formats, gates []string) (errs []error) {
	if !f.on {
		without := func(flag string, set bool) {
			if set {
				errs = append(errs, usageError{fmt.Errorf("%s: nothing is compared: add --compare, or leave it out", flag)})
			}
		}
		without("--gpus", f.gpusFlag.Changed)
		without("--strict", f.strict)
		return errs
	}
	if f.gpusFlag.Changed && f.gpus < 1 {
		errs = append(errs, usageError{fmt.Errorf("--gpus %d: want 1 or more", f.gpus)})
	}
	if len(formats) > 0 {
		errs = append(errs, usageError{errors.New("--compare and --format: a comparison makes files of its own: give one of them")})
	}
	if len(gates) > 0 {
		errs = append(errs, usageError{errors.New("--compare and --gate: a gate judges one run: give one of them")})
	}
	return errs
}

// run compares the runs of directories: it writes the files and prints the table, or with --json the object of compare.json.
func (f *compareFlags) run(cmd *cobra.Command, dirs []string, out string, asJSON bool) error {
	if len(dirs) < 2 {
		return usageError{fmt.Errorf("--compare: %d run: want two or more, or the directory of a list of them", len(dirs))}
	}
	list := make([]compare.Source, len(dirs))
	for k, dir := range dirs {
		list[k].Dir, list[k].SLO, list[k].Group = dir, f.levels, listedGroup(dir)
	}
	if err := openSources(list, f.partial); err != nil {
		return err
	}
	c, err := compare.Make(cmd.Context(), list, compare.Options{GPUs: f.gpus})
	if err != nil {
		return err
	}
	out = cmp.Or(out, ".")
	names, err := c.Write(cmd.Context(), out)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), c)
	} else {
		printComparison(cmd.OutOrStdout(), c, out, names)
	}
	if err == nil && f.strict && !c.Comparable {
		err = verdictError{fmt.Errorf("--strict: the runs may not be compared: they differ in %s", c.MismatchNames())}
	}
	return err
}

// printComparison prints the table, and the paths of the files.
func printComparison(w io.Writer, c *compare.Comparison, out string, names []string) {
	var table bytes.Buffer
	_ = c.WriteTable(&table, terminalWidth(w)) // a buffer always takes it
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, sanitize(strings.TrimSuffix(line, "\n"))) // names and settings are of files
	}
	fmt.Fprintln(w)
	for _, name := range names {
		fmt.Fprintln(w, filepath.Join(out, name))
	}
}
