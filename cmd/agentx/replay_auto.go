package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/slo"
)

// auto is the value of --concurrency that searches, alone or with a range.
const (
	auto        = "auto"
	autoPattern = `auto(:[1-9][0-9]*-[1-9][0-9]*)?`
)

// What a search does unless it is told otherwise.
const (
	defaultProbe = 120 * time.Second
	defaultDrain = 5 * time.Second
)

// autoRange is the range of a search; a nil one does not search.
type autoRange struct {
	capacity.Search
	text string // as the user wrote it
}

var autoText = regexp.MustCompile("^" + autoPattern + "$")

// parseAuto reads auto or auto:FROM-TO, with numbers of lanes up to most; ok is false for a text that is neither.
func parseAuto(text string, most int) (a *autoRange, ok bool) {
	if !autoText.MatchString(text) {
		return nil, false
	}
	a = &autoRange{capacity.Search{From: 1, To: most}, text}
	if _, list, ranged := strings.Cut(text, ":"); ranged {
		from, to, _ := strings.Cut(list, "-")
		var errs [2]error
		a.From, errs[0] = strconv.Atoi(from)
		a.To, errs[1] = strconv.Atoi(to)
		ok = errs[0] == nil && errs[1] == nil && a.To <= most
		return a, ok && a.Validate() == nil
	}
	return a, true
}

// lanes is the value of --concurrency: numbers with commas between, or a search.
type lanes struct {
	counts
	search *autoFlags
}

func (l lanes) String() string {
	if l.search != nil && l.search.auto != nil {
		return l.search.auto.text
	}
	return l.counts.String()
}

// Set replaces all numbers, or the search. A search has the first number of its range.
func (l lanes) Set(text string) error {
	if a, ok := parseAuto(text, replay.MaxConcurrency); ok {
		l.search.auto, *l.to = a, []int{a.From}
		return nil
	}
	if strings.HasPrefix(text, auto) {
		l.search.refused = true
		return fmt.Errorf("want auto, or auto:FROM-TO with 1 to %d lanes, the smaller number first", replay.MaxConcurrency)
	}
	l.search.auto = nil
	return l.counts.Set(text)
}

// autoFlags are those of a search.
type autoFlags struct {
	auto    *autoRange // nil: there is no search
	refused bool       // one was asked for in a way that means nothing, which is said already
	drain   time.Duration
}

func (f *autoFlags) register(flags *pflag.FlagSet) {
	durationVar(flags, &f.drain, "drain", defaultDrain, "with --concurrency auto: pause before every probe but the first, in which the servers drain")
}

// resolveSearch sets how long a probe lasts where nothing does, and adds what a search cannot do.
func (f *replayFlags) resolveSearch() {
	if f.auto.auto == nil {
		if f.flags.Lookup("drain").Changed && !f.auto.refused {
			f.add("%s: nothing is searched: it goes with --concurrency auto", f.named("drain"))
		}
		return
	}
	if f.duration == 0 && f.requests == 0 && f.trees == 0 {
		f.duration = defaultProbe
	}
	for _, name := range []string{"stop-on-failure", "repeat", "until"} {
		if f.flags.Lookup(name).Changed {
			f.add("%s: a search plays probes of its own choice, each once: leave it out", f.named(name))
		}
	}
}

// checkLevels adds what is wrong with the service levels of a search.
func (f *replayFlags) checkLevels(levels []slo.Condition) {
	if f.auto.auto == nil {
		return
	}
	for _, c := range levels {
		if !c.OfEach {
			return
		}
	}
	f.errs = append(f.errs, hintError{
		usageError{fmt.Errorf("%s %s: no service level on the run to search by", f.named("concurrency"), f.auto.auto.text)},
		"--slo 'ttft.p95<2s', or another metric of the run with a limit",
	})
}
