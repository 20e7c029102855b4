package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// inEnvironment is the annotation of a flag that the environment set.
const inEnvironment = "environment"

// fromEnvironment sets flags from AGENTX_FLAG in the environment, unless the command line sets them.
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
