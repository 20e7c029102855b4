package measure

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// answerOf returns a request that was sent after 2 s, and had messages at instants since, each with a number of tokens; -1: not told.
func answerOf(output int64, messages ...[2]float64) *Record {
	r := &Record{Phase: ProfilingPhase, Bucket: Profiling, Numbers: Numbers{Sent: At(2), End: At(20), OutputTokens: Tokens(output), PromptTokens: Tokens(100)}}
	for _, m := range messages {
		r.Contents.Add(time.Duration(m[0]*1e9), int64(m[1]))
		if r.LastToken = At(r.Sent.Seconds() + m[0]); r.FirstToken == 0 {
			r.FirstToken = r.LastToken
		}
	}
	return r
}

// What had come by the deadline is counted to the token.
//
// Covers T-221.
func TestOutputByTheDeadline(t *testing.T) {
	cutoff := Cutoff{Deadline: 5 * time.Second, CountGrace: true}
	even := [][2]float64{{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}
	three := answerOf(9, even...)
	three.FirstChunkTokens = Tokens(3)
	failed := answerOf(9, even...)
	failed.Error = &Error{Category: wire.Timeout}
	unknown := answerOf(10, [2]float64{1, -1}, [2]float64{5, -1})
	unknown.Contents = wire.Contents{}
	for name, c := range map[string]struct {
		r    *Record
		want float64
	}{
		"a token each": {answerOf(5, even...), 3}, "two and more each": {answerOf(9, even...), 5}, "three in the first": {three, 6},
		"a fraction":              {answerOf(4, even...), 1 + 3*2/4.0},
		"told of each":            {answerOf(9, [2]float64{1, 4}, [2]float64{2, 3}, [2]float64{4, 2}), 7},
		"told, but not all":       {answerOf(11, [2]float64{1, 4}, [2]float64{2, 3}, [2]float64{4, 2}), 6},
		"at the deadline":         {answerOf(7, [2]float64{1, -1}, [2]float64{3, -1}), 7},
		"a nanosecond later":      {answerOf(7, [2]float64{1, -1}, [2]float64{3.000000001, -1}), 1},
		"the first token is late": {answerOf(7, [2]float64{3.5, -1}, [2]float64{4, -1}), 0},
		"no count":                {answerOf(-1, even...), 0}, "failed": {failed, 0}, "instants not known": {unknown, 5},
	} {
		cutoff.Deliver(c.r)
		require.Equal(t, 5.0, c.r.Deadline.Seconds(), name)
		require.InDelta(t, c.want, c.r.OutputByDeadline, 1e-12, name)
	}
	inTime := answerOf(5, even...)
	inTime.End = At(5)
	cutoff.Deliver(inTime)
	Cutoff{}.Deliver(inTime)
	require.Zero(t, inTime.Deadline.Seconds())
	require.Zero(t, testing.AllocsPerRun(10, func() { cutoff.Deliver(three) }))
}

// The rates under DeliveredOnly are of what had come by the deadline; everything else is over all requests.
//
// Covers T-221.
func TestDeliveredRates(t *testing.T) {
	cutoff := Cutoff{Deadline: 5 * time.Second, CountGrace: true}
	even := [][2]float64{{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}
	a := NewAggregate(Rules{GraceIncluded: true, DeliveredOnly: true})
	late, later, failed := answerOf(10, even...), answerOf(7, [2]float64{3.5, -1}, [2]float64{4, -1}), bad(Profiling, wire.Timeout)
	for _, r := range []*Record{good(0, 0, 0, 0.5, 2.5, 5), late, later, failed} {
		cutoff.Deliver(r)
		a.Add(r)
	}
	facts := &Facts{PhaseDuration: 20, Deadline: 5}
	s := a.Summary(RunInfo{Run: Run{Counting: Counting}, Facts: facts})
	want := ThroughputWindow{"delivered", 0, 5, 5, Amount{1, 198, 5 + 1 + 9*2/4.0}}
	require.Equal(t, want, s.ThroughputWindow)
	require.Equal(t, want, s.Delivered)
	require.Equal(t, 3, s.Measured)
	require.EqualValues(t, 0.2, s.RequestRate)
	require.EqualValues(t, 198/5.0, s.PromptTokenRate)
	require.EqualValues(t, 10.5/5, s.OutputTokenRate)
	require.EqualValues(t, 22, s.OutputTokens)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "over 5.00 s up to the deadline, by which 1 of the 3 had completed\n")

	facts.Deadline = 0
	require.EqualValues(t, 50, a.Summary(RunInfo{Facts: facts}).ThroughputWindow.Seconds, "the last end, which is that of a failure")
	require.EqualValues(t, 5, a.Summary(RunInfo{}).ThroughputWindow.Seconds, "killed in the grace: records tell the deadline")
	facts.Deadline, facts.PhaseDuration = 30, 20
	require.EqualValues(t, 20, a.Summary(RunInfo{Facts: facts}).ThroughputWindow.Seconds, "everything was played before the deadline")
	require.True(t, a.Summary(RunInfo{Facts: facts}).Delivered.Seconds.IsMissing(), "records of an earlier version do not tell")
}

// A run in which nothing completed has no rates, and says so in words.
func TestThroughputOfNothing(t *testing.T) {
	var b strings.Builder
	require.NoError(t, aggregated(bad(Profiling, wire.Timeout)).Summary(RunInfo{}).WriteTable(&b, 0))
	require.Contains(t, b.String(), "\nthroughput  none: no request completed\n")
}

// Results without a version of the counting are read as they were meant.
//
// Covers T-221.
func TestSwitchesOfEarlierResults(t *testing.T) {
	now, err := SwitchesOfRun(Run{Preset: preset.Default, Counting: Counting})
	require.NoError(t, err)
	require.True(t, now.CountGrace)
	require.Equal(t, preset.WindowDelivered, now.ThroughputWindow)
	for _, name := range []string{"", preset.Default} {
		then, err := SwitchesOfRun(Run{Preset: name})
		require.NoError(t, err)
		require.False(t, then.CountGrace)
		require.Equal(t, preset.WindowBenchmark, then.ThroughputWindow)
	}
	set, err := SwitchesOfRun(Run{Preset: preset.Default, Switches: map[string]json.RawMessage{"count-grace": json.RawMessage("true"), "throughput-window": json.RawMessage(`"phase"`)}})
	require.NoError(t, err)
	require.True(t, set.CountGrace)
	require.Equal(t, preset.WindowPhase, set.ThroughputWindow)
	same, err := SwitchesOfRun(Run{Preset: preset.AIPerf})
	require.NoError(t, err)
	require.True(t, same.CountGrace)
}
