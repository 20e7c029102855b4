// Package column describes a row as columns: the values of each path, and their places in the row.
//
// A path names fields from the row on, separated by dots, with [] after the name of a list: "id", "requests[].t",
// "requests[].hash_ids[]". A path that ends at a record or at a list of records has no values, only states: whether each
// record or list is present.
//
// For the path "requests[].hash_ids[]", a row with two requests, the second without hash_ids, is:
//
//	Ints:     [1 2 3]                  // all ids
//	Lists[0]: {State: [Value], Ends: [2]}            // requests: the row has a list of 2
//	Lists[1]: {State: [Value Null], Ends: [3 3]}     // hash_ids: 3 elements, and null
//
// The reader of a file requests paths and gets a Column for each.
package column

import "slices"

// State says whether something is present.
type State uint8

const (
	Absent State = iota // the file has no such column, or what should hold the value is itself null
	Null                // null
	Value               // a value; of a list, also an empty one
)

// Kind is the type of a column's values.
type Kind uint8

const (
	Missing Kind = iota // the file has no such column
	None                // no values: the column is of type null, or a record, or a list of records
	Int                 // Ints
	Uint                // Ints, as the bits of unsigned 64-bit numbers
	Float               // Floats
	Text                // Texts, not necessarily UTF-8
	Other               // no values: the file has another type or shape there than the path says, see Column.Type
	JSON                // Texts, each a JSON value that stands for all paths that begin with this one
)

// Row is one row.
type Row struct {
	Wanted []Column // of the requested paths, in their order
	Others []Column // other fields of the records on those paths, of the kind Other
}

// Column is what one row has for one path. Its slots are the elements of the innermost list of records on the path, counted
// through the whole row; where there is no such list, the row itself is the only slot.
type Column struct {
	Path  string
	Kind  Kind
	Type  string  // the name of the type in the file, for messages
	State []State // by slot
	Lists []List  // on the path, outermost first

	// Values: one for each slot, or for each element where the path ends with a list. A null has the zero value.
	Ints   []int64
	Floats []float64
	Texts  []string

	Nulls []int32 // where the path ends with a list: the elements that are null, ascending
}

// List is one list on a path: which slots have one, and which elements belong to each.
type List struct {
	State []State // by slot of the list above, or of the row
	Ends  []int32 // by slot: where its elements end, as elements are counted through the row
}

// At returns the state of a slot.
func (c *Column) At(slot int) State {
	if slot >= len(c.State) {
		return Absent
	}
	return c.State[slot]
}

// Span returns the range of the elements that a slot has in the last list of the path.
func (c *Column) Span(slot int) (from, to int) {
	if len(c.Lists) == 0 {
		return 0, 0
	}
	return c.Lists[len(c.Lists)-1].Span(slot)
}

// Span returns the range of the elements that a slot has.
func (l *List) Span(slot int) (from, to int) {
	if slot >= len(l.Ends) {
		return 0, 0
	}
	if slot > 0 {
		from = int(l.Ends[slot-1])
	}
	return from, int(l.Ends[slot])
}

// NullIn returns the first element of a range that is null, -1 where there is none.
func (c *Column) NullIn(from, to int) int {
	if k, _ := slices.BinarySearch(c.Nulls, int32(from)); k < len(c.Nulls) && int(c.Nulls[k]) < to {
		return int(c.Nulls[k])
	}
	return -1
}
