package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// Source is a run that is compared.
type Source struct {
	Dir   string          // of a run of agentx, or with files of AIPerf
	Note  string          // what the caller says of it in a line, such as whether it kept the service levels; "": nothing
	SLO   []slo.Condition // service levels that override those of the run; nil: those of the run
	Files *merge.Run      // the results in Dir, if they are open already; nil: they are opened
	Group string          // runs of one group repeat one run: they get means with Student's intervals; "": it repeats none

	Partial bool // parts of a load may be missing
}

// Options say how runs are compared. The zero value compares them with the first.
type Options struct {
	GPUs int      // that served each run: throughput is per GPU; 0: not known
	Lead []string // lines of the caller above the tables, such as the capacity that a search found

	InSeconds func(name string) bool // reports whether a setting is a number of seconds; nil: numbers are shown without units
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	if o.GPUs < 0 {
		return fmt.Errorf("gpus %d: want 1 or more", o.GPUs)
	}
	return nil
}

// maxRuns bounds the runs of one comparison: a page has a colour for eight, and a table no room for more than these.
const maxRuns = 64

func checkSources(list []Source) error {
	if len(list) < 2 {
		return errors.New("compare: one run: want two or more")
	}
	if len(list) > maxRuns {
		return fmt.Errorf("compare: %d runs: want at most %d", len(list), maxRuns)
	}
	return nil
}

// namesOf returns short names of directories, none twice: their last part, with the parts before it where that is not enough.
func namesOf(list []Source) []string {
	paths := make([][]string, len(list))
	for k, s := range list {
		path := s.Dir
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		paths[k] = strings.Split(filepath.ToSlash(path), "/")
	}
	names := make([]string, len(list))
	for k, path := range paths {
		for n := 1; n <= len(path); n++ {
			names[k] = strings.Join(path[len(path)-n:], "/")
			if !sharesEnd(paths, k, n) {
				break
			}
		}
	}
	return numbered(names)
}

// sharesEnd reports whether another path, which is not the same, has the same last n parts.
func sharesEnd(paths [][]string, k, n int) bool {
	end := strings.Join(paths[k][len(paths[k])-n:], "/")
	return slices.ContainsFunc(paths, func(path []string) bool {
		return !slices.Equal(path, paths[k]) && len(path) >= n && strings.Join(path[len(path)-n:], "/") == end
	})
}

// numbered adds a number to names that are there again: the same directory was given twice.
func numbered(names []string) []string {
	seen := map[string]int{}
	for k, name := range names {
		seen[name]++
		if n := seen[name]; n > 1 {
			names[k] = fmt.Sprintf("%s (%d)", name, n)
		}
	}
	return names
}

// exists reports whether a directory has a file.
func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
