package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/scenario"
)

// The harness of AgentX is a fork of AIPerf with a command of its own, `agentx profile`. This file has only what differs from AIPerf.

// harnessLacks are flags of the table that agentx-harness 1.0.12 does not have.
var harnessLacks = strings.Fields(`--per-chunk-usage --random-corpus-style --random-range-ratio --reset-kv-cache --reset-kv-cache-path
	--reset-kv-cache-timeout-seconds --server-profiler --server-profiler-start-path --server-profiler-stop-path
	--server-profiler-timeout-seconds --system-prompt --system-prompt-file --use-dynamo-conv-aware-routing --dynamo-session-timeout-seconds`)

// HarnessFlags returns the names of the flags of the harness.
func HarnessFlags() []string {
	return slices.DeleteFunc(Flags(), func(name string) bool { return slices.Contains(harnessLacks, name) })
}

// flagNamed returns the flag with a name, nil if the tool has none.
func (t *translation) flagNamed(name string) *flag {
	if t.Harness && slices.Contains(harnessLacks, name) {
		return nil
	}
	return flagNamed(name)
}

// harnessScenario is the scenario of a command line of the harness that has neither --scenario nor --config.
var harnessScenario = scenario.AgentX()

// takeScenario adds the scenario of the harness if the command line names none. As the harness does, it looks at all words up to --.
func (t *translation) takeScenario() {
	words := t.Args
	if k := slices.Index(words, "--"); k >= 0 {
		words = words[:k]
	}
	named := slices.ContainsFunc(words, func(w string) bool {
		return w == "--scenario" || w == "--config" || strings.HasPrefix(w, "--scenario=") || strings.HasPrefix(w, "--config=") || strings.HasPrefix(w, "-f")
	})
	if _, given := t.given["--scenario"]; !named && !given {
		t.given["--scenario"] = given1("--scenario", harnessScenario.Name)
	}
}

// dropOverride removes --unsafe-override from a command line without a scenario, as the harness does.
func (t *translation) dropOverride() {
	if !t.has("--scenario") && t.has("--unsafe-override") {
		delete(t.given, "--unsafe-override")
		t.note("--unsafe-override: there is no scenario, and nothing to override")
	}
}

// given1 returns a flag with one value.
func given1(name, value string) given { return given{name, []string{value}} }

// presumed reports whether the values of the harness's scenario count as if they were given: not beside a file.
func (t *translation) presumed() bool { return t.inAgentX() && !t.has("--config") }

// inAgentX reports whether the run is under the scenario of the harness.
func (t *translation) inAgentX() bool { return t.value("--scenario") == harnessScenario.Name }

// addHarness adds what the harness does differently from agentx replay: it sends nothing before a run. Beside a file its scenario gives only a
// duration, ratios and what it locks, so other values of the scenario are switched off.
func (t *translation) addHarness() {
	t.set("no-preflight", true)
	t.set("no-calibrate", true)
	if !t.inAgentX() || t.presumed() {
		return
	}
	for _, off := range []struct{ unless, setting, value string }{
		{"--warmup-requests-per-lane --agentic-cache-warmup-duration", "warmup", "primers"},
		{"--agentic-warmup-grace-period --warmup-grace-period", "warmup-grace", "off"},
		{"--trace-idle-gap-cap-seconds", "trace-idle-cap", "off"},
		{"--failed-request-threshold", "max-error-rate", "0"},
		{"--num-dataset-entries --conversation-num --request-count", "limit-traces", "0"},
		{"--slice-duration", "slice-duration", "0"},
	} {
		if !slices.ContainsFunc(strings.Fields(off.unless), t.has) {
			t.set(off.setting, off.value)
		}
	}
}

// timing is the conflict of flags that would send requests at other times than the recorded ones.
const timing scenario.Reason = "timing"

// otherTimings are such flags, and flags that only work with them.
var otherTimings = [][]string{
	{"--request-rate", "--request-rate-series", "--user-centric-rate", "--fixed-schedule"},
	{"--arrival-pattern", "--arrival-smoothness", "--request-rate-ramp-duration", "--num-users", "--fixed-schedule-auto-offset",
		"--fixed-schedule-start-offset", "--fixed-schedule-end-offset"},
}

// findLocked removes flags that the harness locks, if agentx replay cannot know of them, or only when the input is converted. It notes their
// conflicts in t.locked. With --unsafe-override nothing is locked.
func (t *translation) findLocked() {
	known := slices.ContainsFunc(scenario.All(), func(s scenario.Scenario) bool { return s.Name == t.value("--scenario") })
	if !known || t.has("--unsafe-override") {
		return
	}
	lock := func(reason scenario.Reason, want, try string, names ...string) {
		for _, name := range names {
			if g, ok := t.given[name]; ok {
				t.locked = append(t.locked, scenario.Conflict{Reason: reason, What: strings.TrimSuffix(g.shown(), " true"), Want: want, Try: try})
				delete(t.given, name)
			}
		}
	}
	timings := slices.DeleteFunc(slices.Clone(otherTimings[0]), func(name string) bool { return !t.has(name) })
	if lock(timing, "requests at their recorded times", "leave it out", timings...); len(t.locked) > 0 {
		for _, name := range otherTimings[1] {
			delete(t.given, name)
		}
	}
	if !t.has("--streaming") {
		lock(scenario.Streaming, "streamed answers", "leave it out", "--streaming")
	}
	lock(scenario.InputTruncation, "every recorded request", "leave it out", "--synthesis-max-isl")
	pinned := "the corpus of a name of --public-dataset, or --hf-weka-dataset " + scenario.Generic
	switch g, weka := t.given["--hf-weka-dataset"], t.has("--hf-weka-dataset"); {
	case weka && g.value() != scenario.Generic:
		t.locked = append(t.locked, scenario.Conflict{Reason: scenario.UnknownCorpus, What: g.shown(), Want: pinned, Try: "such as --public-dataset " + scenario.GenericName})
	case !weka && t.has("--input-file") && !t.has("--public-dataset"):
		t.locked = append(t.locked, scenario.Conflict{Reason: scenario.UnknownCorpus, What: t.given["--input-file"].shown() + " is local", Want: pinned, Try: "such as --public-dataset " + scenario.GenericName})
	}
}

// tryOverride is the hint beside conflicts with a scenario.
const tryOverride = "--unsafe-override starts such a run; its result is not valid"

// addLocked adds the conflicts that findLocked found.
func (t *translation) addLocked() {
	for _, c := range t.locked {
		t.addProblem(Problem{fmt.Errorf("--scenario %s: %w", t.value("--scenario"), c), tryOverride})
	}
}

// overflowTexts replaces the texts by which an overflow is recognized with those that the variable lists.
func overflowTexts(t *translation, name, value string) {
	var texts []string
	if err := json.Unmarshal([]byte(value), &texts); err != nil {
		t.add("%s: %w", name, errors.New("want a JSON list of texts"))
		return
	}
	t.set("overflow-words", "none")
	for _, text := range texts {
		if text != "" {
			t.set("overflow-pattern", regexp.QuoteMeta(text))
		}
	}
}

// overflowLimit refuses a limit of overflows that differs from agentx's own.
func overflowLimit(t *translation, name, value string) {
	if x, err := number(value); err != nil || x != 0.01 {
		t.add("not supported: %s=%s: a run with more overflows than 0.01 of its requests is not valid: leave it out", name, value)
	}
}
