package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/agentx/agentx/internal/jsonlex"
)

// field is a key of a record in its JSON form. The keys and their order are those of the tags, as encoding/json takes them. By this table a
// line takes 5.4 us (least of eight runs on a busy machine), with a statement for each key 8.0, by encoding/json 15.4.
type field struct {
	key      string
	before   string // what stands before its value: ,"due":
	place    int    // in its struct
	as       form
	optional bool    // it is left out where it has its zero value
	fields   []field // of an object or a group
}

// form says how a field is written.
type form uint8

const (
	texts form = iota
	integers
	bools
	floats
	times    // Time: seconds
	counts   // Count: its number
	pointers // to an integer
	objects  // a pointer to a struct
	groups   // an embedded struct, whose keys stand beside the others
)

var recordFields = sync.OnceValue(func() []field { return fieldsOf(reflect.TypeFor[Record]()) })

// fieldsOf makes the table of a struct from its tags.
func fieldsOf(t reflect.Type) (list []field) {
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" {
			continue
		}
		x := field{key: key, before: `,"` + key + `":`, place: f.Index[0], as: integers, optional: options == "omitempty"}
		if t != reflect.TypeFor[Numbers]() && t != reflect.TypeFor[Transfer]() && len(list) == 0 {
			x.before = x.before[1:] // it is the first of the object, and never left out
		}
		kind := f.Type.Kind()
		switch of := f.Type; {
		case f.Anonymous:
			x.as, x.fields = groups, fieldsOf(of)
		case of == reflect.TypeFor[*Error]():
			x.as, x.fields = objects, fieldsOf(of.Elem())
		case kind == reflect.Pointer:
			x.as = pointers
		case of == reflect.TypeFor[Time]():
			x.as = times
		case of == reflect.TypeFor[Count]():
			x.as = counts
		case kind == reflect.String:
			x.as = texts
		case kind == reflect.Bool:
			x.as = bools
		case kind == reflect.Float64:
			x.as = floats
		}
		list = append(list, x)
	}
	return list
}

// AppendJSON appends the record as one JSON object and returns the extended buffer. The bytes are those of encoding/json.
func (r *Record) AppendJSON(b []byte) []byte {
	return append(appendFields(append(b, '{'), reflect.ValueOf(r).Elem(), recordFields()), '}')
}

// appendFields appends the fields of a struct, each behind its key.
func appendFields(b []byte, v reflect.Value, fields []field) []byte {
	for k := range fields {
		f, x := &fields[k], v.Field(fields[k].place)
		switch f.as {
		case groups:
			b = appendFields(b, x, f.fields)
		case texts:
			if s := x.String(); s != "" || !f.optional {
				b = appendText(append(b, f.before...), s)
			}
		case integers:
			if n := x.Int(); n != 0 || !f.optional {
				b = strconv.AppendInt(append(b, f.before...), n, 10)
			}
		case bools:
			if yes := x.Bool(); yes || !f.optional {
				b = strconv.AppendBool(append(b, f.before...), yes)
			}
		case floats:
			if n := x.Float(); n != 0 || !f.optional {
				b = appendFloat(append(b, f.before...), n)
			}
		case times:
			if n := x.Int(); n != 0 || !f.optional {
				b = appendFloat(append(b, f.before...), Time(n).Seconds())
			}
		case counts:
			if n := x.Int(); n != 0 {
				b = strconv.AppendInt(append(b, f.before...), Count(n).N(), 10)
			}
		case pointers:
			if !x.IsNil() {
				b = strconv.AppendInt(append(b, f.before...), x.Elem().Int(), 10)
			}
		case objects:
			if !x.IsNil() {
				b = append(appendFields(append(append(b, f.before...), '{'), x.Elem(), f.fields), '}')
			}
		}
	}
	return b
}

// appendFloat appends the shortest form that reads back as the same number. It leaves numbers for which encoding/json would
// choose an exponent to it: of times, those below a microsecond.
func appendFloat(b []byte, f float64) []byte {
	if a := math.Abs(f); a == 0 || (a >= 1e-6 && a < 1e21) {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return appendAny(b, f)
}

// appendText appends plain ASCII as it is and leaves any other string to encoding/json.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendAny(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendAny appends a value as encoding/json writes it.
func appendAny(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil { // NaN or infinity
		j = []byte("null")
	}
	return append(b, j...)
}

// parseRecord reads a line of RecordsFile into an empty record, as encoding/json does but for the letter case of keys: several
// times as fast.
func parseRecord(line []byte, r *Record) error {
	l := jsonlex.New(line)
	if err := parseFields(l, recordPlaces(), reflect.ValueOf(r).Elem()); err != nil {
		return err
	}
	return l.End()
}

// placed is a field with its place below the struct that is read.
type placed struct {
	*field
	index []int
}

// The fields of a Record and of an Error by their keys.
var (
	recordPlaces = sync.OnceValue(func() map[string]placed { return placesOf(recordFields(), nil) })
	errorPlaces  = sync.OnceValue(func() map[string]placed { return placesOf(fieldsOf(reflect.TypeFor[Error]()), nil) })
)

// placesOf returns fields by their keys, with those of groups. above is where their struct lies in the one that is read.
func placesOf(fields []field, above []int) map[string]placed {
	places := map[string]placed{}
	for k := range fields {
		f := &fields[k]
		at := placed{f, append(above[:len(above):len(above)], f.place)}
		if f.as != groups {
			places[f.key] = at
			continue
		}
		for key, below := range placesOf(f.fields, at.index) {
			places[key] = below
		}
	}
	return places
}

// parseFields reads an object into a struct. It skips keys without a field. A null makes a pointer nil and leaves other fields alone.
func parseFields(l *jsonlex.Lexer, fields map[string]placed, to reflect.Value) error {
	return l.Object(func(key []byte) error {
		f, ok := fields[string(key)]
		if !ok {
			return l.Skip()
		}
		x := to.FieldByIndex(f.index)
		if l.Null() {
			if x.Kind() == reflect.Pointer {
				x.SetZero()
			}
			return nil
		}
		if x.Kind() == reflect.Pointer {
			if x.IsNil() {
				x.Set(reflect.New(x.Type().Elem()))
			}
			x = x.Elem()
		}
		if err := f.parse(l, x); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
}

// parse reads the value of a field.
func (f *field) parse(l *jsonlex.Lexer, to reflect.Value) error {
	switch f.as {
	case objects:
		return parseFields(l, errorPlaces(), to)
	case texts:
		text, err := l.Text()
		to.SetString(text)
		return err
	case bools:
		b, err := l.Bool()
		to.SetBool(b)
		return err
	}
	number, err := l.Number()
	if err != nil {
		return err
	}
	switch f.as {
	case times:
		return to.Addr().Interface().(*Time).UnmarshalJSON(number)
	case counts:
		return to.Addr().Interface().(*Count).UnmarshalJSON(number)
	case floats:
		x, err := strconv.ParseFloat(string(number), 64)
		to.SetFloat(x)
		return err
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	to.SetInt(n)
	return err
}
