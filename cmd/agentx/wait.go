package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// waitFlags say how long to wait for another process that makes the same cache.
type waitFlags struct {
	wait   time.Duration
	noWait bool
}

func (f *waitFlags) register(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &f.wait, "wait", 0, "how long to wait for another process that makes the same cache; 0: no limit")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "fail at once when another process makes the same cache")
}

// limit returns how long to wait: 0 is without limit, below 0 not at all. Errors are usage errors.
func (f *waitFlags) limit() (time.Duration, error) {
	switch {
	case f.wait < 0:
		return 0, usageError{fmt.Errorf("--wait %s: want no negative value", f.wait)}
	case f.noWait && f.wait > 0:
		return 0, usageError{errors.New("--wait, --no-wait: choose one")}
	case f.noWait:
		return -1, nil
	}
	return f.wait, nil
}
