package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// problems are all errors of a command line, an environment and a file.
type problems struct{ errs []error }

// tell adds an error of the command line, with what to try or "".
func (p *problems) tell(err error, hint string) {
	if err = (usageError{err}); hint != "" {
		err = hintError{err, hint}
	}
	p.errs = append(p.errs, err)
}

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, usageError{fmt.Errorf(format, args...)})
}

// err returns everything that is wrong, nil for nothing.
func (p *problems) err() error {
	if len(p.errs) == 0 {
		return nil
	}
	return errorList(p.errs)
}

// wrong returns everything that is wrong with a command line, conflicts with its scenario included; nil for nothing.
func (f *replayFlags) wrong() error {
	if list := slices.Concat(f.errs, f.scenario.errors()); len(list) > 0 {
		return errorList(list)
	}
	return nil
}

// wrongFlags returns everything that is wrong with a command line that has a flag that does not exist: it reads the rest
// without that flag.
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
