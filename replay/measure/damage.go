package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// Bounds of what a run writes. A larger number would spoil every sum that it is in.
const (
	maxSeconds = 1e9     // 31 years
	maxCount   = 1 << 40 // what package wire believes of a server
	maxSum     = 1 << 53
)

// checkNumbers returns an error that names the first number, in a value of a result file, that no run writes: a negative one, or one
// that is too large. name is the key of the value.
func checkNumbers(name string, value any, maxInt int64) error {
	if path, problem := findNumber(reflect.ValueOf(value), maxInt); problem != "" {
		return fmt.Errorf("%s: %s", strings.TrimPrefix(name+path, "."), problem)
	}
	return nil
}

// findNumber returns where below a value such a number is, and what is wrong with it; an empty problem: there is none.
func findNumber(v reflect.Value, maxInt int64) (path, problem string) {
	switch v.Kind() {
	case reflect.Float64: // null, where a Number is not known, is NaN
		if err := checkSeconds(v.Float()); err != nil {
			return "", err.Error()
		}
	case reflect.Int, reflect.Int64:
		if v.CanConvert(reflect.TypeFor[json.Marshaler]()) { // a Time or Count, which was checked when it was read
			return "", ""
		}
		if err := checkInt(v.Int(), maxInt); err != nil {
			return "", err.Error()
		}
	case reflect.Pointer:
		return findNumber(v.Elem(), maxInt)
	case reflect.Slice:
		for k := range v.Len() {
			if path, problem := findNumber(v.Index(k), maxInt); problem != "" {
				return fmt.Sprintf("[%d]%s", k, path), problem
			}
		}
	case reflect.Struct:
		for k := range v.NumField() {
			if field := v.Field(k); field.CanInterface() {
				if path, problem := findNumber(field, maxInt); problem != "" && keyOf(v, k) != "-" {
					if v.Type().Field(k).Anonymous {
						return path, problem
					}
					return "." + keyOf(v, k) + path, problem
				}
			}
		}
	}
	return "", ""
}

// checkSeconds returns an error about a time that no run writes, in seconds.
func checkSeconds(x float64) error {
	if x < 0 || x > maxSeconds {
		return fmt.Errorf("%v: want 0 to %.0e", x, maxSeconds)
	}
	return nil
}

// checkInt returns an error about a number that no run writes.
func checkInt(n, most int64) error {
	if n < 0 || n > most {
		return fmt.Errorf("%d: want 0 to %d", n, most)
	}
	return nil
}

// keyOf returns the key of a field of a struct.
func keyOf(v reflect.Value, field int) string {
	key, _, _ := strings.Cut(v.Type().Field(field).Tag.Get("json"), ",")
	return key
}

// jsonError says in which line of a text an error of encoding/json is, and about which field.
func jsonError(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	line := func(offset int64) int { return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte{'\n'}) }
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: %s: %s is not allowed here", line(kind.Offset), kind.Field, kind.Value)
	}
	return err
}

// check returns an error that names the first field with a value that no run writes.
func (r *Record) check() error {
	if err := checkNumbers("", r, maxCount); err != nil {
		return err
	}
	if r.Phase != WarmupPhase && r.Phase != ProfilingPhase {
		return fmt.Errorf("phase: %q: want %s or %s", r.Phase, WarmupPhase, ProfilingPhase)
	}
	if want := r.buckets(); !slices.Contains(want, r.Bucket) {
		return fmt.Errorf("bucket: %q: want %q for this phase and error", r.Bucket, want)
	}
	return r.checkOrder()
}

// buckets returns the buckets that a request of this phase and with this failure may be in.
func (r *Record) buckets() []Bucket {
	switch {
	case r.Phase == WarmupPhase:
		return []Bucket{WarmupBucket}
	case r.Error != nil && r.Error.Category == wire.Cancelled:
		return []Bucket{CancelledAtEnd}
	case r.Error != nil && r.Error.Category == wire.ContextOverflow:
		return []Bucket{ContextOverflow}
	}
	return []Bucket{Profiling, Cooldown}
}

// checkOrder returns an error if the request ended before it was sent, or its content came at another time.
func (r *Record) checkOrder() error {
	if (r.FirstToken > 0) != (r.LastToken > 0) {
		return fmt.Errorf("first_token: %v, last_token: %v: want both or none", r.FirstToken.Seconds(), r.LastToken.Seconds())
	}
	keys, at := []string{"sent", "first_token", "last_token", "end"}, []float64{r.Sent.Seconds(), r.FirstToken.Seconds(), r.LastToken.Seconds(), r.End.Seconds()}
	if r.FirstToken == 0 {
		keys, at = []string{"sent", "end"}, []float64{r.Sent.Seconds(), r.End.Seconds()}
	}
	for k := range at[1:] {
		if at[k+1] < at[k] {
			return fmt.Errorf("%s: %v: want no instant before %s, %v", keys[k+1], at[k+1], keys[k], at[k])
		}
	}
	return nil
}
