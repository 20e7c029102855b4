package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert/rules"
)

// value is a flag whose text a function reads.
type value[T any] struct {
	to    *T
	typed string
	read  func(text string) (T, error)
	show  func(T) string // its default in the help, "" for none
}

func (v value[T]) Type() string { return v.typed }

func (v value[T]) String() string { return v.show(*v.to) }

// Set reads the text of the flag.
func (v value[T]) Set(text string) error {
	got, err := v.read(text)
	if err == nil {
		*v.to = got
	}
	return err
}

// duration is a flag that takes a duration in Go's form (90s, 10m) or a plain number of seconds.
func duration(to *time.Duration) value[time.Duration] {
	return value[time.Duration]{to, "duration", settings.ParseDuration, time.Duration.String}
}

// durationVar adds a flag of a duration to flags, with the default d.
func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, d time.Duration, usage string) {
	*to = d
	flags.Var(duration(to), name, usage)
	if d == 0 { // then usage prints no default
		flags.Lookup(name).DefValue = "0"
	}
}

// age is a flag that takes a duration, or a number of days (7d).
func age(to *time.Duration) value[time.Duration] {
	return value[time.Duration]{to, "age", readAge, func(d time.Duration) string { return strings.TrimPrefix(d.String(), "0s") }}
}

// readAge reads a duration or a number of days, 0 or more.
func readAge(text string) (time.Duration, error) {
	d, err := settings.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, isNumber := number(days)
		if d, err = time.Duration(n*24*float64(time.Hour)), nil; !isNumber || n > 100_000 { // a time.Duration holds little more
			d = -1
		}
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want an age such as 7d, 90m or seconds")
	}
	return d, nil
}

// seed is a flag that takes a whole number of 64 bits, signed or not. seedOf checks its range.
func seed(to *string) value[string] {
	return value[string]{to, "int", func(text string) (string, error) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
		n, err := strconv.ParseUint(text, 10, 64)
		return strconv.FormatUint(n, 10), err
	}, func(text string) string { return text }}
}

// seedOf returns a seed as 64 bits. Which range is allowed depends on the backend of the reconstruction.
func seedOf(text, backend string) (int64, error) {
	signed, signedErr := strconv.ParseInt(text, 10, 64)
	unsigned, unsignedErr := strconv.ParseUint(text, 10, 64)
	switch {
	case backend == rules.SHA256MT && unsignedErr != nil:
		return 0, fmt.Errorf("want 0 to %d, as AIPerf takes it", uint64(math.MaxUint64))
	case backend != rules.SHA256MT && signedErr != nil:
		return 0, fmt.Errorf("want %d to %d: only --profile aiperf takes more", math.MinInt64, math.MaxInt64)
	case signedErr != nil:
		return int64(unsigned), nil
	}
	return signed, nil
}

// size is a flag that takes a number of bytes, with k, M, G or T for powers of 1000, Ki, Mi, Gi or Ti for powers of 1024. A negative default
// is none.
func size(to *int64) value[int64] {
	return value[int64]{to, "size", func(text string) (int64, error) {
		digits := strings.TrimRight(text, "BikKMGT")
		unit := strings.TrimSuffix(text[len(digits):], "B")
		factor, ok := map[string]float64{
			"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "ki": 1 << 10, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
		}[unit]
		n, isNumber := number(digits)
		if !ok || !isNumber || n*factor >= 1<<63 {
			return 0, fmt.Errorf("want a size such as 500M, 20G or 1.5Gi")
		}
		return int64(n * factor), nil
	}, func(n int64) string { return strings.TrimPrefix(strconv.FormatInt(max(n, -1), 10), "-1") }}
}

// number parses digits with at most one decimal point: no sign, no exponent, no inf or nan.
func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && strings.Trim(text, "0123456789.") == ""
}

// problems collect all errors of a command line, the environment and a file, so that a user sees them at once.
type problems struct{ errs []error }

// tell adds a usage error, with a hint or "".
func (p *problems) tell(err error, hint string) {
	if err = (usageError{err}); hint != "" {
		err = hintError{err, hint}
	}
	p.errs = append(p.errs, err)
}

// add adds a usage error.
func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, usageError{fmt.Errorf(format, args...)})
}

// err returns all errors as one, nil if there are none.
func (p *problems) err() error {
	if len(p.errs) == 0 {
		return nil
	}
	return errorList(p.errs)
}
