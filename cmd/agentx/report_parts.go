package main

import (
	"errors"

	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/report/compare"
)

// openResults opens the results of a run, or of the parts of a load.
func openResults(dir string, partial bool) (*merge.Run, error) {
	run, err := merge.Open(dir, merge.Options{Partial: partial})
	var incomplete *merge.IncompleteError
	if errors.As(err, &incomplete) && !partial {
		return nil, hintError{err, "--partial, which reports the parts that there are and says so"}
	}
	return run, err
}

// openSources opens those of the runs to compare that are parts of a load: the others are opened one after the other when they are read.
func openSources(list []compare.Source, partial bool) (err error) {
	for k := range list {
		if !merge.IsLoad(list[k].Dir) {
			continue
		}
		if list[k].Files, err = openResults(list[k].Dir, partial); err != nil {
			return err
		}
	}
	return nil
}
