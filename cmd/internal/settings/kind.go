package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/suggest"
)

// Kind is a type of values. It turns a text into a value, and says what is wrong with a text that is none.
type Kind struct {
	Want   string                             // what a value must be, for errors
	Type   string                             // of the flag, for the help
	Words  []string                           // the values, if they are words, or how they begin; for completions and help
	Read   func(text string) (v any, ok bool) // the value of a text; nil: off
	Why    func(text string) error            // says what is wrong with a text; nil: an error quotes Want and Words
	Tags   []string                           // YAML tags that scalars of a file may have
	Schema map[string]any                     // of the values in a file
	Files  []string                           // values are names of files, that end so, for completions

	Object func(n *yaml.Node) (text string, err error) // an object of a file as a text; nil: there are none
	Commas bool                                        // a file may have a list of it, which a flag takes with commas between
	Joins  bool                                        // with Commas: a flag that is repeated adds to the list
	Many   bool                                        // a flag is repeated, a file has a list: the value is a list

	about []string // what each of Words means
	means []any    // the value of each of Words
	off   bool     // off and null are values
}

// The YAML tags of scalars.
const (
	Int, Float, Text, Bool, null = "!!int", "!!float", "!!str", "!!bool", "!!null"
)

// value reads a text as a value of the kind.
func (k Kind) value(text string) (any, error) {
	if k.off && (text == "off" || text == "null") {
		return nil, nil
	}
	if v, ok := k.Read(text); ok {
		return v, nil
	}
	return nil, k.wrong(text)
}

// wrong returns the error of a text that is no value of the kind.
func (k Kind) wrong(text string) error {
	if k.Why != nil {
		if err := k.Why(text); err != nil {
			return err
		}
	}
	return suggest.Wrong(text, k.Want, k.Words)
}

// orOff returns the kind with off as a further value: nil.
func (k Kind) orOff() Kind {
	k.off = true
	k.Want += ", or off"
	k.Schema = map[string]any{"anyOf": []any{k.Schema, map[string]any{"enum": []any{nil, "off"}}}}
	return k
}

// orZero returns the kind with off as a further value, which 0 means, too.
func (k Kind) orZero() Kind {
	read := k.Read
	k.Read = func(text string) (any, bool) {
		v, ok := read(text)
		if v == 0.0 || v == time.Duration(0) {
			return nil, ok
		}
		return v, ok
	}
	return k.orOff()
}

// AtLeast returns the kind without durations between 0 and least.
func (k Kind) AtLeast(least time.Duration) Kind {
	read := k.Read
	k.Want = fmt.Sprintf("0, or a duration of %v or more", least)
	k.Read = func(text string) (any, bool) {
		v, ok := read(text)
		d, _ := v.(time.Duration)
		return v, ok && (d == 0 || d >= least)
	}
	return k
}

// atMost returns the kind without durations above most.
func (k Kind) atMost(most time.Duration) Kind {
	read := k.Read
	k.Want = fmt.Sprintf("a duration of 0 or more, at most %v", most)
	k.Read = func(text string) (any, bool) {
		v, ok := read(text)
		d, _ := v.(time.Duration)
		return v, ok && d <= most
	}
	return k
}

// Word is the kind of several words. A text behind a tab says what a word means, for completions.
func Word(words ...string) Kind {
	k := Kind{Type: "string", Tags: []string{Text}}
	values := []any{}
	for _, w := range words {
		w, about, _ := strings.Cut(w, "\t")
		k.Words, k.about, values = append(k.Words, w), append(k.about, about), append(values, w)
		if _, err := strconv.ParseFloat(w, 64); err == nil { // such as a version, which YAML reads as a number
			values, k.Tags = append(values, json.Number(w)), []string{Text, Float}
		}
	}
	if slices.Contains(k.Words, "off") {
		values = append(values, nil)
	}
	k.Want, k.Schema = suggest.Either(k.Words), map[string]any{"enum": values}
	k.Read = func(text string) (any, bool) { return text, slices.Contains(k.Words, text) }
	return k
}

// Means gives each word of the kind its value.
func (k Kind) Means(values ...any) Kind {
	k.means = values
	k.Read = func(text string) (any, bool) {
		n := slices.Index(k.Words, text)
		if n < 0 {
			return nil, false
		}
		return values[n], true
	}
	return k
}

// Yes is true or false.
var Yes = Kind{
	Want: "true or false", Words: []string{"true", "false"}, Type: "bool", Tags: []string{Bool, Text},
	Schema: map[string]any{"enum": []any{true, false, "on", "off"}},
	Read: func(text string) (any, bool) {
		switch text {
		case "on", "off":
			return text == "on", true
		}
		b, err := strconv.ParseBool(text)
		return b, err == nil
	},
}

// AnyText is any text.
var AnyText = Kind{
	Want: "a text", Type: "string", Tags: []string{Text}, Schema: map[string]any{"type": "string"},
	Read: func(text string) (any, bool) { return text, true },
}

// File is the name of a file. Completions offer files with one of the endings; without endings, all.
func File(endings ...string) Kind {
	k := AnyText
	k.Want, k.Files = "the name of a file", append([]string{}, endings...)
	k.Schema = map[string]any{"type": "string", "minLength": 1}
	k.Read = func(text string) (any, bool) { return text, text != "" }
	return k
}

// Checked is a text for which a function returns no error.
func Checked(check func(text string) error) Kind {
	k := AnyText
	k.Read = func(text string) (any, bool) { return text, check(text) == nil }
	k.Why = check
	return k
}

// List is a list of what one text stands for: one value, or several with commas between. Its errors are those of read.
func List[T any](read func(text string) ([]T, error)) Kind {
	k := AnyText
	k.Many, k.Type = true, "stringArray"
	k.Read = func(text string) (any, bool) {
		list, err := read(text)
		if err != nil {
			return nil, false
		}
		return list, true
	}
	k.Why = func(text string) error { _, err := read(text); return err }
	return k
}

// Whole is a whole number in a range.
func Whole(least, most int) Kind {
	k := Kind{Want: fmt.Sprintf("%d to %d", least, most), Type: "int", Tags: []string{Int}, Schema: map[string]any{"type": "integer", "minimum": least, "maximum": most}}
	if most == math.MaxInt {
		k.Want = "0 or more"
		if least == 1 {
			k.Want = "a number above 0"
		}
		delete(k.Schema, "maximum")
	}
	k.Read = func(text string) (any, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= least && n <= most
	}
	return k
}

// AutoPattern is what ParseAuto reads.
const AutoPattern = `auto(:[1-9][0-9]*-[1-9][0-9]*)?`

var autoText = lazyregexp.New("^" + AutoPattern + "$")

// ParseAuto reads auto or auto:FROM-TO, with numbers up to most, which a search tries; ok is false for a text that is neither.
func ParseAuto(text string, most int) (from, to int, ok bool) {
	if !autoText().MatchString(text) {
		return 0, 0, false
	}
	_, list, ranged := strings.Cut(text, ":")
	if !ranged {
		return 1, most, true
	}
	low, high, _ := strings.Cut(list, "-")
	from, fromErr := strconv.Atoi(low)
	to, toErr := strconv.Atoi(high)
	return from, to, fromErr == nil && toErr == nil && from <= to && to <= most
}

// Count is a number of things.
var Count = Whole(0, math.MaxInt).Numeric()

// Numeric returns the kind with errors that tell a text that is no number from a number out of range.
func (k Kind) Numeric() Kind {
	want := k.Want
	k.Why = func(text string) error {
		if _, err := strconv.Atoi(text); err != nil {
			return Explain(err)
		}
		return fmt.Errorf("want %s", want)
	}
	return k
}

// float is a number for which a function reports true.
func float(want string, schema map[string]any, is func(x float64) bool) Kind {
	schema["type"] = "number"
	return Kind{Want: want, Type: "float64", Tags: []string{Int, Float}, Schema: schema, Read: func(text string) (any, bool) {
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil && is(x)
	}}
}

// share is a number from 0 to 1.
var share = float("0 to 1", map[string]any{"minimum": 0, "maximum": 1}, func(x float64) bool { return x >= 0 && x <= 1 })

// Factor is a number above 0.
var Factor = float("a number above 0", map[string]any{"exclusiveMinimum": 0}, func(x float64) bool { return x > 0 && !math.IsInf(x, 1) })

// above0 is a number above 0 with a greatest.
func above0(most int) Kind {
	return float(fmt.Sprintf("a number above 0, at most %d", most), map[string]any{"exclusiveMinimum": 0, "maximum": most},
		func(x float64) bool { return x > 0 && x <= float64(most) })
}

// Durations in a file: seconds, or a text as flags take it. A flag takes numbers below maxSeconds.
const (
	durationPattern = `^\+?(` + numberPattern + `(e[+-]?[0-9]+)?|(` + numberPattern + `(ns|us|µs|μs|ms|s|m|h))+)$`
	numberPattern   = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	maxSeconds      = 1e9
)

// ParseDuration reads Go's form (90s, 10m) or a plain number of seconds.
func ParseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseFloat(text, 64); err != nil && numberErr == nil && seconds < maxSeconds && seconds > -maxSeconds {
		v, err = time.Duration(seconds*1e9), nil
	}
	switch {
	case err == nil:
		return v, nil
	case text != "" && strings.Trim(text[:1], "0123456789.") == "": // 1e9h, 99999999h, 1e12
		return 0, fmt.Errorf("want a duration such as 90s or 10m, up to 2562047h, or seconds below %.0e", maxSeconds)
	}
	return 0, fmt.Errorf("want a duration such as 90s or 10m, or seconds")
}

// Span is a duration of 0 or more.
var Span = Kind{
	Want: "a duration of 0 or more", Type: "duration", Tags: []string{Int, Float, Text},
	Schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "number", "minimum": 0, "exclusiveMaximum": int(maxSeconds)},
		map[string]any{"type": "string", "pattern": durationPattern},
	}},
	Read: func(text string) (any, bool) {
		d, err := ParseDuration(text)
		return d, err == nil && d >= 0
	},
	Why: longest,
}

// longest returns the error of ParseDuration for a text that begins with a digit and is no duration, which may be too long.
func longest(text string) error {
	if _, err := ParseDuration(text); err != nil && strings.Trim(text[:min(1, len(text))], "0123456789.") == "" {
		return err
	}
	return nil
}

// Longer is a duration above 0.
var Longer = Kind{
	Want: "a duration above 0", Type: "duration", Tags: Span.Tags,
	Schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": int(maxSeconds)},
		map[string]any{"type": "string", "allOf": []any{map[string]any{"pattern": durationPattern}, map[string]any{"pattern": "[1-9]"}}},
	}},
	Read: func(text string) (any, bool) {
		v, ok := Span.Read(text)
		return v, ok && v != time.Duration(0)
	},
}

// word returns the word that means a value; false if none does.
func (k Kind) word(v any) (string, bool) {
	n := slices.IndexFunc(k.means, func(m any) bool { return reflect.DeepEqual(m, v) })
	if n < 0 {
		return "", false
	}
	return k.Words[n], true
}

// JSON returns a value as the results have it: durations in seconds, off as null.
func (k Kind) JSON(v any) json.RawMessage {
	if w, ok := k.word(v); ok {
		v = w
	}
	return JSON(v)
}

// JSON returns a value as the results have it: durations in seconds.
func JSON(v any) json.RawMessage {
	switch one := v.(type) {
	case time.Duration:
		v = one.Seconds()
	case json.Marshaler:
	case fmt.Stringer:
		v = one.String()
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.Type().Elem().Implements(reflect.TypeFor[fmt.Stringer]()) {
			texts := make([]string, list.Len())
			for k := range texts {
				texts[k] = list.Index(k).Interface().(fmt.Stringer).String()
			}
			v = texts
		}
	}
	text, err := json.Marshal(v)
	if err != nil { // NaN or infinity, which no kind takes
		return json.RawMessage("null")
	}
	return text
}

// Text returns a value as --set takes it.
func (k Kind) Text(v any) string {
	if w, ok := k.word(v); ok {
		return w
	}
	switch v := v.(type) {
	case nil:
		return "off"
	case time.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if k.Many {
		return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v), "[]")), ",")
	}
	return fmt.Sprint(v)
}
