package profile

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// word returns the value of a flag that takes one of some words. AIPerf takes - for _ in them, and any letter case.
func (t *translation) word(g given, words ...string) string {
	text := oneSpelling(g.value())
	if !slices.Contains(words, text) {
		t.add("not supported: %s: %w", g.shown(), suggest.Wrong(text, suggest.Either(words), words))
	}
	return text
}

// positive refuses a value that is no number above 0.
func (t *translation) positive(g given) bool {
	x, err := number(g.value())
	if err != nil || x == 0 || math.IsInf(x, 1) {
		t.add("%s: want a number above 0", g.shown())
		return false
	}
	return true
}

// positiveSeconds gives a setting a number of seconds above 0: for agentx replay 0 is none.
func (t *translation) positiveSeconds(g given, setting string) {
	if x, err := number(g.value()); err == nil && x == 0 {
		t.add("%s: want a number of seconds above 0", g.shown())
		return
	}
	t.seconds(g, setting)
}

// seconds gives a setting a number of seconds.
func (t *translation) seconds(g given, setting string) {
	v, err := secondsOf(g.value())
	if err != nil {
		t.add("%s: %w", g.shown(), err)
		return
	}
	t.set(setting, v)
}

// count gives a setting a whole number above 0.
func (t *translation) count(g given, setting string) {
	if n, err := strconv.Atoi(g.value()); err != nil || n < 1 {
		t.add("%s: want a whole number above 0", g.shown())
		return
	}
	t.set(setting, g.value())
}

// limitTraces adds a limit of the traces, which AIPerf has none of for a Mooncake file.
func (t *translation) limitTraces(g given) {
	if !t.mooncake {
		t.count(g, "limit-traces")
	}
}

// numbered returns the name of the variable number k: NAME, NAME_2.
func numbered(name string, k int) string {
	if k == 0 {
		return name
	}
	return name + "_" + strconv.Itoa(k+1)
}

// variableName returns a text as a part of the name of a shell variable.
func variableName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(text))
}
