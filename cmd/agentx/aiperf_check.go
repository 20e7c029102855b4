package main

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// checkCommand adds what agentx replay refuses of the command, so that no command is printed that does not run. Errors name the
// flags of AIPerf. Of a command that lacks something only those are told.
func (t *translation) checkCommand() {
	complete := len(t.errs) == 0
	root := newRoot()
	root.SetArgs(append(t.command(), "--print-config"))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := root.Execute()
	var refused errorList
	if !errors.As(err, &refused) && err != nil {
		refused = errorList{err}
	}
	for _, err := range refused {
		text, translated := t.inOriginalNames(err.Error())
		what, _, _ := strings.Cut(text, ": ")
		told := slices.ContainsFunc(t.errs, func(e error) bool {
			return strings.HasPrefix(e.Error(), "not supported: "+what) || strings.HasPrefix(e.Error(), what+": want")
		})
		if told || !complete && !translated {
			continue
		}
		t.add("%s", text)
		var try hintError
		if last := len(t.errs) - 1; errors.As(err, &try) {
			t.errs[last] = hintError{t.errs[last], try.hint}
		}
	}
}

var replayFlag = regexp.MustCompile(`--[a-z][a-z-]*`)

// inOriginalNames returns an error of agentx replay with the flags of AIPerf that its arguments stand for, and whether it names any.
func (t *translation) inOriginalNames(text string) (_ string, translated bool) {
	flags := map[string]string{}
	var values [][2]string
	for k, a := range t.args {
		if name := strings.TrimPrefix(a.text, "--"); name != a.text && a.from != "" {
			flags[a.text], _, _ = strings.Cut(a.from, " ")
			if k+1 < len(t.args) && t.args[k+1].from == a.from && t.args[k+1].variable == "" {
				values = append(values, [2]string{flagText(name, t.args[k+1].text), a.from})
			}
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
