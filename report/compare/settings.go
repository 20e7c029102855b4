package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// settings are those of one run: texts by name. What is not there is not known.
type settings map[string]string

// mustEqual are the settings that two runs must share to be compared, with what they are called, in the order of the banner.
// Deviations from the preset follow: those are options.
var mustEqual = []struct{ name, title string }{
	{"dataset", "dataset key"}, {"profile", "profile"}, {"seed", "seed"}, {"preset", "preset"}, {"scenario", "scenario"},
	{"model", "model"}, {"payload", "payload"}, {"marker", "marker"}, {"throughput", "definition of throughput"},
}

// mayDiffer are settings of which it says nothing whether two runs can be compared that they differ: the load, the server, and who ran it.
var mayDiffer = []string{
	"concurrency", "server", "version", "commit", "host",
	"duration", "requests", "trees", "once", "header", "slo", "until", "prefault",
	"Grace", "RequestTimeout", "StallTimeout", "FirstByteTimeout", "RetryAfter", "FailedRequestThreshold", "StopOnWedge", "BackOff", "TCPUserTimeout", "WaitReady", "WaitReadyMode",
	"WaitReadyInterval", "Calibrate", "ResetCachePath", "ResetCacheTimeout", "StatsInterval", "CorrelationHeader", "SessionHeaders",
}

// playedFlags are flags without a twin among the named options that decide what is sent.
var playedFlags = []string{"limit-traces", "max-context", "extra-body", "max-tokens-field", "no-ignore-eos", "no-stream-options", "overflow-pattern"}

// named are options that stand among the settings under another name.
var named = []string{"Marker", "Preset", "Scenario", "Seed", "Model", "Payload"}

// settingsOf returns the settings of a run of agentx.
func settingsOf(info *measure.RunInfo, rules measure.Rules) settings {
	s := settings{
		"dataset": info.Dataset.Key, "profile": info.Dataset.Profile + changes(info.Dataset.Changed), "preset": info.Preset, "model": info.Model,
		"scenario": "none", "throughput": definition(info, rules), "concurrency": strconv.Itoa(info.Lanes), "server": strings.Join(info.URLs, ", "),
		"version": info.Version, "commit": info.Commit, "host": info.Host, "seed": drawsSeed(info.Dataset.Draws),
	}
	if sc := info.Scenario; sc != nil {
		s["scenario"] = sc.Name
		if len(sc.Overridden) > 0 {
			s["scenario"] += ", overridden: " + strings.Join(sc.Overridden, "; ")
		}
	}
	if info.Arrivals != nil && info.Lanes == 0 {
		s["concurrency"] = "no cap"
	}
	for _, o := range info.Options {
		value := plainText(o.Value)
		switch {
		case o.Name == "Marker" || o.Name == "payload" || o.Name == "seed":
			s[strings.ToLower(o.Name)] = value
		case slices.Contains(named, o.Name):
		case isNamedOption(o.Name), slices.Contains(playedFlags, o.Name), slices.Contains(mayDiffer, o.Name) && s[o.Name] == "":
			s[o.Name] = value
		}
	}
	return s
}

// isNamedOption reports whether an option is one of those that --set takes, which begin with a capital.
func isNamedOption(name string) bool { return name != "" && name[0] >= 'A' && name[0] <= 'Z' }

// definition says what the throughputs divide by, and which requests they are over.
func definition(info *measure.RunInfo, rules measure.Rules) string {
	window := "from the first request to the last token"
	switch {
	case rules.DeliveredOnly:
		window = "what was delivered by the deadline"
	case rules.PhaseWindow && !info.Facts.WholePhase().IsMissing():
		window = "length of the phase"
	}
	of := "requests that ended by the deadline"
	if rules.GraceIncluded {
		of = "requests of the grace, too"
	}
	return fmt.Sprintf("%s; %s; inter-token latency over %s", window, of, rules.DivisorRule())
}

// changes are the rules of a reconstruction that are not the profile's, as the end of a line.
func changes(changed json.RawMessage) string {
	if text := plainText(changed); text != "" && text != "off" && text != "{}" {
		return ", changed: " + text
	}
	return ""
}

func drawsSeed(draws json.RawMessage) string {
	var d struct{ Seed json.RawMessage }
	_ = json.Unmarshal(draws, &d)
	return plainText(d.Seed)
}

// plainText returns a JSON value for people: texts without quotes, with commas between, "off" for null and for none.
func plainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && len(value) > 0 && value[0] == '"' {
		return text
	}
	var texts []string
	if json.Unmarshal(value, &texts) == nil && len(value) > 0 && value[0] == '[' {
		return cmp.Or(joined(texts), "off")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return ""
	}
	if compact.String() == "null" {
		return "off"
	}
	return compact.String()
}
