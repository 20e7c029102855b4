package main

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/replay/preset"
)

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
