package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/agentx/agentx/internal/suggest"
)

// kind is a type of values that a setting or a flag may have.
type kind struct {
	want   string                             // what a value must be, for errors
	parse  func(text string) (v any, ok bool) // of a flag, a variable, a scalar of a file; nil: off
	why    func(text string) error            // says what is wrong with a text; nil: it is not what is wanted, and none of the words
	flag   string                             // type of the value of a flag, for the help
	tags   []string                           // those of the YAML scalars that may be values
	schema map[string]any                     // of the values in a file
	words  []string                           // the values, if they are words; for completions and help
	off    bool                               // off and null are values
	list   bool                               // a file may have a list of them, which a flag takes with commas between
}

// read returns the value that a text stands for: nil for off, or a bool, int, float64, time.Duration or string.
func (k kind) read(text string) (any, error) {
	if k.off && (text == "off" || text == "null") {
		return nil, nil
	}
	if v, ok := k.parse(text); ok {
		return v, nil
	}
	return nil, k.wrong(text)
}

// wrong says what is wrong with a text that is no value.
func (k kind) wrong(text string) error {
	if k.why != nil {
		return k.why(text)
	}
	return wrongWord(text, k.want, k.words)
}

// What is wrong with a word, in the same words everywhere.
var wrongWord, meant, either = suggest.Wrong, suggest.Meant, suggest.Either

// orOff adds the value off.
func (k kind) orOff() kind {
	k.off = true
	k.want += ", or off"
	k.schema = map[string]any{"anyOf": []any{k.schema, map[string]any{"enum": []any{nil, "off"}}}}
	return k
}

// atLeast refuses durations that are shorter, but for 0.
func (k kind) atLeast(least time.Duration) kind {
	parse := k.parse
	k.want = fmt.Sprintf("0, or a duration of %v or more", least)
	k.parse = func(text string) (any, bool) {
		v, ok := parse(text)
		d, _ := v.(time.Duration)
		return v, ok && (d == 0 || d >= least)
	}
	return k
}

// zeroIsOff makes 0 another word for off.
func (k kind) zeroIsOff() kind {
	parse := k.parse
	k.parse = func(text string) (any, bool) {
		v, ok := parse(text)
		if v == 0.0 || v == time.Duration(0) {
			return nil, ok
		}
		return v, ok
	}
	return k
}

// word is one of several words.
func word(words ...string) kind {
	values, numbers := []any{}, false
	for _, w := range words {
		values = append(values, w)
		if _, err := strconv.ParseFloat(w, 64); err == nil { // such as a version, which YAML reads as a number
			values, numbers = append(values, json.Number(w)), true
		}
	}
	if slices.Contains(words, "off") {
		values = append(values, nil)
	}
	k := kind{want: either(words), words: words, flag: "string", tags: []string{yamlText}, schema: map[string]any{"enum": values}}
	if numbers {
		k.tags = append(k.tags, yamlFloat)
	}
	k.parse = func(text string) (any, bool) { return text, slices.Contains(words, text) }
	return k
}

// yesOrNo is true or false.
var yesOrNo = kind{
	want: "true or false", words: []string{"true", "false"}, flag: "bool", tags: []string{yamlBool, yamlText},
	schema: map[string]any{"enum": []any{true, false, "on", "off"}},
	parse: func(text string) (any, bool) {
		switch text {
		case "on", "off":
			return text == "on", true
		}
		b, err := strconv.ParseBool(text)
		return b, err == nil
	},
}

// anyText is any text.
var anyText = kind{
	want: "a text", flag: "string", tags: []string{yamlText}, schema: map[string]any{"type": "string"},
	parse: func(text string) (any, bool) { return text, true },
}

// whole is a whole number in a range.
func whole(least, most int) kind {
	k := kind{want: fmt.Sprintf("%d to %d", least, most), flag: "int", tags: []string{yamlInt}, schema: map[string]any{"type": "integer", "minimum": least, "maximum": most}}
	if most == math.MaxInt {
		k.want = "no negative value"
		if least == 1 {
			k.want = "a number above 0"
		}
		delete(k.schema, "maximum")
	}
	k.parse = func(text string) (any, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= least && n <= most
	}
	return k
}

// share is a number from 0 to 1.
var share = kind{
	want: "0 to 1", flag: "float64", tags: []string{yamlInt, yamlFloat}, schema: map[string]any{"type": "number", "minimum": 0, "maximum": 1},
	parse: func(text string) (any, bool) {
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil && x >= 0 && x <= 1
	},
}

// factor is a number above 0.
var factor = kind{
	want: "a number above 0", flag: "float64", tags: []string{yamlInt, yamlFloat}, schema: map[string]any{"type": "number", "exclusiveMinimum": 0},
	parse: func(text string) (any, bool) {
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil && x > 0 && !math.IsInf(x, 1)
	},
}

// Durations in a file: seconds, or a text as flags take it. A flag takes numbers below maxSeconds.
const (
	durationPattern = `^\+?(` + numberPattern + `(e[+-]?[0-9]+)?|(` + numberPattern + `(ns|us|µs|μs|ms|s|m|h))+)$`
	numberPattern   = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	maxSeconds      = 1e9
)

// span is a duration of 0 or more.
var span = kind{
	want: "a duration, no negative value", flag: "duration", tags: []string{yamlInt, yamlFloat, yamlText},
	schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "number", "minimum": 0, "exclusiveMaximum": int(maxSeconds)},
		map[string]any{"type": "string", "pattern": durationPattern},
	}},
	parse: func(text string) (any, bool) {
		var d time.Duration
		err := duration{&d}.Set(text)
		return d, err == nil && d >= 0
	},
}

// longer is a duration above 0.
var longer = kind{
	want: "a duration above 0", flag: "duration", tags: span.tags,
	schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": int(maxSeconds)},
		map[string]any{"type": "string", "allOf": []any{map[string]any{"pattern": durationPattern}, map[string]any{"pattern": "[1-9]"}}},
	}},
	parse: func(text string) (any, bool) {
		v, ok := span.parse(text)
		return v, ok && v != time.Duration(0)
	},
}

// jsonOf returns a value as the results have it: durations in seconds, off as null.
func jsonOf(v any) json.RawMessage {
	if d, ok := v.(time.Duration); ok {
		v = d.Seconds()
	}
	text, err := json.Marshal(v)
	if err != nil { // NaN or infinity, which no kind takes
		return json.RawMessage("null")
	}
	return text
}

// textOf returns a value as --set takes it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "off"
	case time.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
