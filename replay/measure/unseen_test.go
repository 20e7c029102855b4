package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// Covers T-222.
func TestUnseenRequests(t *testing.T) {
	run := func(seen, cut, over, cooled int) Summary {
		a := NewAggregate(Rules{})
		for k, n := range []int{seen, cut, over, cooled} {
			for range n {
				r := good(0, 1, 0, 0.5, 2.5, 5)
				switch k {
				case 1:
					r = bad(CancelledAtEnd, wire.Cancelled)
				case 2:
					r = bad(ContextOverflow, wire.ContextOverflow)
				case 3:
					r.Bucket = Cooldown
				}
				a.Add(r)
			}
		}
		return a.Summary(RunInfo{Run: Run{Scenario: &Scenario{Name: "s"}}, Facts: &Facts{PhaseDuration: 10}})
	}
	table := func(s Summary) string {
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		return b.String()
	}
	s := run(95, 5, 0, 0)
	require.Equal(t, Unseen{5, 0.05}, s.Unseen)
	require.NotContains(t, kindsOf(&s), "left_out")
	require.True(t, strings.HasPrefix(table(s), "requests    100 sent: 5 cut off at the end (5.00 % in no figure); 95 completed, 0 failed (0 %)\n"), table(s))
	require.Contains(t, table(s), "valid       yes\n")

	s = run(80, 12, 1, 7)
	require.Equal(t, Unseen{20, 0.2}, s.Unseen)
	text := "1 overflowed the context, 12 cut off at the end, 7 in cooldown (20.0 % in no figure)"
	require.Contains(t, s.Remarks, Remark{"left_out", Warning, []string{}, "left_out: of 100 requests " + text, nil})
	require.True(t, strings.HasPrefix(table(s), "requests    100 sent: "+text+"; 87 completed, 0 failed (0 % with the cooldown)\n"), table(s))
	s.Valid = new(true) // so many overflows are a reason under every scenario
	require.Contains(t, table(s), "valid       yes, but of 100 requests "+text+"\n")

	s = run(7, 0, 0, 0)
	require.Equal(t, Unseen{}, s.Unseen)
	require.True(t, strings.HasPrefix(table(s), "requests    7 sent: 7 completed, 0 failed (0 %)\n"), table(s))
}

// Covers T-223.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "p95 p99", 19: "p95 p99", 20: "p99", 99: "p99", 100: ""} {
		s := NewStat(make([]float64, n))
		var few []string
		for _, f := range figures {
			if s.Few(f.name) {
				few = append(few, f.name)
			}
		}
		require.Equal(t, want, strings.Join(few, " "), "%d samples", n)
	}
	f, err := ParseFigure("itl.p95")
	require.NoError(t, err)
	require.True(t, (&Summary{Metrics: Metrics{ITL: Stat{N: 19}}}).Few(f))
	require.False(t, (&Summary{Metrics: Metrics{ITL: Stat{N: 20}, TTFT: Stat{N: 1}}}).Few(f))
	a := NewAggregate(Rules{})
	for range 20 {
		a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	}
	var b strings.Builder
	require.NoError(t, a.Summary(RunInfo{}).WriteTable(&b, 0))
	require.Contains(t, b.String(), "ttft            500 ms    500 ms    500 ms    500 ms    500 ms   500 ms?    500 ms\n")
	require.Contains(t, b.String(), FewNote)
}

// A window that a preset prescribes stands beside what was delivered where the two differ by more than a tenth.
//
// Covers T-222.
func TestBothWindowsAreSaid(t *testing.T) {
	for phase, said := range map[float64]bool{10: false, 10.9: false, 12: true} {
		a := NewAggregate(Rules{PhaseWindow: true})
		for range 4 {
			a.Add(good(0, 1, 0, 0.5, 2.5, 5))
		}
		var b strings.Builder
		s := a.Summary(RunInfo{Run: Run{Preset: preset.AIPerf, Counting: Counting}, Facts: &Facts{PhaseDuration: phase, Deadline: 10}})
		require.NoError(t, s.WriteTable(&b, 0))
		require.Equal(t, said, strings.Contains(b.String(), "delivered   0.40 requests/s, 39.2 prompt tokens/s, 2 output tokens/s over 10.0 s, from the start to the deadline: the throughput above is by the window phase\n"), b.String())
	}
}
