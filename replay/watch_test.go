package replay

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// endAt lets Watched.End be called.
func (s *simulation) endAt(at time.Duration) {
	s.pending = append(s.pending, pendingEvent{at, event{kind: ending}})
}

// A phase that is ended at an instant is one with that duration: what it sends, when it cancels, and the bucket of every request.
func TestEndActsAsTheDuration(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		script := map[int]time.Duration{} // by id, so that both phases have the same answers
		o := Options{Concurrency: 1 + random.IntN(5), Grace: time.Duration(random.IntN(20)) * time.Second, Requests: random.IntN(3) * 15}
		o.Switches = withoutTreeIdle()
		o.Switches.CountGrace = random.IntN(2) == 0
		at := time.Duration(random.IntN(200))*time.Second + 1 // at which nothing else happens
		silent, longest := random.IntN(4) == 0, []int{2, 40}[random.IntN(2)]
		run := func(o Options, end bool) (*simulation, *loop) {
			s := &simulation{silent: silent, script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
				if _, ok := script[d.ID]; !ok {
					script[d.ID] = time.Duration(1+random.IntN(longest)) * time.Second
				}
				return script[d.ID], 0, ""
			}}
			l := s.loop(o, turnsOf{0, time.Second, time.Minute})
			if end {
				s.endAt(at)
			}
			require.NoError(t, l.run())
			return s, l
		}
		asked := o
		asked.Duration = at
		want, deadline := run(asked, false)
		for _, bound := range []time.Duration{0, time.Hour} {
			o.Duration = bound
			got, ended := run(o, true)
			if at > want.at+time.Second { // the requests were sent before
				continue
			}
			require.Equal(t, want.sent, got.sent)
			require.Equal(t, want.sentAt, got.sentAt)
			require.Equal(t, want.records, got.records)
			require.Equal(t, want.cancelAt, got.cancelAt)
			require.Equal(t, want.at, got.at)
			require.Equal(t, deadline.cutoff, ended.cutoff)
			require.Equal(t, deadline.deadlines, ended.deadlines)
			require.False(t, ended.endedEarly())
		}
	}
}

func TestEndAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		interrupt, end, duration, deadline time.Duration
	}{
		"of the duration":      {0, 7 * time.Second, 5 * time.Second, 5 * time.Second},
		"of an interrupt":      {5 * time.Second, 7 * time.Second, time.Hour, 5 * time.Second},
		"before the duration":  {0, 5 * time.Second, 7 * time.Second, 5 * time.Second},
		"before an interrupt":  {7 * time.Second, 5 * time.Second, time.Hour, 5 * time.Second},
		"without a duration":   {0, 5 * time.Second, 0, 5 * time.Second},
		"before the beginning": {0, -1, time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, l := simulate(Options{Concurrency: 2, Duration: c.duration, Grace: 20 * time.Second}, 2*time.Hour)
			if c.interrupt > 0 {
				s.interruptAt(c.interrupt)
			}
			s.endAt(c.end)
			require.NoError(t, l.run())
			require.Equal(t, c.deadline, l.cutoff.Deadline)
			require.Equal(t, c.interrupt > 0, l.endedEarly())
			if c.interrupt == 7*time.Second { // an interrupt has no shorter grace here
				require.Equal(t, 25*time.Second, s.cancelAt)
			}
		})
	}
}

// Who watches a run may end it. The results say for how long it was to send, and what was found.
func TestWatchedRunIsEnded(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 1000*time.Hour, time.Hour
	calls, atEnd := 0, 0
	o.Watch = func(ctx context.Context, w Watched) *measure.Until {
		calls++
		require.Equal(t, o.Out, w.Dir)
		for r, err := range measure.Follow(ctx, w.Dir, time.Tick(time.Millisecond)) {
			require.NoError(t, err)
			if r == nil {
				continue
			}
			if atEnd++; atEnd > 40 {
				w.End()
				w.End() // once is enough
			}
		}
		return &measure.Until{Reached: true, Looks: 2, Trees: 4, Targets: []measure.UntilTarget{
			{Metric: "ttft.p95", Unit: "s", Share: 0.05, Value: 2, Low: 1.9, High: 2.1, Margin: 0.05},
		}}
	}
	p := play(t, t.Context(), o)
	require.Equal(t, 1, calls)
	require.Equal(t, p.Requests, atEnd, "all records are in the file when the context ends")
	require.Greater(t, p.Requests, 40)
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	require.False(t, info.Facts.Cancelled)
	require.Positive(t, info.Facts.Deadline)
	require.Equal(t, info.Facts.Deadline, info.Facts.ExpectedDuration, "not the 1000 hours")
	require.Equal(t, p.Until, info.Facts.Until)
	require.Equal(t, min(info.Facts.Deadline, info.Facts.PhaseDuration), p.Until.After)
	require.Equal(t, measure.Number(0.05), p.Until.Targets[0].Share)
	for _, r := range p.records {
		require.Less(t, r.Due.Seconds(), info.Facts.Deadline)
		require.Equal(t, r.End.Seconds() > info.Facts.Deadline, r.Deadline > 0)
	}
}

// A run that is interrupted is watched to its end, and ends as it would alone. Nothing is known of a metric.
func TestWatchedRunIsInterrupted(t *testing.T) {
	g := newGate()
	url, _ := serve(t, g)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 1000*time.Hour, time.Hour
	i := interruption{t.Context(), make(chan struct{})}
	records := 0
	o.Watch = func(ctx context.Context, w Watched) *measure.Until {
		<-g.arrived         // a phase that is interrupted before it begins would be over already
		i.now <- struct{}{} // the run has received it
		require.NoError(t, ctx.Err())
		close(g.opened)
		for r, err := range measure.Follow(ctx, w.Dir, nil) {
			require.NoError(t, err)
			if r != nil {
				records++
			}
		}
		w.End()
		return nil
	}
	p := play(t, i, o)
	require.Equal(t, p.Requests, records)
	require.Nil(t, p.Until)
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	require.True(t, info.Facts.Cancelled)
	require.Equal(t, o.Duration.Seconds(), info.Facts.ExpectedDuration)
}
