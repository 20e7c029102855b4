package replay

import (
	"cmp"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// stageOf is a transport on virtual time, with results that are kept, and the clock of a phase that is played on it.
type stageOf struct {
	at       time.Duration
	script   func(conductor.Dispatch) (takes time.Duration, token time.Duration, category wire.Category)
	deaf     bool // what is cancelled does not return
	coming   []coming
	sent     []conductor.Dispatch
	sentAt   []time.Duration
	booked   []outcome
	told     []conductor.Event
	unlike   error // of booking
	cancelAt time.Duration
	waitsFor []waited
}

// waited is what an interrupt waits for.
type waited struct {
	running int
	most    time.Duration
}

type coming struct {
	at time.Duration
	event
}

func (s *stageOf) now() time.Duration { return s.at }

func (s *stageOf) await(until time.Duration) (event, bool) {
	slices.SortStableFunc(s.coming, func(a, b coming) int { return cmp.Compare(a.at, b.at) })
	if len(s.coming) > 0 && s.coming[0].at <= until {
		e := s.coming[0]
		s.coming = s.coming[1:]
		s.at = max(s.at, e.at)
		return e.event, true
	}
	s.at = max(s.at, until)
	return event{}, false
}

func (s *stageOf) launch(order conductor.Dispatch) {
	s.sent, s.sentAt = append(s.sent, order), append(s.sentAt, s.at)
	takes, token, category := s.script(order)
	if token > 0 {
		s.coming = append(s.coming, coming{s.at + token, event{token: true, id: order.ID}})
	}
	s.returns(order, s.at+takes, category)
}

func (s *stageOf) returns(order conductor.Dispatch, at time.Duration, category wire.Category) {
	o := &outcome{send: order, end: at, record: measure.Record{Sent: s.at.Seconds(), End: at.Seconds()}}
	if category != "" {
		o.record.Error = &measure.Error{Category: category, Message: "scripted"}
	}
	s.coming = append(s.coming, coming{at, event{outcome: o}})
}

func (s *stageOf) abort() {
	s.cancelAt = s.at
	flying := s.coming
	s.coming = nil
	for _, e := range flying {
		switch {
		case e.outcome == nil:
			s.coming = append(s.coming, e)
		case !s.deaf:
			s.returns(e.outcome.send, s.at, wire.Cancelled)
		}
	}
}

func (s *stageOf) lost(order conductor.Dispatch) outcome {
	return outcome{send: order, record: measure.Record{Error: &measure.Error{Category: wire.Cancelled}}, end: s.at}
}

func (s *stageOf) book(o *outcome) error {
	s.booked = append(s.booked, *o)
	return s.unlike
}

func (s *stageOf) waits(running int, most time.Duration) {
	s.waitsFor = append(s.waitsFor, waited{running, most})
}

func (s *stageOf) happened(e conductor.Event) { s.told = append(s.told, e) }

// buckets counts what was booked.
func (s *stageOf) buckets() map[measure.Bucket]int {
	n := map[measure.Bucket]int{}
	for _, o := range s.booked {
		n[o.record.Bucket]++
	}
	return n
}

// turnsOf hands out, to every lane again and again, a session of turns so far apart.
type turnsOf []time.Duration

func (d turnsOf) Next(int) (conductor.Assignment, bool) {
	t := &conductor.Tree{Sessions: []conductor.Session{{Turns: make([]conductor.Turn, len(d))}}}
	for k := range d {
		t.Sessions[0].Turns[k].Delay = d[k]
	}
	return conductor.Assignment{Tree: t}, true
}

// virtual plays a phase in which every request takes so long.
func virtual(o Options, takes time.Duration) (*stageOf, *phase) {
	s := &stageOf{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) { return takes, 0, "" }}
	return s, newPhase(o, turnsOf{0, time.Second, time.Minute}, s, s)
}

// interruptAt lets an interrupt come in.
func (s *stageOf) interruptAt(at time.Duration) {
	s.coming = append(s.coming, coming{at, event{interrupt: true}})
}

func TestDeadlineEndsThePhaseWithItsLastResponse(t *testing.T) {
	s, p := virtual(Options{Concurrency: 3, Duration: 63 * time.Second, Grace: 30 * time.Second}, 3*time.Second)
	require.NoError(t, p.play())
	// at 0, 4 (3 + 1) and not at 67 (7 + 60)
	require.Len(t, s.sent, 6)
	require.Equal(t, 63*time.Second, s.at, "nothing was in flight at the deadline")
	require.Equal(t, map[measure.Bucket]int{measure.Profiling: 6}, s.buckets())
}

func TestGraceThenCancellationThenDrain(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		s, p := virtual(Options{Concurrency: 3, Duration: 10 * time.Second, Grace: 7 * time.Second}, time.Hour)
		s.deaf = deaf
		require.NoError(t, p.play())
		require.Len(t, s.sent, 3)
		require.InDelta(t, 17, s.cancelAt.Seconds(), 1e-6)
		if deaf { // each request has a record all the same, and what comes later is ignored
			require.InDelta(t, 27, s.at.Seconds(), 1e-6)
		} else {
			require.InDelta(t, 17, s.at.Seconds(), 1e-6)
		}
		require.Equal(t, map[measure.Bucket]int{measure.CancelledAtEnd: 3}, s.buckets())
		n := p.conductor.Counts()
		require.Equal(t, 3, n.TreesReleased)
		require.Zero(t, n.InFlight)
		late := s.booked[0]
		p.over(&late, s.at)
		require.Len(t, s.booked, 3)
	}
}

func TestInterruptDrains(t *testing.T) {
	for name, c := range map[string]struct {
		duration, grace, takes, at time.Duration
		ends                       float64
		want                       measure.Bucket
	}{
		"answers in time":               {0, time.Hour, 6 * time.Second, 5 * time.Second, 6, measure.Cooldown},
		"cancelled after half a minute": {time.Hour, time.Hour, 2 * time.Hour, 5 * time.Second, 35, measure.CancelledAtEnd},
		"the phase's grace is shorter":  {time.Hour, 3 * time.Second, 2 * time.Hour, 5 * time.Second, 8, measure.CancelledAtEnd},
		"no grace":                      {time.Hour, 0, 2 * time.Hour, 5 * time.Second, 5, measure.CancelledAtEnd},
		"after the deadline":            {4 * time.Second, 100 * time.Second, 2 * time.Hour, 5 * time.Second, 35, measure.CancelledAtEnd},
		"the grace is nearly over":      {4 * time.Second, 2 * time.Second, 2 * time.Hour, 5 * time.Second, 6, measure.CancelledAtEnd},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := virtual(Options{Concurrency: 2, Duration: c.duration, Grace: c.grace}, c.takes)
			s.interruptAt(c.at)
			require.NoError(t, p.play())
			require.InDelta(t, c.ends, s.at.Seconds(), 1e-6)
			require.Equal(t, map[measure.Bucket]int{c.want: 2}, s.buckets())
			most := 30 * time.Second // what it waits for is said at once
			switch name {
			case "the phase's grace is shorter":
				most = 3 * time.Second
			case "no grace":
				most = 1
			case "the grace is nearly over":
				most = time.Second
			}
			require.Equal(t, []waited{{2, most}}, s.waitsFor)
		})
	}
}

func TestInterruptActsAsADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		duration, takes time.Duration
		want            map[measure.Bucket]int
	}{
		"with it":            {0, 5 * time.Second, map[measure.Bucket]int{measure.Profiling: 1}},
		"a nanosecond late":  {0, 5*time.Second + 1, map[measure.Bucket]int{measure.Cooldown: 1}},
		"before a deadline":  {time.Hour, 6 * time.Second, map[measure.Bucket]int{measure.Cooldown: 1}},
		"after the deadline": {4 * time.Second, 5500 * time.Millisecond, map[measure.Bucket]int{measure.Cooldown: 1}},
		"deadline counts":    {4 * time.Second, 4500 * time.Millisecond, map[measure.Bucket]int{measure.Cooldown: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := virtual(Options{Concurrency: 1, Duration: c.duration, Grace: time.Minute}, c.takes)
			s.interruptAt(5 * time.Second)
			require.NoError(t, p.play())
			require.Equal(t, c.want, s.buckets())
		})
	}
}

// What comes in late is late for everybody: nothing is sent at or after the deadline, whatever was due before it.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	s, p := virtual(Options{Concurrency: 1, Duration: 10 * time.Second}, time.Second)
	p.conductor.Start(0)
	s.at = 11 * time.Second
	p.advance(s.at) // the turn that was due at 2 s has not been looked at
	require.Len(t, s.sent, 1)
	p.take(s.coming[0].event, s.at)
	require.Len(t, s.sent, 1)
	require.True(t, p.conductor.Done())
}

// A phase whose end has come before it begins sends nothing.
func TestNothingIsSentWhenTheEndHasCome(t *testing.T) {
	s, p := virtual(Options{Concurrency: 3, Duration: time.Hour, Grace: time.Minute}, time.Second)
	s.interruptAt(0)
	require.NoError(t, p.play())
	require.Empty(t, s.sent)
	s, p = virtual(Options{Concurrency: 3, Duration: time.Second}, time.Second)
	s.at = 2 * time.Second
	require.NoError(t, p.play())
	require.Empty(t, s.sent)
}

// What the stage wants no more of ends as at an interrupt.
func TestStageMayEndThePhase(t *testing.T) {
	s, p := virtual(Options{Concurrency: 1, Grace: time.Minute}, 2*time.Second)
	launch := s.script
	s.script = func(order conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		p.ended = order.ID == 4
		return launch(order)
	}
	require.NoError(t, p.play())
	require.Len(t, s.sent, 5)
	require.Equal(t, map[measure.Bucket]int{measure.Profiling: 4, measure.Cooldown: 1}, s.buckets())
}

// What cannot be read ends the phase, and is its error.
func TestCacheThatCannotBeReadEndsThePhase(t *testing.T) {
	s, p := virtual(Options{Concurrency: 2, Grace: time.Minute}, time.Second)
	require.NoError(t, p.conductor.Start(0))
	broken := *s.coming[0].outcome
	broken.broken = errors.New("text.json was cut")
	p.over(&broken, s.at)
	require.ErrorContains(t, p.failed, "text.json was cut")
	require.True(t, p.end.stopped)
}

func TestDeadlineToTheNanosecond(t *testing.T) {
	for _, c := range []struct {
		duration time.Duration
		sent     int
	}{{2 * time.Second, 1}, {2*time.Second + 1, 2}} { // the second turn is due at 2 s
		s, p := virtual(Options{Concurrency: 1, Duration: c.duration, Grace: time.Minute}, time.Second)
		require.NoError(t, p.play())
		require.Len(t, s.sent, c.sent)
	}
}

func TestCountsEndThePhase(t *testing.T) {
	s, p := virtual(Options{Concurrency: 4, Requests: 7}, time.Second)
	require.NoError(t, p.play())
	require.Len(t, s.sent, 7)
	s, p = virtual(Options{Concurrency: 4, Trees: 7}, time.Second)
	require.NoError(t, p.play())
	require.Len(t, s.sent, 21)
	require.Equal(t, 7, p.conductor.Counts().TreesDrained)
}

func TestRecordThatCannotBeWrittenEndsThePhase(t *testing.T) {
	s, p := virtual(Options{Concurrency: 2, Grace: time.Minute}, time.Second)
	s.unlike = errors.New("no space left")
	require.NoError(t, p.play(), "closing the results says why")
	require.Len(t, s.sent, 2)
	require.Len(t, s.booked, 2)
}

func TestReturnThatIsNoneEndsThePhase(t *testing.T) {
	s, p := virtual(Options{Concurrency: 1, Grace: time.Minute}, time.Second)
	p.conductor.Start(0)
	bogus := *s.coming[0].outcome
	require.NoError(t, p.conductor.Returned(0, s.at, s.at, conductor.OK))
	p.over(&bogus, s.at)
	require.ErrorContains(t, p.failed, "request 0 returns, but is not in flight")
	require.True(t, p.end.stopped)
}

func TestPrefillSlotsAreReleasedByTheFirstToken(t *testing.T) {
	s := &stageOf{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		return time.Minute, time.Second, ""
	}}
	p := newPhase(Options{Concurrency: 3, Requests: 3, Limits: Limits{Prefill: 1}}, turnsOf{0}, s, s)
	require.NoError(t, p.play())
	require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, s.sentAt)
	for k, order := range s.sent {
		require.Zero(t, order.Due)
		require.Equal(t, s.sentAt[k], order.Issued)
	}
}

// A first token that is noticed after the deadline sends nobody who waited for its slot.
func TestFirstTokenAfterTheDeadline(t *testing.T) {
	s, p := virtual(Options{Concurrency: 2, Duration: 10 * time.Second, Grace: time.Minute, Limits: Limits{Prefill: 1}}, time.Minute)
	require.NoError(t, p.conductor.Start(0))
	require.Len(t, s.sent, 1)
	s.at = 11 * time.Second
	p.take(event{token: true}, s.at)
	require.Len(t, s.sent, 1)
}

func TestProgressIsTold(t *testing.T) {
	var told []time.Duration
	o := Options{Concurrency: 1, Duration: 4 * time.Second, Progress: func(r Progress) { told = append(told, r.Elapsed) }}
	s, p := virtual(o, time.Hour)
	for _, ms := range []int{0, 999, 1000, 1500, 1999, 2300, 3299, 3300} {
		s.at = time.Duration(ms) * time.Millisecond
		p.show(s.at)
	}
	require.Equal(t, []time.Duration{time.Second, 2300 * time.Millisecond, 3300 * time.Millisecond}, told)
}

func TestWake(t *testing.T) {
	s := time.Second
	_, p := virtual(Options{Concurrency: 0}, 0)
	for _, c := range []struct {
		end  endings
		want time.Duration
	}{
		{endings{}, 6 * s},
		{endings{duration: 5*s + s/2}, 5*s + s/2},
		{endings{duration: 5*s + s/2, stopped: true}, 6 * s},
		{endings{stopped: true, cancelAt: 5*s + s/4}, 5*s + s/4},
		{endings{stopped: true, cancelAt: 4 * s}, 4 * s},
		{endings{stopped: true, forceAt: 5*s + s/8}, 5*s + s/8},
	} {
		p.end = c.end
		require.Equal(t, c.want, p.wake(5*s), "%+v", c.end)
	}
}

// A clock that waits takes what is there before its time is up, and an interrupt once.
func TestRealClock(t *testing.T) {
	broken := newAlarm()
	if a, ok := broken.(interface{ fail() }); ok {
		a.fail()
	}
	for name, alarm := range map[string]alarm{"of the kernel": newAlarm(), "of the runtime": newTimerAlarm(), "broken": broken} {
		t.Run(name, func(t *testing.T) {
			defer alarm.close()
			events := make(chan event, 1)
			ctx, interrupt := context.WithCancel(context.Background())
			defer interrupt()
			c := &realClock{epoch: time.Now(), alarm: alarm, events: events, interrupted: ctx.Done()}
			until := c.now() + time.Millisecond
			for c.now() < until { // it may return before
				_, ok := c.await(until)
				require.False(t, ok)
			}
			_, ok := c.await(0)
			require.False(t, ok)
			events <- event{token: true, id: 7}
			e, ok := c.await(0)
			require.True(t, ok)
			require.Equal(t, event{token: true, id: 7}, e)
			interrupt()
			for ok = false; !ok; { // a ring that was not heard may come first
				e, ok = c.await(time.Hour)
			}
			require.Equal(t, event{interrupt: true}, e)
			_, ok = c.await(0)
			require.False(t, ok)
		})
	}
}

// The conductor can name neither option nor switch: it imports nothing of ours, and declares nothing called like one.
func TestConductorKnowsNoOption(t *testing.T) {
	pkgs, err := filepath.Glob("conductor/*.go")
	require.NoError(t, err)
	files := 0
	for _, path := range pkgs {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, i := range f.Imports {
			require.NotContains(t, i.Path.Value, ".", "%s imports %s", path, i.Path.Value) // of the standard library alone
			require.NotContains(t, []string{`"os"`, `"flag"`}, i.Path.Value)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				for _, word := range []string{"preset", "profile", "switch", "option", "scenario"} {
					require.NotContains(t, strings.ToLower(name.Name), word, path)
				}
			}
			return true
		})
	}
	require.GreaterOrEqual(t, files, 6)
}
