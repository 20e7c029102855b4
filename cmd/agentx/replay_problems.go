package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// problems are all errors of a command line, an environment and a file.
type problems struct {
	errs  []error
	shown string // how errors name the value that is being set; "": as a flag
}

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, usageError{fmt.Errorf(format, args...)})
}

// addOnce adds an error unless one reads the same.
func (p *problems) addOnce(err error) {
	if !slices.ContainsFunc(p.errs, func(other error) bool { return other.Error() == err.Error() }) {
		p.add("%w", err)
	}
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

// checkedValue is the value of a flag that collects what is wrong with it. So all errors of a command line are told.
type checkedValue struct {
	pflag.Value
	flag, empty string // its name, and its default, which is always good
	kind        kind   // of its values; without parse: any that the flag takes
	*problems
}

// Set sets the value, if it is good. It returns no error.
func (c checkedValue) Set(text string) error {
	before := c.String()
	err := explainValue(c.Value.Set(text))
	if err == nil && c.kind.parse != nil && text != c.empty {
		_, err = c.kind.read(text)
	}
	if err != nil {
		_ = c.Value.Set(before) // a value of the flag
		c.add("%s: %w", cmp.Or(c.shown, flagText(c.flag, text)), err)
	}
	return nil
}

// flagText returns a flag with its value as a user writes it.
func flagText(name, text string) string {
	if text == "" {
		text = `""`
	}
	return "--" + name + " " + text
}

// checkFlags makes every flag a checkedValue.
func checkFlags(flags *pflag.FlagSet, p *problems) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list && !isAlias(f) {
			f.Value = checkedValue{f.Value, f.Name, f.DefValue, flagKinds[f.Name], p}
		}
	})
}

// wrongFlags returns everything that is wrong with a command line that has a flag that does not exist: it reads the rest
// without that flag.
func (f *replayFlags) wrongFlags(cmd *cobra.Command, c *convertFlags, err error) error {
	args, _ := cmd.Context().Value(commandLine{}).([]string)
	args = slices.Clone(args)
	var unknown []error
	for err != nil {
		unknown = append(unknown, flagError(cmd, err))
		var named *pflag.NotExistError
		if !errors.As(err, &named) {
			break
		}
		wrong := "--" + named.GetSpecifiedName()
		k := slices.IndexFunc(args, func(a string) bool { return a == wrong || strings.HasPrefix(a, wrong+"=") })
		if k < 0 { // such as -x
			break
		}
		args = slices.Delete(args, k, k+1)
		f.errs, c.set = nil, nil // they are read once more
		err = cmd.Flags().Parse(args)
	}
	f.resolve(cmd, c)
	return errorList(slices.Concat(unknown, f.errs, f.scenario.errors()))
}
