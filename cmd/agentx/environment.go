package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// readEnvironment sets flags from AGENTX_FLAG in the environment, unless the command line sets them.
func readEnvironment(flags *pflag.FlagSet) error {
	var p problems
	flags.VisitAll(func(f *pflag.Flag) {
		name := twin(f.Name)
		if v, ok := os.LookupEnv(name); ok && !f.Changed && f.Name != "version" {
			if err := flags.Set(f.Name, v); err != nil {
				p.add("%s=%s: %w", name, v, explainValue(err))
				return
			}
			_ = flags.SetAnnotation(f.Name, originNote, []string{fromEnvironment, name}) // the flag exists
		}
	})
	return p.err()
}

// twin returns the name of the variable that sets a flag.
func twin(flag string) string {
	return "AGENTX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
