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
		_, row := f.Value.(flagValue) // whose Set reads the environment itself
		name := Variable(f.Name)
		if v, ok := os.LookupEnv(name); ok && !row && !f.Changed && f.Name != "version" {
			if err := flags.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s=%s: %w", name, v, Explain(err)))
				return
			}
			_ = flags.SetAnnotation(f.Name, originNote, []string{FromEnvironment, name}) // the flag exists
		}
	})
	return errs
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
