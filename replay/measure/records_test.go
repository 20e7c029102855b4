package measure

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every instant of a record is moved by whole nanoseconds, and nothing else; what did not happen stays so.
func TestMoveMovesEveryInstant(t *testing.T) {
	lengths := []string{"Queued", "BackOff", "Waited"}
	var r Record
	v := reflect.ValueOf(&r).Elem()
	fields := reflect.VisibleFields(v.Type())
	for _, f := range fields {
		if f.Type == reflect.TypeFor[Time]() {
			v.FieldByIndex(f.Index).SetInt(7_000_000_001)
		}
	}
	r.Lane, r.MaxTokens = 3, 9
	before := r
	r.Move(0)
	require.Equal(t, before, r)
	r.Move(-1_000_000_001)
	for _, f := range fields {
		is := v.FieldByIndex(f.Index)
		switch {
		case f.Anonymous:
		case f.Type != reflect.TypeFor[Time]() || slices.Contains(lengths, f.Name):
			require.Equal(t, reflect.ValueOf(before).FieldByIndex(f.Index).Interface(), is.Interface(), f.Name)
		default:
			require.EqualValues(t, 6e9, is.Int(), f.Name)
		}
	}
	none := Record{}
	none.Move(5e8)
	require.Equal(t, Record{Numbers: Numbers{Due: At(0.5), Admitted: At(0.5), Sent: At(0.5), End: At(0.5)}}, none)
}
