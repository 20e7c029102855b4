package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// A record whose request waited long before it was sent has no instant before its phase, whatever the clocks did meanwhile.
func TestShiftKeepsInstantsInThePhase(t *testing.T) {
	const start = 1_700_000_000_000_000_000
	p := &part{of: 2, phases: map[string]placed{"profiling": {start: start, origin: start}}, clock: measure.Clock{{Unix: start, Uncertainty: 5}, {Unix: start + 10e9, Offset: -1e6, Uncertainty: 5}}}
	r := &measure.Record{Phase: "profiling", Numbers: measure.Numbers{Due: 0, Admitted: measure.At(9), Sent: measure.At(10), End: measure.At(12)}}
	require.EqualValues(t, 0, p.shift(r))
	r.Due = measure.At(0.0004)
	require.EqualValues(t, -400_000, p.shift(r))
	r.Due = measure.At(3)
	require.EqualValues(t, -1e6, p.shift(r))
	require.GreaterOrEqual(t, p.uncertainty(r), int64(5+1e6*7/10), "its due instant lies where the clocks agreed better")
}

// The trees of a trace are counted in the order in which they began, in whatever parts.
func TestPassesFollowTheClock(t *testing.T) {
	first := &part{seen: &scan{trees: map[int]tree{0: {"a", 30}, 2: {"b", 5}, 4: {"a", 40}}}}
	second := &part{seen: &scan{trees: map[int]tree{1: {"a", 20}, 3: {"a", 35}}}}
	l := &load{parts: []*part{first, second}}
	l.countPasses()
	require.Equal(t, map[int]int{0: 1, 2: 0, 4: 3}, first.passes)
	require.Equal(t, map[int]int{1: 0, 3: 2}, second.passes)
}
