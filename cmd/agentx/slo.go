package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// sloFlags are the service levels of a command.
type sloFlags struct{ texts []string }

// register adds --slo. usage ends its help.
func (f *sloFlags) register(flags *pflag.FlagSet, usage string) {
	flags.StringArrayVar(&f.texts, "slo", nil, "service level NAME<VALUE: 'ttft<2s' on every request, 'ttft.p95<2s' on the run (repeatable; the shell wants quotes); "+usage)
}

// conditions returns the service levels, and what is wrong with them. Two that are equal are one.
func (f *sloFlags) conditions() (list []slo.Condition, errs []error) {
	for _, text := range f.texts {
		c, err := measure.ParseCondition(text)
		switch {
		case err != nil:
			errs = append(errs, usageError{fmt.Errorf("%s: %w", settings.FlagText("slo", text), err)})
		case !slices.Contains(list, c):
			list = append(list, c)
		}
	}
	return list, errs
}
