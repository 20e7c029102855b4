package parquet

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// column is one field of a record, or of its error, as a column.
type column struct {
	name     string
	index    []int // of the field in a record
	kind     reflect.Type
	optional bool // null where the field has its zero value
}

// columns are the fields of a record by their keys in records.jsonl, in that order. The error has a column for each of its keys.
var columns = columnsOf(reflect.TypeFor[measure.Record](), "", nil)

// columnsOf returns the columns of a struct.
func columnsOf(t reflect.Type, prefix string, above []int) (list []column) {
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			list = append(list, columnsOf(f.Type, prefix, append(above[:len(above):len(above)], f.Index...))...)
			continue
		}
		if key == "-" {
			continue
		}
		c := column{name: prefix + key, index: append(above[:len(above):len(above)], f.Index...), kind: f.Type, optional: prefix != "" || options == "omitempty"}
		if c.kind.Kind() == reflect.Pointer {
			c.kind = c.kind.Elem()
		}
		if c.kind.Kind() == reflect.Struct {
			list = append(list, columnsOf(c.kind, c.name+"_", c.index)...)
			continue
		}
		list = append(list, c)
	}
	return list
}

// Columns that no key of a record has.
const (
	sentColumn     = "sent_ns"       // wall clock of sent, nanoseconds since 1970, as an integer
	contentsColumn = "content_times" // seconds from sent to each content message
)

// rowType is the struct of one row: a pointer for each column that may be null, in the order of the columns.
var rowType = func() reflect.Type {
	var fields []reflect.StructField
	add := func(name string, t reflect.Type, tag string) {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("C%d", len(fields)), Type: t, Tag: reflect.StructTag(`parquet:"` + name + tag + `"`)})
	}
	for _, c := range columns {
		t := plain(c.kind)
		if c.optional {
			add(c.name, reflect.PointerTo(t), ",optional")
		} else {
			add(c.name, t, "")
		}
	}
	add(sentColumn, reflect.TypeFor[int64](), "")
	add(contentsColumn, reflect.TypeFor[[]float64](), ",list")
	return reflect.StructOf(fields)
}()

// plain returns the type of the values of a column: a bool, an integer of 64 bits, a float64 or a text.
func plain(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.Float64:
		return reflect.TypeFor[float64]()
	case reflect.Int64:
		if t == reflect.TypeFor[measure.Time]() {
			return reflect.TypeFor[float64]()
		}
	case reflect.String:
		return reflect.TypeFor[string]()
	}
	return reflect.TypeFor[int64]()
}

// newRow returns a pointer to the row of a record. origin is when its phase started, in nanoseconds since 1970.
func newRow(r *measure.Record, origin int64) any {
	row := reflect.New(rowType).Elem()
	from := reflect.ValueOf(r).Elem()
	for k, c := range columns {
		v, err := from.FieldByIndexErr(c.index)
		if err != nil || c.optional && v.IsZero() { // the record has no error; the field no value
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		to := row.Field(k)
		if c.optional {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		switch x := v.Interface().(type) {
		case measure.Time:
			to.SetFloat(x.Seconds())
		case measure.Count:
			to.SetInt(x.N())
		default:
			to.Set(v.Convert(to.Type()))
		}
	}
	row.Field(len(columns)).SetInt(origin + int64(r.Sent))
	times := make([]float64, 0, r.Contents.Len())
	for at := range r.Contents.All() {
		times = append(times, at.Seconds())
	}
	row.Field(len(columns) + 1).Set(reflect.ValueOf(times))
	return row.Addr().Interface()
}
