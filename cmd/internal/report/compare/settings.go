package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	"grace", "timeout", "stall-timeout", "first-byte-timeout", "gone-after", "retry-after", "max-error-rate", "stop-on-deadlock", "back-off", "tcp-user-timeout", "wait-ready", "wait-ready-mode",
	"wait-ready-interval", "no-calibrate", "until-interval", "reset-cache-path", "reset-cache-timeout", "stats-interval", "correlation-header", "session-header",
}

// notPlayed are settings that say nothing of what is sent, or stand here under another name.
var notPlayed = strings.Fields(`url api-key-env preset scenario unsafe-override set config cache quiet no-color profile tokenizer corpus workers force verify-hit
	trust-root wait no-wait skip-invalid strict out overwrite json report prefix slice-duration scrape listen otlp no-preflight calibrate allow-failures
	stop-on-failure repeat drain part meet meet-timeout start-at`)

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
	known := maps.Clone(s)
	for _, o := range info.Options {
		if _, is := known[o.Name]; o.Name == "seed" || !is && !slices.Contains(notPlayed, o.Name) {
			s[o.Name] = plainText(o.Value)
		}
	}
	return s
}

// addUnits adds the unit to numbers of seconds.
func (s settings) addUnits(inSeconds func(name string) bool) {
	for name, text := range s {
		if _, err := strconv.ParseFloat(text, 64); err == nil && inSeconds(name) {
			s[name] = text + " s"
		}
	}
}

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
