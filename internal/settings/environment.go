package settings

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// ReadEnvironment sets flags that are no settings from AGENTX_FLAG in the environment, unless the command line sets them. It returns
// everything that is wrong.
func ReadEnvironment(flags *pflag.FlagSet) (errs []error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := Variable(f.Name)
		if v, ok := os.LookupEnv(name); ok && !f.Changed && f.Name != "version" {
			if err := flags.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s=%s: %w", name, v, Explain(err)))
				return
			}
			_ = flags.SetAnnotation(f.Name, originNote, []string{FromEnvironment, name}) // the flag exists
		}
	})
	return errs
}
