package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay/preset"
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

// HasRows reports whether flags are those of a Set, which reads the environment itself.
func HasRows(flags *pflag.FlagSet) (has bool) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, row := f.Value.(flagValue); row {
			has = true
		}
	})
	return has
}

// Mistyped lists the variables of an environment whose names begin as those that set flags and that nothing reads, each with the closest
// that something reads.
func Mistyped(environ, read []string) (list []string) {
	const front = "AGENTX_"
	for _, v := range switching {
		read = append(read, v.variable)
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, front) || slices.Contains(read, name) {
			continue
		}
		near := suggest.Nearest(name, read)[0]
		if now := preset.Meant(strings.TrimPrefix(name, front)); now != "" {
			near = Variable(now)
		}
		list = append(list, fmt.Sprintf("%s (the nearest that is: %s)", name, near))
	}
	slices.Sort(list)
	return list
}
