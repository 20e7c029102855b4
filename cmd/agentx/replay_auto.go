package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/slo"
)

// auto is the value of --concurrency that searches, alone or with a range.
const auto = "auto"

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

// parseAuto reads auto or auto:FROM-TO, with numbers of lanes up to most; ok is false for a text that is neither.
func parseAuto(text string, most int) (a *autoRange, ok bool) {
	from, to, ok := settings.ParseAuto(text, most)
	return &autoRange{capacity.Search{From: from, To: to}, text}, ok
}

// lanes is the value of --concurrency: numbers, or a search, which has the first number of its range.
type lanes struct {
	counts []int
	auto   *autoRange // nil: there is no search
}

func (l lanes) String() string {
	if l.auto != nil {
		return l.auto.text
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(l.counts), " ", ","), "[]")
}

// MarshalJSON returns one number as such.
func (l lanes) MarshalJSON() ([]byte, error) {
	switch {
	case l.auto != nil:
		return json.Marshal(l.auto.text)
	case len(l.counts) == 1:
		return json.Marshal(l.counts[0])
	}
	return json.Marshal(l.counts)
}

// lanesKind is one number of lanes, several with commas between, none twice, or a search.
func lanesKind() settings.Kind {
	const most = replay.MaxConcurrency
	one := settings.Whole(1, most)
	k := settings.Kind{Want: one.Want + ", several with commas between, none twice, or auto:FROM-TO", Type: "int", Commas: true, Tags: []string{settings.Int, settings.Text}}
	k.Schema = map[string]any{"anyOf": []any{
		one.Schema, map[string]any{"type": "array", "items": one.Schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^([1-9][0-9]*( *, *[1-9][0-9]*)*|" + settings.AutoPattern + ")$"},
	}}
	k.Read = func(text string) (any, bool) {
		if a, ok := parseAuto(text, most); ok {
			return lanes{[]int{a.From}, a}, true
		}
		list, err := readCounts(text)
		ok := err == nil
		for i, n := range list {
			ok = ok && n >= 1 && n <= most && !slices.Contains(list[:i], n)
		}
		return lanes{counts: list}, ok
	}
	k.Why = func(text string) error {
		if strings.HasPrefix(text, auto) {
			return fmt.Errorf("want auto, or auto:FROM-TO with 1 to %d lanes, the smaller number first", most)
		}
		if _, err := readCounts(text); err != nil {
			return err
		}
		return errors.New("want " + k.Want)
	}
	return k
}

func readCounts(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, errors.New("want a whole number, or several with commas between")
		}
		list = append(list, n)
	}
	return list, nil
}

// autoFlags are --concurrency, and those of a search.
type autoFlags struct {
	lanes
	drain time.Duration
}

// resolveSearch sets how long a probe lasts where nothing does, and adds what a search cannot do.
func (f *replayFlags) resolveSearch() {
	if f.auto.auto == nil {
		if f.set.IsSet("drain") && !f.set.Refused("concurrency") { // which is told already
			f.add("%s: works only with --concurrency auto", f.named("drain"))
		}
		return
	}
	if f.o.Duration == 0 && f.o.Requests == 0 && f.o.Trees == 0 {
		f.o.Duration = defaultProbe
	}
	for _, name := range []string{"stop-on-failure", "repeat", "until"} {
		if f.set.IsSet(name) {
			f.add("%s: a search plays probes of its own choice, each once: leave it out", f.named(name))
		}
	}
}

// checkLevels adds what is wrong with the service levels of a search.
func (f *replayFlags) checkLevels(levels []slo.Condition) {
	if f.auto.auto == nil {
		return
	}
	if slices.ContainsFunc(levels, func(c slo.Condition) bool { return !c.OfEach }) || f.slo.wrong {
		return
	}
	f.errs = append(f.errs, hintError{
		usageError{fmt.Errorf("%s %s: the search needs a service level of the run, and none is given", f.named("concurrency"), f.auto.auto.text)},
		"--slo 'ttft.p95<2s', or another metric of the run with a limit",
	})
}
