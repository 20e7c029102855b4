package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
)

// settings are the options of a replay that --set takes, by name: the meaning, and where the value is. None has a flag.
var settings = map[string]struct {
	about string
	at    func(o *replay.Options) any
}{
	"LaneStartCap":      {"longest time to the first request of a lane", func(o *replay.Options) any { return &o.Limits.LaneStart }},
	"TreeIdleCap":       {"longest time that a tree has no request in flight", func(o *replay.Options) any { return &o.Switches.TreeIdleCap }},
	"SystemIdleCap":     {"longest time that no request at all is in flight", func(o *replay.Options) any { return &o.Limits.SystemIdle }},
	"PrefillLimit":      {"requests that may wait for their first token at a time", func(o *replay.Options) any { return &o.Limits.Prefill }},
	"StartMinRatio":     {"with --start sampled: where in a trace lanes begin at the earliest, 0 to 1", func(o *replay.Options) any { return &o.Start.Ratios.Min }},
	"StartMaxRatio":     {"with --start sampled: where in a trace lanes begin at the latest, 0 to 1", func(o *replay.Options) any { return &o.Start.Ratios.Max }},
	"BurstStart":        {"with --start sampled: start all lanes at once, not as far apart as drawn", func(o *replay.Options) any { return &o.Start.Burst }},
	"SamplerOrder":      {"order in which lanes get traces: sequential, shuffle, random", func(o *replay.Options) any { return &o.Order }},
	"AllowWrap":         {"allow more lanes than traces also without a marker", func(o *replay.Options) any { return &o.AllowWrap }},
	"StopOnWedge":       {"end the run when a tree deadlocks", func(o *replay.Options) any { return &o.StopOnDeadlock }},
	"WaitReadyMode":     {"how --wait-ready knows that a server serves the model: inference, a request for one token; models, its list of models; both", func(o *replay.Options) any { return &o.Readiness.Mode }},
	"WaitReadyInterval": {"how long --wait-ready waits between two attempts", func(o *replay.Options) any { return &o.Readiness.Interval }},
	"ResetCachePath":    {"path of --reset-cache, below the root of a server", func(o *replay.Options) any { return &o.CacheReset.Path }},
	"ResetCacheTimeout": {"longest time of one attempt of --reset-cache", func(o *replay.Options) any { return &o.CacheReset.Timeout }},
	"BackOff":           {"longest pause of a lane whose connections fail; the first is 1 s, each next twice as long", func(o *replay.Options) any { return &o.Backoff }},
}

// applySettings applies the --set values that name an option of a replay. It returns the others, which are rules of the
// reconstruction.
func applySettings(o *replay.Options, list []string) (others []string, err error) {
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		setting, known := settings[name]
		switch {
		case !ok:
			return nil, usageError{fmt.Errorf("--set %s: want NAME=VALUE", s)}
		case known:
			if err := set(setting.at(o), value); err != nil {
				return nil, usageError{fmt.Errorf("--set %s=%s: %w", name, value, err)}
			}
		case name == "backend" || slices.Contains(weka.RuleNames(), name):
			others = append(others, s)
		default:
			return nil, usageError{fmt.Errorf("--set %s: no such option: choose from %s; or a rule of the reconstruction: backend, %s",
				name, strings.Join(slices.Sorted(maps.Keys(settings)), ", "), strings.Join(weka.RuleNames(), ", "))}
		}
	}
	if r := o.Start.Ratios; o.Start.Sampled && r.Min > r.Max {
		return nil, usageError{fmt.Errorf("--set StartMinRatio=%g: more than StartMaxRatio, %g", r.Min, r.Max)}
	}
	if o.Readiness.Interval == 0 || o.CacheReset.Timeout == 0 {
		return nil, usageError{errors.New("--set WaitReadyInterval, ResetCacheTimeout: want a duration above 0")}
	}
	if err := o.CacheReset.Validate(); err != nil {
		return nil, usageError{fmt.Errorf("--set ResetCachePath: %w", err)}
	}
	return others, nil
}

// settingsHelp lists the options that --set takes, with their defaults.
func settingsHelp() string {
	defaults := defaultReplay()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := settings[name]
		fmt.Fprintf(&b, "\n  %-17s %s (default %s)", name, s.about, settingText(s.at(&defaults)))
	}
	return b.String()
}

// settingText writes the value of an option as --set takes it.
func settingText(at any) string {
	switch at := at.(type) {
	case *replay.Order:
		return nameOf(orders, *at)
	case *replay.ReadyMode:
		return nameOf(readyModes, *at)
	case *string:
		return *at
	case *replay.Backoff:
		return settingText(&at.Max)
	case *time.Duration:
		if *at == 0 {
			return "off"
		}
		return strconv.FormatFloat(at.Seconds(), 'g', -1, 64) + "s"
	case **preset.Seconds:
		d := (*at).Duration()
		return settingText(&d)
	case *int:
		if *at == 0 {
			return "off"
		}
		return strconv.Itoa(*at)
	case *float64:
		return strconv.FormatFloat(*at, 'g', -1, 64)
	case *bool:
		return strconv.FormatBool(*at)
	}
	panic(fmt.Sprintf("no option is a %T", at))
}

// set sets an option from its text.
func set(at any, value string) error {
	switch at := at.(type) {
	case *time.Duration:
		return setCap(at, value)
	case **preset.Seconds:
		return setSeconds(at, value)
	case *int:
		return setLimit(at, value)
	case *float64:
		return setRatio(at, value)
	case *bool:
		return setSwitch(at, value)
	case *replay.Order:
		return setOrder(at, value)
	case *replay.ReadyMode:
		return setReadyMode(at, value)
	case *string:
		*at = value
		return nil
	case *replay.Backoff:
		return setBackOff(at, value)
	}
	panic(fmt.Sprintf("no option is a %T", at))
}

func setCap(d *time.Duration, value string) error {
	if value == "off" {
		*d = 0
		return nil
	}
	if err := (duration{d}).Set(value); err != nil || *d <= 0 {
		return fmt.Errorf("want a duration above 0, or off")
	}
	return nil
}

func setSeconds(s **preset.Seconds, value string) error {
	var d time.Duration
	if err := setCap(&d, value); err != nil {
		return err
	}
	*s = nil
	if d > 0 {
		seconds := preset.Seconds(d.Seconds())
		*s = &seconds
	}
	return nil
}

func setBackOff(b *replay.Backoff, value string) error {
	if err := setCap(&b.Max, value); err != nil {
		return err
	}
	b.First = min(time.Second, b.Max)
	return nil
}

func setLimit(n *int, value string) (err error) {
	if value == "off" {
		*n = 0
		return nil
	}
	if *n, err = strconv.Atoi(value); err != nil || *n < 1 {
		return fmt.Errorf("want a number above 0, or off")
	}
	return nil
}

func setRatio(r *float64, value string) (err error) {
	if *r, err = strconv.ParseFloat(value, 64); err != nil || !(*r >= 0 && *r <= 1) {
		return fmt.Errorf("want 0 to 1")
	}
	return nil
}

func setSwitch(b *bool, value string) (err error) {
	if *b, err = strconv.ParseBool(value); err != nil {
		return fmt.Errorf("want true or false")
	}
	return nil
}

var orders = map[string]replay.Order{"sequential": replay.Sequential, "shuffle": replay.Shuffle, "random": replay.Random}

func setOrder(o *replay.Order, value string) error {
	var ok bool
	if *o, ok = orders[value]; !ok {
		return fmt.Errorf("want sequential, shuffle or random")
	}
	return nil
}

var readyModes = map[string]replay.ReadyMode{"inference": replay.ReadyByInference, "models": replay.ReadyByModels, "both": replay.ReadyByBoth}

func setReadyMode(m *replay.ReadyMode, value string) error {
	var ok bool
	if *m, ok = readyModes[value]; !ok {
		return fmt.Errorf("want inference, models or both")
	}
	return nil
}

// nameOf returns the name of a value that is in a table of names.
func nameOf[T comparable](names map[string]T, value T) string {
	for name, v := range names {
		if v == value {
			return name
		}
	}
	panic(fmt.Sprintf("no name for %v", value))
}
