package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// duration is a flag value: Go's form (90s, 10m) or a plain number of seconds.
type duration struct{ to *time.Duration }

func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var(duration{to}, name, usage)
}

func (d duration) String() string {
	if d.to == nil || *d.to == 0 {
		return "0s"
	}
	return d.to.String()
}

func (d duration) Type() string { return "duration" }

func (d duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseFloat(text, 64); err != nil && numberErr == nil && seconds == seconds && seconds < 1e9 && seconds > -1e9 {
		v, err = time.Duration(seconds*1e9), nil
	}
	if err != nil {
		return fmt.Errorf("want a duration such as 90s or 10m, or seconds")
	}
	*d.to = v
	return nil
}
