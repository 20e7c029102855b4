package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

// A scenario judges the whole load: a part says that it is one, and is not valid only for what makes the whole load not valid.
func TestAPartHasNoVerdictOfItsOwn(t *testing.T) {
	a := NewAggregate(Rules{CoverageGate: true})
	a.Add(good(0, 1, 0, 0.5, 2, 5))
	a.Add(bad(ContextOverflow, wire.ContextOverflow)) // one of two
	info := RunInfo{Run: Run{Scenario: &Scenario{Name: "s", MinDuration: 900}}, Facts: &Facts{ExpectedDuration: 900, Arrivals: &ArrivalFacts{
		Backlog: Quarters{1, 2, 10, 100}, SentRate: Quarters{1, 1, 1, 1},
	}}}
	judged := func() (*bool, []string) {
		s := a.Summary(info)
		return s.Valid, s.Reasons
	}
	for _, part := range []*PartInfo{nil, {Number: 0, Of: 1}} {
		info.Part = part
		valid, reasons := judged()
		require.False(t, *valid, "the only part is the whole load")
		require.Equal(t, []string{OverflowRate, InsufficientMetrics, BacklogGrew}, reasons)
	}
	info.Part = &PartInfo{Number: 1, Of: 4}
	valid, reasons := judged()
	require.Nil(t, valid)
	require.Nil(t, reasons)
	require.Nil(t, a.Summary(info).Coverage)

	info.Facts.Cancelled, info.Scenario.Overridden = true, []string{"speed"}
	valid, reasons = judged()
	require.False(t, *valid)
	require.Equal(t, []string{UnsafeOverride, RunCancelled}, reasons)

	var text strings.Builder
	require.NoError(t, a.Summary(info).WriteTable(&text, 100))
	require.True(t, strings.HasPrefix(text.String(), "part        1 of 4, from 0: "), text.String())
	info.Part.Of = 1
	text.Reset()
	require.NoError(t, a.Summary(info).WriteTable(&text, 100))
	require.NotContains(t, text.String(), "part  ")
}

func TestNamesOfDirectoriesOfParts(t *testing.T) {
	for _, p := range [][2]int{{0, 1}, {3, 16}, {65535, 65536}, {99999, 123456}} {
		number, of, ok := ParsePartDir(PartDir(p[0], p[1]))
		require.True(t, ok)
		require.Equal(t, p, [2]int{number, of})
	}
	for _, name := range []string{"part-0-of-4", "part-00000-of-00004x", "xpart-00000-of-00004", "part-0000a-of-00004", "part-00000"} {
		_, _, ok := ParsePartDir(name)
		require.False(t, ok, name)
	}
}

// What the clocks leave open stands behind each figure that crosses parts, never as less than it is.
func TestMarginOfClocks(t *testing.T) {
	p := &Parts{Of: 2, Used: 2, Clocks: Clocks{Uncertainty: 0.001}}
	require.Equal(t, " ± 0.026 %", p.Margin(8, true), "2 ms of 8 s, and of that less 2 ms")
	require.Equal(t, " ± 2.00 ms", p.Margin(8, false))
	require.Equal(t, " ± 0.001 %", p.Margin(1e6, true))
	require.Equal(t, " ± unknown", p.Margin(0.002, true), "the window may be empty")
	require.Equal(t, " ± unknown", p.Margin(Missing, true))
	p.Clocks.Uncertainty = Missing
	require.Equal(t, " ± unknown", p.Margin(8, false))
	p.Used = 1
	require.Empty(t, p.Margin(8, true))
	require.Empty(t, (*Parts)(nil).Margin(8, true))
}
