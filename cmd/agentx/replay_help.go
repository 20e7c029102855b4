package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay/preset"
)

// replayGroups are the flags of a replay by what they are for. The first are those that every run needs.
var replayGroups = []struct{ heading, flags string }{
	{"Server", "url model api-key-env header ca-file server-name insecure wait-ready reset-cache no-preflight no-calibrate"},
	{"Load and its bounds", "concurrency part meet meet-timeout start-at drain repeat stop-on-failure duration until requests trees once grace timeout stall-timeout retry-after max-error-rate allow-failures prefault"},
	{"Results", "out overwrite json slo stats-interval listen report prefix slice-duration scrape"},
	{"What is played, and when", "start seed warmup recycle marker speed max-gap asap limit-traces max-context"},
	{"When trees open", "arrivals rate rate-of arrival ramp from to turns"},
	{"Presets and configuration", "preset scenario unsafe-override set config config-schema print-config"},
	{"Bodies and connections", "payload session-header extra-body max-tokens-field no-ignore-eos no-stream-options connection-reuse keep-alive keep-cookies overflow-pattern"},
}

// groupFlags makes usage list the flags of a replay by what they are for.
func groupFlags(flags *pflag.FlagSet) {
	for _, g := range replayGroups {
		for name := range strings.FieldsSeq(g.flags) {
			flags.Lookup(name).Annotations = map[string][]string{flagGroup: {g.heading}}
		}
	}
}

// settingsHelp lists the switches and options, each with its values: those under the presets, or its default.
func settingsHelp() string {
	var b strings.Builder
	group := ""
	values := make([]map[string]any, len(preset.Names))
	for k, name := range preset.Names {
		values[k] = presetValues(name)
	}
	for _, s := range settings {
		if s.group != group {
			group = s.group
			heading := ":"
			if group == switchGroup {
				heading = ", with their values under the presets " + strings.Join(preset.Names, ", ") + ":"
			}
			fmt.Fprintf(&b, "\n%s%s\n", group, heading)
		}
		if s.apply == nil {
			fmt.Fprintf(&b, "  %-17s %-11s %-13s %-11s %s\n", s.name, textOf(values[0][s.name]), textOf(values[1][s.name]), textOf(values[2][s.name]), s.about)
			continue
		}
		fmt.Fprintf(&b, "  %-22s %s\n", s.name, optionHelp(&s))
	}
	return b.String()
}

// optionHelp returns what an option means in one line. The help of its flag says more.
func optionHelp(s *setting) string {
	if s.alias != "" {
		return "--" + s.alias
	}
	choices := ""
	if len(s.kind.words) > 2 {
		choices = ": " + strings.Join(s.kind.words, ", ")
	}
	text := fmt.Sprintf("%s%s (default %s", s.about, choices, textOf(s.value))
	for _, name := range preset.Names {
		if v, ok := s.under[name]; ok {
			text += fmt.Sprintf("; %s: %s", name, textOf(v))
		}
	}
	return text + ")"
}
