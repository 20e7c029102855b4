package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupNote is the annotation of a flag that usage lists in a group of its own; its value is the heading of the group.
const groupNote = "group"

// Usages lists flags for people, by their groups. It leaves out those that Brief lists.
func Usages(flags *pflag.FlagSet) string {
	sets := map[string]*pflag.FlagSet{}
	flags.VisitAll(func(f *pflag.Flag) {
		heading := otherFlags
		if g := f.Annotations[groupNote]; len(g) > 0 {
			heading = g[0]
		}
		if v, ok := f.Value.(flagValue); ok && v.row.Brief {
			return
		}
		if sets[heading] == nil {
			sets[heading] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		sets[heading].AddFlag(f)
	})
	var b strings.Builder
	for _, heading := range groups {
		if sets[heading] != nil {
			fmt.Fprintf(&b, "%s:\n%s\n", heading, sets[heading].FlagUsages())
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Durations says how durations are written, "" if no flag takes one.
func Durations(flags *pflag.FlagSet) (about string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == Span.Type {
			about = "\nA duration is such as 90s, 10m or 1h30m. A number alone is seconds.\n"
		}
	})
	return about
}

// Table lists every setting by its group: its name, its default, what it is under each other preset, and what it means.
func Table(flags *pflag.FlagSet, named ...string) string {
	rows, presets := byGroup(flags, named)
	var b strings.Builder
	fmt.Fprintf(&b, "Every setting is a flag --NAME, a variable AGENTX_NAME, a key of --config and a name of --set. Its value under each preset:\n\n  %-20s", "NAME")
	for _, p := range presets {
		fmt.Fprintf(&b, " %-18s", strings.ToUpper(p))
	}
	for _, group := range groups {
		if len(rows[group]) > 0 {
			fmt.Fprintf(&b, "\n\n%s:", group)
		}
		for _, row := range rows[group] {
			fmt.Fprintf(&b, "\n  %-20s", row.Name)
			for _, p := range presets {
				fmt.Fprintf(&b, " %-18s", row.under(p))
			}
			fmt.Fprintf(&b, "\n      %s", row.Help)
		}
	}
	return b.String() + "\n"
}

// Reference is Table in Markdown. It leaves out settings that another command, which has the flags other, has with the same help.
func Reference(flags, other *pflag.FlagSet) string {
	rows, presets := byGroup(flags, nil)
	var b strings.Builder
	for _, group := range groups {
		rows[group] = slices.DeleteFunc(rows[group], func(row *Setting) bool {
			f := other.Lookup(row.Name)
			return f != nil && f.Usage == row.Help
		})
		if len(rows[group]) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n| `--NAME` | default | meaning |\n|---|---|---|\n", group)
		}
		for _, row := range rows[group] {
			value := row.under(presets[0])
			for _, p := range presets[1:] {
				if other := row.under(p); other != row.under(presets[0]) {
					value += fmt.Sprintf("; %s: %s", p, other)
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", row.Name, value, strings.ReplaceAll(row.Help, "|", "\\|"))
		}
	}
	return b.String()
}

// byGroup returns the settings among flags by group, and the presets. named restricts them to some names; empty: all.
func byGroup(flags *pflag.FlagSet, named []string) (rows map[string][]*Setting, presets []string) {
	rows = map[string][]*Setting{}
	flags.VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(flagValue); ok && v.row.Name != "set" && (len(named) == 0 || slices.Contains(named, v.row.Name)) {
			rows[v.row.Group], presets = append(rows[v.row.Group], v.row), v.set.Presets
		}
	})
	return rows, presets
}

// under returns the value of a row under a preset as a text; "-" is off, or none.
func (row *Setting) under(preset string) string {
	v, ok := row.Under[preset]
	if !ok {
		v = row.Default
	}
	if text := row.Kind.Text(v); text != "" && (v != nil || row.Kind.off) {
		return text
	}
	return "-"
}

// Brief lists the flags that have only a line at the end of the help, each with its default, and switches with their values under all
// presets. It is "" if there are none.
func Brief(flags *pflag.FlagSet) string {
	var rows []*Setting
	var s *Set
	flags.VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(flagValue); ok && v.row.Brief {
			rows, s = append(rows, v.row), v.set
		}
	})
	slices.SortStableFunc(rows, func(a, b *Setting) int { return slices.Index(groups, a.Group) - slices.Index(groups, b.Group) })
	var b strings.Builder
	group := ""
	for _, row := range rows {
		if row.Group != group {
			group = row.Group
			more := ", further flags:"
			if group == Switches {
				more = ", flags with their values under the presets " + strings.Join(s.Presets, ", ") + ":"
			}
			fmt.Fprintf(&b, "\n%s%s\n", group, more)
		}
		fmt.Fprintf(&b, "  --%-20s %s\n", row.Name, row.brief(s.Presets))
	}
	return b.String()
}

// brief returns what a row means in one line.
func (row *Setting) brief(presets []string) string {
	if row.Group == Switches {
		var texts []string
		for _, name := range presets {
			texts = append(texts, row.Kind.Text(row.Under[name]))
		}
		return strings.TrimSpace(fmt.Sprintf("%s   %s", strings.Join(texts, ", "), row.Help))
	}
	choices := ""
	if len(row.Kind.Words) > 2 {
		choices = ": " + strings.Join(row.Kind.Words, ", ")
	}
	text := fmt.Sprintf("%s%s (default %s", row.Help, choices, row.Kind.Text(row.Default))
	for _, name := range presets {
		if v, ok := row.Under[name]; ok && v != row.Default {
			text += fmt.Sprintf("; %s: %s", name, row.Kind.Text(v))
		}
	}
	return text + ")"
}

// Complete returns the completion of a flag that is a setting, nil if nothing completes it.
func Complete(f *pflag.Flag) cobra.CompletionFunc {
	v, ok := f.Value.(flagValue)
	switch {
	case !ok:
		return nil
	case v.row.Name == "set":
		return v.set.completeSet
	case v.row.Kind.Files != nil:
		return cobra.FixedCompletions(v.row.Kind.Files, cobra.ShellCompDirectiveFilterFileExt)
	case len(v.row.Kind.Words) == 0:
		return nil
	}
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return v.row.words("", begun)
	}
}

// words completes the words of a row, each with front before it.
func (row *Setting) words(front, begun string) (list []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	words := row.Kind.Words
	if row.Kind.off && !slices.Contains(words, "off") {
		words = append(slices.Clone(words), "off")
	}
	for k, w := range words {
		if strings.ContainsAny(w[len(w)-1:], "=:/<>") { // more is to follow
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if k < len(row.Kind.about) && row.Kind.about[k] != "" {
			w += "\t" + row.Kind.about[k]
		}
		if strings.HasPrefix(front+w, begun) {
			list = append(list, front+w)
		}
	}
	return list, directive
}

// completeSet completes names for --set, and the words that a setting can have.
func (s *Set) completeSet(_ *cobra.Command, _ []string, begun string) (list []string, _ cobra.ShellCompDirective) {
	if name, _, ok := strings.Cut(begun, "="); ok {
		if row := s.named(name); row != nil {
			return row.words(name+"=", begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range slices.Sorted(slices.Values(slices.Concat(s.Rules, s.names()))) {
		if strings.HasPrefix(name, begun) {
			list = append(list, name+"=")
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
