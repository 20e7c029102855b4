package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// busyUntil is a server that asks to come back after a time before an instant, and then answers after a second.
func busyUntil(free, retryAfter time.Duration) *simulation {
	s := &simulation{retryAfter: retryAfter}
	s.script = func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if s.at < free {
			return 0, 0, wire.Overload
		}
		return time.Second, 0, ""
	}
	return s
}

// sentBy returns when a lane sent, in seconds.
func (s *simulation) sentBy(lane int) (at []float64) {
	for k, order := range s.sent {
		if order.Lane == lane {
			at = append(at, s.sentAt[k].Seconds())
		}
	}
	return at
}

// throttledBy adds up what the records say.
func (s *simulation) throttledBy() (answers int, seconds float64) {
	for _, r := range s.records {
		answers, seconds = answers+r.Throttled, seconds+r.Waited.Seconds()
	}
	return answers, seconds
}

// once gives each lane one session of two turns, and no more.
type once map[int]bool

func (o once) Next(lane int) (conductor.Assignment, bool) {
	if o[lane] {
		return conductor.Assignment{}, false
	}
	o[lane] = true
	return turnsOf{0, 0}.Next(lane)
}

// With RetryWait a turn is sent again until its server takes it, with one record; a turn after a wait is not late.
//
// Covers T-164.
func TestRetryAfterWait(t *testing.T) {
	s := busyUntil(5*time.Second, 2*time.Second)
	l := s.loop(Options{Concurrency: 2, Once: true, RetryAfter: RetryWait, Backoff: usual}, once{})
	require.NoError(t, l.run())
	for lane := range 2 {
		require.Equal(t, []float64{0, 2, 4, 6, 7}, s.sentBy(lane))
	}
	require.Len(t, s.records, 4)
	require.Equal(t, 4, l.progress.Completed)
	require.Zero(t, l.progress.Errors)
	answers, waited := s.throttledBy()
	require.Equal(t, 2*3, answers)
	require.Equal(t, 2*6.0, waited)
	for _, r := range s.records {
		require.Nil(t, r.Error)
	}
	for k, order := range s.sent {
		require.Equal(t, s.sentAt[k], order.Due)
	}
}

// With RetryRecord the request has failed, and its lane sends nothing before the time. Without either nothing waits.
//
// Covers T-164.
func TestRetryAfterRecord(t *testing.T) {
	s := busyUntil(5*time.Second, 2*time.Second)
	l := s.loop(Options{Concurrency: 1, Duration: 9 * time.Second, RetryAfter: RetryRecord, Backoff: usual}, turnsOf{0, 0, 0})
	require.NoError(t, l.run())
	require.Equal(t, []float64{0, 2, 4, 6, 7, 8}, s.sentBy(0))
	answers, waited := s.throttledBy()
	require.Equal(t, []any{3, 6.0, 3}, []any{answers, waited, l.progress.Errors})
	require.Len(t, s.records, 6)

	s = busyUntil(1<<60, 30*time.Second)
	l = s.loop(Options{Concurrency: 1, Duration: 10 * time.Second, RetryAfter: RetryRecord}, turnsOf{0, 0, 0})
	require.NoError(t, l.run())
	answers, waited = s.throttledBy()
	require.Equal(t, []any{1, 10.0}, []any{answers, waited}, "the deadline ends the wait")

	s.sent, s.sentAt, s.records, s.at = nil, nil, nil, 0
	s.script = func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		return time.Second, 0, wire.Overload
	}
	l = s.loop(Options{Concurrency: 1, Duration: 4 * time.Second, RetryAfter: RetryIgnored}, turnsOf{0, 0, 0})
	require.NoError(t, l.run())
	require.Equal(t, []float64{0, 1, 2, 3}, s.sentBy(0))
	answers, waited = s.throttledBy()
	require.Equal(t, []any{0, 0.0, 4}, []any{answers, waited, l.progress.Errors})
}

// A lane waits for a minute at most for one answer, and a turn for half an hour in all. What several requests of a lane are asked for at a
// time counts once.
//
// Covers T-164.
func TestRetryAfterIsBounded(t *testing.T) {
	s := busyUntil(90*time.Second, time.Hour)
	l := s.loop(Options{Concurrency: 1, Duration: 200 * time.Second, RetryAfter: RetryRecord}, turnsOf{0, 0})
	require.NoError(t, l.run())
	require.Equal(t, []float64{0, 60, 120, 121}, s.sentBy(0)[:4])

	s = busyUntil(1<<60, time.Hour)
	l = s.loop(Options{Concurrency: 1, Once: true, RetryAfter: RetryWait}, once{})
	require.NoError(t, l.run())
	require.Len(t, s.sent, 62, "each of two turns after 0 to 30 minutes")
	require.Len(t, s.records, 2)
	require.Equal(t, []any{31, 1860.0}, []any{s.records[1].Throttled, s.records[1].Waited.Seconds()}, "and its lane a minute for the last")
	require.Equal(t, wire.Overload, s.records[0].Error.Category)
	require.Equal(t, 2, l.progress.Errors)

	s = busyUntil(1, 10*time.Second) // both sessions of the lane ask at once
	l = s.loop(Options{Concurrency: 1, Duration: 20 * time.Second, RetryAfter: RetryRecord}, onceOf{twins})
	require.NoError(t, l.run())
	answers, waited := s.throttledBy()
	require.Equal(t, []any{3, 10.0}, []any{answers, waited})
}

// twins is a tree whose root spawns two sessions at its issue.
var twins = &conductor.Tree{
	Sessions: []conductor.Session{
		{Turns: []conductor.Turn{{Spawns: []int{0}}}}, {Turns: make([]conductor.Turn, 1), OnIssue: true}, {Turns: make([]conductor.Turn, 1), OnIssue: true},
	},
	Branches: []conductor.Branch{{Sessions: []int{1, 2}, OnIssue: true}},
}

// onceOf hands out a tree.
type onceOf struct{ tree *conductor.Tree }

func (o onceOf) Next(int) (conductor.Assignment, bool) {
	return conductor.Assignment{Tree: o.tree}, true
}

// The deadline and an interrupt end a wait: the request has failed as it was answered, after the time that it did wait.
//
// Covers T-164.
func TestTheEndEndsAWait(t *testing.T) {
	for name, at := range map[string]time.Duration{"deadline": 0, "interrupt": 7 * time.Second} {
		s := busyUntil(1<<60, 30*time.Second)
		o := Options{Concurrency: 3, Once: true, RetryAfter: RetryWait}
		want := 7.0
		if at == 0 {
			o.Duration, want = 10*time.Second, 10
		} else {
			s.interruptAt(at)
		}
		l := s.loop(o, once{})
		require.NoError(t, l.run())
		require.Len(t, s.sent, 3)
		require.Len(t, s.records, 3)
		require.Equal(t, want, s.at.Seconds(), name)
		for _, r := range s.records {
			require.Equal(t, []any{1, want, measure.Profiling, wire.Overload}, []any{r.Throttled, r.Waited.Seconds(), r.Bucket, r.Error.Category}, name)
		}
		require.Equal(t, 3, l.progress.Errors)
		require.Empty(t, l.throttle.waiting)
	}
	s := busyUntil(1<<60, 30*time.Second) // another request is in flight when the interrupt comes
	s.script = func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if d.Lane == 0 {
			return 0, 0, wire.Overload
		}
		return 20 * time.Second, 0, ""
	}
	s.interruptAt(7 * time.Second)
	l := s.loop(Options{Concurrency: 2, Once: true, Grace: time.Minute, RetryAfter: RetryWait}, once{})
	require.NoError(t, l.run())
	require.Equal(t, []any{0, 7.0, 20.0}, []any{s.records[0].Lane, s.records[0].Waited.Seconds(), s.at.Seconds()})

	s = busyUntil(1<<60, 30*time.Second) // a pause: the next phase sends the turn again
	l = s.loop(Options{Concurrency: 1, RetryAfter: RetryWait}, once{})
	l.handsOff = true
	l.deadlines.duration = 5 * time.Second
	require.NoError(t, l.run())
	require.Equal(t, []any{1, 5.0}, []any{s.records[0].Throttled, s.records[0].Waited.Seconds()})
	state, ok := l.conductor.Handoff(0)
	require.True(t, ok)
	require.Zero(t, state.Sessions[0].Turn)

	p := measuredPhase(Options{Concurrency: 2, Switches: withoutTreeIdle()}, treesOf{once{}}, s) // so does that of the last lane
	p.limits.LaneRequests = 1
	s.records, s.pending, s.at = nil, nil, 0
	s.script = func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		return time.Second, 0, wire.Overload
	}
	l = newLoop(Options{Concurrency: 2, Switches: withoutTreeIdle(), Progress: func(Progress) {}, RetryAfter: RetryWait}, p, s, s)
	require.NoError(t, l.run())
	require.Len(t, s.records, 2)

	s = busyUntil(1<<60, 30*time.Second) // an answer after the end waits for nothing
	s.script = func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		return 5 * time.Second, 0, wire.Overload
	}
	l = s.loop(Options{Concurrency: 1, Duration: 3 * time.Second, Grace: time.Minute, RetryAfter: RetryWait, Switches: withoutGrace()}, once{})
	require.NoError(t, l.run())
	require.Equal(t, 5*time.Second, s.at)
	require.Equal(t, []any{0, measure.Cooldown}, []any{s.records[0].Throttled, s.records[0].Bucket})
}

// resolved returns options with their defaults, without a look at a cache.
func resolved(o Options) Options {
	o.Marker = payload.NoMarker
	return o.WithDefaults()
}

// The default waits where every trace is played once. Presets that imitate other tools refuse both by name.
func TestRetryAfterOfARun(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want RetryAfter
	}{
		{Options{}, RetryWait}, {Options{Once: true, Duration: time.Hour}, RetryWait}, {Options{Duration: time.Hour}, RetryRecord},
		{Options{Requests: 5}, RetryRecord}, {Options{RetryAfter: RetryRecord}, RetryRecord}, {Options{Duration: 1, RetryAfter: RetryWait}, RetryWait},
		{Options{RetryAfter: RetryIgnored}, RetryIgnored}, {Options{Preset: preset.AIPerf}, RetryIgnored}, {Options{Preset: "agentx-v1.0.5"}, RetryIgnored},
	} {
		require.Empty(t, c.o.Contradictions())
		require.Equal(t, c.want, resolved(c.o).RetryAfter, "%+v", c)
	}
	for _, name := range []string{preset.AIPerf, preset.AgentX, "agentx-v1.0.5"} {
		for _, r := range []RetryAfter{RetryWait, RetryRecord} {
			o := Options{Preset: name, RetryAfter: r}
			require.EqualError(t, o.Contradictions()[0], "--retry-after: the tool that preset "+name+" imitates does not look at Retry-After: leave it out, or choose --preset default")
		}
		o := Options{Preset: name, RetryAfter: RetryIgnored}
		require.Empty(t, o.Contradictions())
		o = resolved(Options{Preset: name})
		require.Zero(t, o.StallTimeout+o.FirstByteTimeout)
		require.Equal(t, time.Minute, resolved(Options{Preset: name, StallTimeout: time.Minute}).StallTimeout)
	}
	o := resolved(Options{})
	require.Equal(t, []time.Duration{5 * time.Minute, 30 * time.Minute}, []time.Duration{o.StallTimeout, o.FirstByteTimeout})
	require.Zero(t, resolved(Options{StallTimeout: Off}).StallTimeout)
	require.ErrorContains(t, Options{RetryAfter: RetryIgnored + 1}.validatePlayed(), "retry after 4: want 0 to 3")
}

// In a warmup a throttled request waits under either: a primer that fails would end the run. It has the ids, and the marker, of its tree.
//
// Covers T-164.
func TestThrottledPrimerWaits(t *testing.T) {
	o := warming(t, recorded(t, recording("a", call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1})), preset.Default, Warmup{Primers: true})
	o.Duration = 30 * time.Second
	busy := map[string]bool{}
	v, err := virtually(t, o, func(s sentTurn) answerTo {
		if !busy[s.name] {
			busy[s.name] = true
			return answerTo{takes: time.Second, category: wire.Overload, retry: 5 * time.Second}
		}
		return second(s)
	}, at(5))
	require.NoError(t, err)
	warm := v.of(measure.WarmupPhase)
	require.Len(t, warm, 2)
	require.Equal(t, 6*time.Second, warm[1].at-warm[0].at)
	require.Equal(t, []any{warm[0].correlation, warm[0].marker, warm[0].turn}, []any{warm[1].correlation, warm[1].marker, warm[1].turn})
	require.Equal(t, []int{1, 0}, []int{v.summary.Warmup.Requests, len(v.summary.Warmup.Errors)})
	require.Equal(t, 1, v.summary.Errors[wire.Overload], "what is measured has failed")
	require.Equal(t, measure.Throttled{Answers: 1, Seconds: 5}, v.summary.Throttled)
}

// Servers that stall are looked for every second. The progress says for how long nothing was received while requests are in flight.
//
// Covers T-161.
func TestProgressSaysThatNothingIsReceived(t *testing.T) {
	var said []time.Duration
	s := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) { return 4 * time.Second, 0, "" }}
	l := s.loop(Options{Concurrency: 1, Duration: 20 * time.Second, Progress: func(p Progress) {
		s.heard = max(s.heard, s.at-s.at%(3*time.Second)) // a byte every three seconds
		said = append(said, p.Silent)
	}}, turnsOf{0, 6 * time.Second})
	require.NoError(t, l.run())
	var seconds []float64
	for _, d := range said {
		seconds = append(seconds, d.Seconds())
	}
	require.Equal(t, []float64{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1}, seconds[:13], "requests are in flight from 0 to 4 s and from 10 to 14 s")
	require.Equal(t, len(said), len(s.looks))
	require.Equal(t, time.Second, s.looks[1]-s.looks[0])
}
