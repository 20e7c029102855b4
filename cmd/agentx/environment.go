package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// inEnvironment marks a flag that the environment has set.
const inEnvironment = "environment"

// fromEnvironment sets every flag that the command line does not from AGENTX_<FLAG>.
func fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "AGENTX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && !f.Changed && err == nil && f.Name != "version" {
			if setErr := flags.Set(f.Name, v); setErr != nil {
				err = usageError{fmt.Errorf("%s=%s: %w", name, v, explainValue(setErr))}
				return
			}
			_ = flags.SetAnnotation(f.Name, inEnvironment, nil) // the flag exists
		}
	})
	return err
}
