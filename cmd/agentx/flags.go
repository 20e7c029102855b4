package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/settings"
)

// duration is a flag value: Go's form (90s, 10m) or a plain number of seconds.
type duration struct{ to *time.Duration }

func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var(duration{to}, name, usage)
	if value == 0 { // then usage prints no default
		flags.Lookup(name).DefValue = "0"
	}
}

func (d duration) String() string {
	if d.to == nil || *d.to == 0 {
		return "0s"
	}
	return d.to.String()
}

func (d duration) Type() string { return "duration" }

func (d duration) Set(text string) (err error) {
	v, err := settings.ParseDuration(text)
	if err == nil {
		*d.to = v
	}
	return err
}

// age is a flag value: a duration, or a number of days (7d).
type age struct{ duration }

func ageVar(flags *pflag.FlagSet, to *time.Duration, name, usage string) {
	flags.Var(age{duration{to}}, name, usage)
}

func (a age) String() string {
	if a.to == nil || *a.to == 0 {
		return ""
	}
	return a.to.String()
}

func (a age) Type() string { return "age" }

func (a age) Set(text string) error {
	wrong := fmt.Errorf("want an age such as 7d, 90m or seconds")
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, ok := number(days)
		if !ok || n > 100_000 { // a time.Duration holds little more
			return wrong
		}
		*a.to = time.Duration(n * 24 * float64(time.Hour))
		return nil
	}
	if err := a.duration.Set(text); err != nil || *a.to < 0 {
		return wrong
	}
	return nil
}

// seed is a flag value: a whole number of 64 bits, signed or not.
type seed struct{ to *string }

func seedVar(flags *pflag.FlagSet, to *string, name, value, usage string) {
	*to = value
	flags.Var(seed{to}, name, usage)
}

func (s seed) String() string {
	if s.to == nil {
		return ""
	}
	return *s.to
}

func (s seed) Type() string { return "int" }

func (s seed) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*s.to = strconv.FormatInt(n, 10)
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	*s.to = strconv.FormatUint(n, 10)
	return nil
}

// seedOf returns the bits of a seed, if the back-end takes it.
func seedOf(text, backend string) (int64, error) {
	signed, signedErr := strconv.ParseInt(text, 10, 64)
	unsigned, unsignedErr := strconv.ParseUint(text, 10, 64)
	switch {
	case backend == weka.SHA256MT && unsignedErr != nil:
		return 0, fmt.Errorf("want 0 to %d, as AIPerf takes it", uint64(math.MaxUint64))
	case backend != weka.SHA256MT && signedErr != nil:
		return 0, fmt.Errorf("want %d to %d: only --profile aiperf takes more", math.MinInt64, math.MaxInt64)
	case signedErr != nil:
		return int64(unsigned), nil
	}
	return signed, nil
}

// size is a flag value: bytes, with k, M, G or T for powers of 1000, Ki, Mi, Gi or Ti for powers of 1024.
type size struct{ to *int64 }

func (s size) String() string {
	if s.to == nil || *s.to < 0 {
		return ""
	}
	return strconv.FormatInt(*s.to, 10)
}

func (s size) Type() string { return "size" }

func (s size) Set(text string) error {
	digits := strings.TrimRight(text, "BikKMGT")
	unit := strings.TrimSuffix(text[len(digits):], "B")
	factor, ok := map[string]float64{
		"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "ki": 1 << 10, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
	}[unit]
	n, isNumber := number(digits)
	if !ok || !isNumber || n*factor >= 1<<63 {
		return fmt.Errorf("want a size such as 500M, 20G or 1.5Gi")
	}
	*s.to = int64(n * factor)
	return nil
}

// number parses digits with at most one decimal point: no sign, no exponent, no inf or nan.
func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && strings.Trim(text, "0123456789.") == ""
}
