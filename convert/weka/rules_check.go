package weka

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/agentx/agentx/trace"
)

// choices lists the values that a field with words for values may have.
var choices = map[string][]string{
	"length_rule":       {"repaired", "upstream"},
	"unknown_keys":      {"count", "reject"},
	"nested_basis":      {"auto", "absolute", "relative", "per-request"},
	"marker_time":       {"auto", "start", "end"},
	"think_time_rule":   {"min", "raw"},
	"negative_api_time": {"zero", "subtract"},
	"refusals":          {"repair", "error"},
	"filler_overrun":    {"cyclic", "short"},
	"predecessor_clock": {"recorded", "emitted"},
	"replay_scope":      {"assigned", "parsed"},
	"cache_metric":      {"legacy", "causal"},
	"timestamps":        {"auto", "s", "ms", "us", "ns"},
	"namespace":         {"auto", "file", "input"},
	"session_rows":      {"ask", "whole", "new", "live"},
}

// Validate reports the first field with a value that is not allowed: its JSON name, the value, and what is allowed. The zero
// value of Rules is valid, and so is WithoutMooncake; another empty word is not.
func (r Rules) Validate() error {
	v := reflect.ValueOf(r.WithDefaults())
	for i := range v.NumField() {
		name, ofMooncake := ruleName(v.Type().Field(i))
		if ofMooncake && v.Field(i).IsZero() {
			continue
		}
		if err := checkField(name, v.Field(i)); err != nil {
			return fmt.Errorf("%s %s: %w", name, showField(v.Field(i)), err)
		}
	}
	return nil
}

// ruleName returns the name of a rule, and whether it is for Mooncake rows alone.
func ruleName(f reflect.StructField) (name string, ofMooncake bool) {
	return strings.CutSuffix(f.Tag.Get("json"), ",omitempty")
}

func showField(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v)
}

// checkField says what is allowed where the value of a field is not.
func checkField(name string, v reflect.Value) error {
	allowed, isChoice := choices[name]
	switch {
	case isChoice && !slices.Contains(allowed, v.String()):
		return errors.New("want one of " + strings.Join(allowed, ", "))
	case name == "block_size" && (v.Int() < 0 || v.Int() > trace.MaxBlockSize):
		return fmt.Errorf("want 0 (as declared) to %d", trace.MaxBlockSize)
	case v.Kind() == reflect.Float64 && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)):
		return errors.New("want a number")
	case v.CanInt() && v.Int() < 0, v.CanFloat() && v.Float() < 0:
		return errors.New("want 0 or more")
	case (name == "max_isl" || name == "max_osl") && !v.IsNil() && v.Elem().Int() < 0:
		return errors.New("want 0 or more, or none")
	}
	return nil
}

// Set changes one field by its JSON name, as `--set NAME=VALUE` does. The value none makes an optional field nil.
func (r *Rules) Set(name, value string) error {
	changed := *r
	v := reflect.ValueOf(&changed).Elem()
	for i := range v.NumField() {
		if have, _ := ruleName(v.Type().Field(i)); have != name {
			continue
		}
		err := setField(v.Field(i), value)
		if err == nil {
			err = checkField(name, v.Field(i))
		}
		if err != nil {
			return fmt.Errorf("--set %s=%s: %w", name, value, err)
		}
		*r = changed
		return nil
	}
	return fmt.Errorf("--set %s: no such option: choose from backend, %s", name, strings.Join(RuleNames(), ", "))
}

func setField(f reflect.Value, value string) error {
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("want true or false")
		}
		f.SetBool(b)
	case reflect.Float64:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return errors.New("want a number")
		}
		f.SetFloat(x)
	case reflect.Pointer:
		return setOptional(f, value)
	default:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return errors.New("want a whole number")
		}
		f.SetInt(n)
	}
	return nil
}

func setOptional(f reflect.Value, value string) error {
	if value == "none" {
		f.SetZero()
		return nil
	}
	n := reflect.New(f.Type().Elem())
	if err := setField(n.Elem(), value); err != nil {
		return err
	}
	f.Set(n)
	return nil
}

// RuleNames lists the names that Set takes, sorted.
func RuleNames() []string {
	var names []string
	t := reflect.TypeFor[Rules]()
	for i := range t.NumField() {
		name, _ := ruleName(t.Field(i))
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
