package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// More than a tenth of buffered answers puts a remark on ttft and itl, in the summary and in its table; a tenth does not.
//
// Covers T-202.
func TestBufferedAnswersAreARemark(t *testing.T) {
	for _, buffered := range []int{0, 1, 2} {
		a := NewAggregate(Rules{})
		for k := range 10 {
			r := good(0, 0, 0, 1, 2, 200)
			if k < buffered {
				r.Burst = 24 + 3*k
			}
			a.Add(r)
		}
		s := a.Summary(RunInfo{})
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		if buffered < 2 {
			require.Empty(t, s.Remarks)
			require.NotContains(t, b.String(), "remarks")
			continue
		}
		require.Equal(t, Number(25.5), s.Deviations["buffered"].Typical)
		require.Equal(t, []Remark{{"buffered", []string{"ttft", "itl"},
			"buffered: ttft and itl tell when a buffer was emptied, for 2 of 10 answers, typically 26 messages at once"}}, s.Remarks)
		require.Contains(t, b.String(), "remarks     buffered: ttft and itl")
	}
}
