package profile

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// check adds what agentx replay refuses of the command, so that no command is printed that does not run. Errors name the
// flags of AIPerf. Of a command that lacks something only those are told.
func (t *translation) check() {
	complete := len(t.Problems) == 0
	t.addLocked()
	for _, p := range t.Check(t.Data, t.Settings) {
		text, translated := t.inOriginalNames(p.Error())
		what, _, _ := strings.Cut(text, ": ")
		told := slices.ContainsFunc(t.Problems, func(other Problem) bool {
			return strings.HasPrefix(other.Error(), "not supported: "+what) || strings.HasPrefix(other.Error(), what+": want")
		})
		if !told && (complete || translated) {
			t.addProblem(Problem{errors.New(text), p.Try})
		}
	}
}

// oneTry leaves what to try at the last of the problems that it is for.
func (t *translation) oneTry() {
	seen := map[string]bool{}
	for k := len(t.Problems) - 1; k >= 0; k-- {
		p := &t.Problems[k]
		if seen[p.Try] {
			p.Try = ""
		}
		seen[p.Try] = true
	}
}

var replayFlag = regexp.MustCompile(`--[a-z][a-z-]*`)

// inOriginalNames returns an error of agentx replay with the flags of AIPerf that its settings stand for, and whether it names any.
func (t *translation) inOriginalNames(text string) (_ string, translated bool) {
	flags := map[string]string{}
	var values [][2]string
	for _, s := range t.Settings {
		if s.from == "" {
			continue
		}
		flags["--"+s.Name], _, _ = strings.Cut(s.from, " ")
		if text, ok := s.Value.(string); ok && s.variable == "" {
			values = append(values, [2]string{"--" + s.Name + " " + text, s.from})
		}
	}
	slices.SortStableFunc(values, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // --trees 10 before --trees 1
	var pairs []string
	for _, p := range values {
		translated = translated || strings.Contains(text, p[0])
		pairs = append(pairs, p[0], p[1])
	}
	text = replayFlag.ReplaceAllStringFunc(strings.NewReplacer(pairs...).Replace(text), func(name string) string {
		if original := flags[name]; original != "" && name != "--set" {
			translated, name = true, original
		}
		return name
	})
	return text, translated
}
