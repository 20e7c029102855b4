package compare

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is a setting in which runs differ.
type Setting struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Values []string `json:"values"` // of each run; "": not known
}

// text names the setting with the value of every run, a run that has the same as one before left out.
func (s *Setting) text(names []string) string {
	var parts []string
	for k, value := range s.Values {
		if at := slices.Index(s.Values, value); at < k {
			continue
		}
		with := []string{}
		for j, other := range s.Values {
			if other == value {
				with = append(with, names[j])
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", shown(value), strings.Join(with, ", ")))
	}
	return s.Title + ": " + strings.Join(parts, "; ")
}

// shown returns a value for people: of a key its beginning.
func shown(value string) string {
	switch {
	case value == "":
		return "not known"
	case len(value) == 64 && strings.Trim(value, "0123456789abcdef") == "":
		return value[:12]
	}
	return value
}

// differ returns the setting where the runs do not have one value. What no run knows does not differ.
func differ(name, title string, runs []*run) (Setting, bool) {
	s := Setting{Name: name, Title: title}
	for _, r := range runs {
		s.Values = append(s.Values, r.settings[name])
	}
	return s, slices.ContainsFunc(s.Values, func(v string) bool { return v != s.Values[0] })
}

// mismatches returns the settings that must be equal and are not.
func mismatches(runs []*run) []Setting {
	list := []Setting{}
	for _, m := range mustEqual {
		if s, ok := differ(m.name, m.title, runs); ok {
			list = append(list, s)
		}
	}
	for _, name := range deviations(runs) {
		if s, ok := differ(name, name, runs); ok && !slices.Contains(s.Values, "") {
			list = append(list, s) // an option that a run does not know is of another version of agentx
		}
	}
	return list
}

// deviations are the options of the runs that must be equal, sorted.
func deviations(runs []*run) (list []string) {
	for _, r := range runs {
		for name := range r.settings {
			if isDeviation(name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

func isDeviation(name string) bool {
	return !slices.Contains(mayDiffer, name) && !slices.ContainsFunc(mustEqual, func(m struct{ name, title string }) bool { return m.name == name })
}

// otherSettings returns the settings in which runs differ although they can be compared.
func otherSettings(runs []*run) []Setting {
	list := []Setting{}
	for _, name := range mayDiffer {
		if s, ok := differ(name, name, runs); ok && (isIdentity(name) || !slices.Contains(s.Values, "")) {
			list = append(list, s)
		}
	}
	return list
}

// isIdentity reports whether a setting says what a run was, which is told although another run does not know its own.
func isIdentity(name string) bool {
	return slices.Index(mayDiffer, name) < slices.Index(mayDiffer, "duration")
}

// differOnlyIn reports whether two runs have the same settings but one.
func differOnlyIn(name string, a, b *run) bool {
	for _, pair := range [][2]*run{{a, b}, {b, a}} {
		for key, value := range pair[0].settings {
			if key != name && value != pair[1].settings[key] {
				return false
			}
		}
	}
	return true
}

// MismatchNames returns the settings that must be equal and are not, with commas between.
func (c *Comparison) MismatchNames() string {
	var names []string
	for _, m := range c.Mismatches {
		names = append(names, m.Title)
	}
	return joined(names)
}
