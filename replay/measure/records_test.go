package measure

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every instant of a record is moved by whole nanoseconds, and nothing else; what did not happen stays so.
func TestMoveMovesEveryInstant(t *testing.T) {
	lengths := []string{"Queued", "BackOff", "Waited", "OutputByDeadline"}
	var r Record
	v := reflect.ValueOf(&r).Elem()
	for k := range v.NumField() {
		if v.Field(k).CanFloat() {
			v.Field(k).SetFloat(7.000000001)
		}
	}
	r.Lane, r.MaxTokens = 3, 9
	before := r
	r.Move(0)
	require.Equal(t, before, r)
	r.Move(-1_000_000_001)
	for k := range v.NumField() {
		name := v.Type().Field(k).Name
		switch {
		case !v.Field(k).CanFloat() || slices.Contains(lengths, name):
			require.Equal(t, reflect.ValueOf(before).Field(k).Interface(), v.Field(k).Interface(), name)
		default:
			require.Equal(t, 6.0, v.Field(k).Float(), name)
		}
	}
	none := Record{}
	none.Move(5e8)
	require.Equal(t, Record{Due: 0.5, Admitted: 0.5, Sent: 0.5, End: 0.5}, none)
}
