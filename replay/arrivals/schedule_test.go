package arrivals

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// take returns the next n instants of a schedule.
func take(t *testing.T, s Schedule, n int) (list []time.Duration) {
	t.Helper()
	for range n {
		at, ok := s.Next()
		if !ok {
			require.Len(t, list, n, "the schedule ended")
		}
		list = append(list, at)
	}
	return list
}

func TestRecordedGivesItsInstants(t *testing.T) {
	s := Recorded([]time.Duration{0, 5, 5})
	require.Equal(t, []time.Duration{0, 5, 5}, take(t, s, 3))
	for range 2 {
		_, ok := s.Next()
		require.False(t, ok)
	}
}
