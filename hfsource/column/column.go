// Package column is the form of a row that is not text: for each leaf of it the values and where they lie. Whoever
// reads rows names the leaves that it wants, as paths; whoever delivers them fills in a Column for each.
//
// A path is the names of fields from the row on, with [] behind the name of a list: "id", "requests[].t",
// "requests[].hash_ids[]". A path that ends at a record or at a list of records has no values, only presence.
package column

import "slices"

// State says whether something is there.
type State uint8

const (
	Absent State = iota // there is no such column, or what holds the value is itself null
	Null                // given as null
	Value               // given; a list may still be empty
)

// Kind is the type of a column's values.
type Kind uint8

const (
	Missing Kind = iota // the file has no such column
	None                // it can only hold null, or is a record or a list of records: presence is all there is
	Int                 // Ints
	Uint                // Ints, the bits of unsigned 64-bit numbers
	Float               // Floats
	Text                // Texts, as they lie: not necessarily UTF-8
	Other               // a type or a shape that the path does not stand for, see Type: presence is all there is
	JSON                // Texts, each a JSON value: in the place of all that the path, and every longer one, stands for
)

// Row is one row as columns.
type Row struct {
	Wanted []Column // in the order of the paths asked for
	Others []Column // fields of wanted records that nobody asked for, for their presence: their Kind is Other
}

// Column is what one row holds of one path. A slot is what a value belongs to: the row, or an element of the innermost
// list of records above it, counted through the whole row.
type Column struct {
	Path  string
	Kind  Kind
	Type  string  // the file's name for the type, for messages
	State []State // by slot
	Lists []List  // of the path, outermost first

	// Values, one for each slot, or for each element where the path ends with a list; what is null holds zero.
	Ints   []int64
	Floats []float64
	Texts  []string

	Nulls []int32 // elements of a list of values that are null, ascending
}

// List is one list of a path: who has one, and which elements are whose.
type List struct {
	State []State // by slot of the list above, or of the row
	Ends  []int32 // behind the last element of each, as elements are counted through the row
}

// At returns the state of a slot.
func (c *Column) At(slot int) State {
	if slot >= len(c.State) {
		return Absent
	}
	return c.State[slot]
}

// Span returns which elements of the list that the path ends with belong to a slot.
func (c *Column) Span(slot int) (from, to int) {
	if len(c.Lists) == 0 {
		return 0, 0
	}
	return c.Lists[len(c.Lists)-1].Span(slot)
}

// Span returns which elements belong to a slot.
func (l *List) Span(slot int) (from, to int) {
	if slot >= len(l.Ends) {
		return 0, 0
	}
	if slot > 0 {
		from = int(l.Ends[slot-1])
	}
	return from, int(l.Ends[slot])
}

// NullIn returns the first null element of a span, -1 where there is none.
func (c *Column) NullIn(from, to int) int {
	if k, _ := slices.BinarySearch(c.Nulls, int32(from)); k < len(c.Nulls) && int(c.Nulls[k]) < to {
		return int(c.Nulls[k])
	}
	return -1
}
