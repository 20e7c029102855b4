package rules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/trace"
)

// Validate reports the first field with a value that is not allowed: its JSON name, the value, and what is allowed. The zero
// value of Rules is valid, and so is WithoutMooncake; another empty word is not.
func (r Rules) Validate() error {
	v := reflect.ValueOf(r.WithDefaults())
	for f := range v.Type().Fields() {
		field := v.FieldByIndex(f.Index)
		name, ofMooncake := ruleName(f)
		if ofMooncake && field.IsZero() {
			continue
		}
		if err := checkField(f, field); err != nil {
			shown := fmt.Sprint(field)
			if field.Kind() == reflect.String {
				shown = strconv.Quote(shown)
			}
			return fmt.Errorf("%s %s: %w", name, shown, err)
		}
	}
	return nil
}

// ruleName returns the name of a rule, and whether it is for Mooncake rows alone.
func ruleName(f reflect.StructField) (name string, ofMooncake bool) {
	return strings.CutSuffix(f.Tag.Get("json"), ",omitempty")
}

// checkField says what is allowed where the value of a field is not.
func checkField(f reflect.StructField, v reflect.Value) error {
	name, _ := ruleName(f)
	words := strings.Fields(f.Tag.Get("words"))
	switch {
	case len(words) > 0 && !slices.Contains(words, v.String()):
		return errors.New("want one of " + strings.Join(words, ", "))
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
	for f := range v.Type().Fields() {
		if have, _ := ruleName(f); have != name {
			continue
		}
		err := setField(v.FieldByIndex(f.Index), value)
		if err == nil {
			err = checkField(f, v.FieldByIndex(f.Index))
		}
		if err != nil {
			return fmt.Errorf("--set %s=%s: %w", name, value, err)
		}
		*r = changed
		return nil
	}
	return fmt.Errorf("--set %s: unknown option: choose from backend, %s", name, strings.Join(Names(), ", "))
}

func setField(f reflect.Value, value string) (err error) {
	var want string
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(value)
		want = "true or false"
		f.SetBool(b)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(value, 64)
		want = "a number"
		f.SetFloat(x)
	case reflect.Pointer:
		if f.SetZero(); value != "none" {
			f.Set(reflect.New(f.Type().Elem()))
			return setField(f.Elem(), value)
		}
	default:
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		want = "a whole number"
		f.SetInt(n)
	}
	if err != nil {
		return errors.New("want " + want)
	}
	return nil
}

// Names lists the names that Set takes, sorted.
func Names() (names []string) {
	for f := range reflect.TypeFor[Rules]().Fields() {
		name, _ := ruleName(f)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
