package replay

import (
	"cmp"
	"errors"
	"fmt"
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

// simulation is a clock, a transport and a recorder on virtual time.
type simulation struct {
	at       time.Duration
	script   func(conductor.Dispatch) (takes time.Duration, token time.Duration, category wire.Category)
	silent   bool // cancelled requests do not return
	pending  []pendingEvent
	sent     []conductor.Dispatch
	sentAt   []time.Duration
	records  []measure.Record
	events   []conductor.Event
	writeErr error // of record
	cancelAt time.Duration
	notices  []string

	retryAfter time.Duration // of answers of the category overload
	heard      time.Duration // newest bytes of an answer
	looks      []time.Duration
}

type pendingEvent struct {
	at time.Duration
	event
}

func (s *simulation) now() time.Duration { return s.at }

func (s *simulation) await(until time.Duration) (event, bool) {
	slices.SortStableFunc(s.pending, func(a, b pendingEvent) int { return cmp.Compare(a.at, b.at) })
	if len(s.pending) > 0 && s.pending[0].at <= until {
		e := s.pending[0]
		s.pending = s.pending[1:]
		s.at = max(s.at, e.at)
		return e.event, true
	}
	s.at = max(s.at, until)
	return event{}, false
}

func (s *simulation) send(r *request) {
	s.sent, s.sentAt = append(s.sent, r.dispatch), append(s.sentAt, s.at)
	takes, token, category := s.script(r.dispatch)
	if token > 0 {
		s.pending = append(s.pending, pendingEvent{s.at + token, event{kind: firstToken, id: r.dispatch.ID}})
	}
	s.returns(r.dispatch.ID, s.at+takes, category)
}

func (s *simulation) returns(id int, at time.Duration, category wire.Category) {
	a := &answer{Result: wire.Result{Sent: s.at, End: at}}
	if category != "" {
		a.Err = &wire.Failure{Category: category, Message: "scripted"}
		if category == wire.Overload {
			a.Status, a.RetryAfter = 503, s.retryAfter
		}
	}
	s.pending = append(s.pending, pendingEvent{at, event{kind: returned, id: id, answer: a}})
}

func (s *simulation) look(now time.Duration) time.Duration {
	s.looks = append(s.looks, now)
	return s.heard
}

func (s *simulation) cancelAll() {
	s.cancelAt = s.at
	inFlight := s.pending
	s.pending = nil
	for _, e := range inFlight {
		switch {
		case e.kind != returned:
			s.pending = append(s.pending, e)
		case !s.silent:
			s.returns(e.id, s.at, wire.Cancelled)
		}
	}
}

func (s *simulation) record(r *measure.Record) error {
	s.records = append(s.records, *r)
	return s.writeErr
}

func (s *simulation) onEvent(e conductor.Event) { s.events = append(s.events, e) }

// loop returns a loop in the simulation.
func (s *simulation) loop(o Options, source conductor.Source) *loop {
	o.Notice = func(text string) { s.notices = append(s.notices, text) }
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Switches == nil {
		o.Switches = withoutTreeIdle()
	}
	o.InterruptGrace = max(0, cmp.Or(o.InterruptGrace, 30*time.Second))
	trees, ok := source.(treeSource)
	if !ok {
		trees = treesOf{source}
	}
	return newLoop(o, measuredPhase(o, trees, s), s, s)
}

// treesOf are trees that need nothing when they are over.
type treesOf struct{ conductor.Source }

func (treesOf) ended(int) {}

func (treesOf) failed() error { return nil }

// buckets counts the records.
func (s *simulation) buckets() map[measure.Bucket]int {
	n := map[measure.Bucket]int{}
	for _, r := range s.records {
		n[r.Bucket]++
	}
	return n
}

// turnsOf gives every lane one session after the other, with these gaps before its turns.
type turnsOf []time.Duration

func (d turnsOf) Next(int) (conductor.Assignment, bool) {
	t := &conductor.Tree{Sessions: []conductor.Session{{Turns: make([]conductor.Turn, len(d))}}}
	for k := range d {
		t.Sessions[0].Turns[k].Delay = d[k]
	}
	return conductor.Assignment{Tree: t}, true
}

// simulate returns a loop in which every request takes the same time.
func simulate(o Options, takes time.Duration) (*simulation, *loop) {
	s := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) { return takes, 0, "" }}
	return s, s.loop(o, turnsOf{0, time.Second, time.Minute})
}

// interruptAt lets an interrupt come in.
func (s *simulation) interruptAt(at time.Duration) {
	s.pending = append(s.pending, pendingEvent{at, event{kind: interrupted}})
}

func TestDeadlineEndsThePhaseWithItsLastResponse(t *testing.T) {
	s, l := simulate(Options{Concurrency: 3, Duration: 63 * time.Second, Grace: 30 * time.Second}, 3*time.Second)
	require.NoError(t, l.run())
	// at 0, 4 (3 + 1) and not at 67 (7 + 60)
	require.Len(t, s.sent, 6)
	require.Equal(t, 63*time.Second, s.at, "nothing was in flight at the deadline")
	require.Equal(t, map[measure.Bucket]int{measure.Profiling: 6}, s.buckets())
}

func TestGraceThenCancellationThenDrain(t *testing.T) {
	for _, silent := range []bool{false, true} {
		s, l := simulate(Options{Concurrency: 3, Duration: 10 * time.Second, Grace: 7 * time.Second}, time.Hour)
		s.silent = silent
		require.NoError(t, l.run())
		require.Len(t, s.sent, 3)
		require.InDelta(t, 17, s.cancelAt.Seconds(), 1e-6)
		if silent { // each request has a record all the same, and what comes later is ignored
			require.InDelta(t, 27, s.at.Seconds(), 1e-6)
		} else {
			require.InDelta(t, 17, s.at.Seconds(), 1e-6)
		}
		require.Equal(t, map[measure.Bucket]int{measure.CancelledAtEnd: 3}, s.buckets())
		for _, r := range s.records {
			require.Equal(t, s.cancelAt.Seconds(), r.CancelledAt.Seconds())
			require.Equal(t, s.at.Seconds(), r.End.Seconds())
		}
		n := l.conductor.Counts()
		require.Equal(t, 3, n.TreesReleased)
		require.Zero(t, n.InFlight)
		l.onReturn(0, &answer{}, s.at)
		require.Len(t, s.records, 3)
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
		"no grace after an interrupt":   {time.Hour, time.Hour, 2 * time.Hour, 5 * time.Second, 5, measure.CancelledAtEnd},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Concurrency: 2, Duration: c.duration, Grace: c.grace, Switches: withoutGrace()}
			if name == "no grace after an interrupt" {
				o.InterruptGrace = Off
			}
			s, l := simulate(o, c.takes)
			s.interruptAt(c.at)
			require.NoError(t, l.run())
			require.InDelta(t, c.ends, s.at.Seconds(), 1e-6)
			require.Equal(t, map[measure.Bucket]int{c.want: 2}, s.buckets())
			longest := 30 * time.Second // what it waits for is said at once
			switch name {
			case "the phase's grace is shorter":
				longest = 3 * time.Second
			case "no grace", "no grace after an interrupt":
				longest = 0
			case "the grace is nearly over":
				longest = time.Second
			}
			require.Equal(t, []string{fmt.Sprintf("interrupted: waiting for 2 running requests, %v at most; a second interrupt leaves at once", longest)}, s.notices)
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
			s, l := simulate(Options{Concurrency: 1, Duration: c.duration, Grace: time.Minute, Switches: withoutGrace()}, c.takes)
			s.interruptAt(5 * time.Second)
			require.NoError(t, l.run())
			require.Equal(t, c.want, s.buckets())
		})
	}
}

// Nothing is sent at or after the deadline, not even a turn that was due before it and is noticed late.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	s, l := simulate(Options{Concurrency: 1, Duration: 10 * time.Second}, time.Second)
	l.conductor.Start(0)
	s.at = 11 * time.Second
	l.advance(s.at) // the turn that was due at 2 s has not been looked at
	require.Len(t, s.sent, 1)
	l.handle(s.pending[0].event, s.at)
	require.Len(t, s.sent, 1)
	require.True(t, l.conductor.Done())
}

// A phase whose end has come before it begins sends nothing.
func TestNothingIsSentWhenTheEndHasCome(t *testing.T) {
	s, l := simulate(Options{Concurrency: 3, Duration: time.Hour, Grace: time.Minute}, time.Second)
	s.interruptAt(0)
	require.NoError(t, l.run())
	require.Empty(t, s.sent)
	s, l = simulate(Options{Concurrency: 3, Duration: time.Second}, time.Second)
	s.at = 2 * time.Second
	require.NoError(t, l.run())
	require.Empty(t, s.sent)
}

// A deadlocked tree ends the phase as an interrupt does, if that is wanted.
func TestDeadlockMayEndThePhase(t *testing.T) {
	s, l := simulate(Options{Concurrency: 1, Grace: time.Minute, StopOnDeadlock: true, Switches: withoutGrace()}, 2*time.Second)
	launch := s.script
	s.script = func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if d.ID == 4 {
			l.onEvent(conductor.Event{Kind: conductor.TreeDeadlocked})
		}
		return launch(d)
	}
	require.NoError(t, l.run())
	require.Len(t, s.sent, 5)
	require.Equal(t, map[measure.Bucket]int{measure.Profiling: 4, measure.Cooldown: 1}, s.buckets())
}

// A cache that cannot be read ends the phase, and is its error.
func TestCacheThatCannotBeReadEndsThePhase(t *testing.T) {
	s, l := simulate(Options{Concurrency: 2, Grace: time.Minute}, time.Second)
	require.NoError(t, l.conductor.Start(0))
	a := *s.pending[0].answer
	a.cacheErr = errors.New("text.json was cut")
	l.onReturn(0, &a, s.at)
	require.ErrorContains(t, l.err, "text.json was cut")
	require.True(t, l.deadlines.stopped)
}

func TestDeadlineToTheNanosecond(t *testing.T) {
	for _, c := range []struct {
		duration time.Duration
		sent     int
	}{{2 * time.Second, 1}, {2*time.Second + 1, 2}} { // the second turn is due at 2 s
		s, l := simulate(Options{Concurrency: 1, Duration: c.duration, Grace: time.Minute}, time.Second)
		require.NoError(t, l.run())
		require.Len(t, s.sent, c.sent)
	}
}

func TestCountsEndThePhase(t *testing.T) {
	s, l := simulate(Options{Concurrency: 4, Requests: 7}, time.Second)
	require.NoError(t, l.run())
	require.Len(t, s.sent, 7)
	s, l = simulate(Options{Concurrency: 4, Trees: 7}, time.Second)
	require.NoError(t, l.run())
	require.Len(t, s.sent, 21)
	require.Equal(t, 7, l.conductor.Counts().TreesDrained)
}

func TestRecordThatCannotBeWrittenEndsThePhase(t *testing.T) {
	s, l := simulate(Options{Concurrency: 2, Grace: time.Minute}, time.Second)
	s.writeErr = errors.New("no space left")
	require.NoError(t, l.run(), "closing the results says why")
	require.Len(t, s.sent, 2)
	require.Len(t, s.records, 2)
}

func TestReturnThatIsNoneEndsThePhase(t *testing.T) {
	s, l := simulate(Options{Concurrency: 1, Grace: time.Minute}, time.Second)
	l.conductor.Start(0)
	require.NoError(t, l.conductor.Returned(0, s.at, s.at, conductor.OK))
	l.onReturn(0, s.pending[0].answer, s.at)
	require.ErrorContains(t, l.err, "request 0 returns, but is not in flight")
	require.True(t, l.deadlines.stopped)
}

func TestPrefillSlotsAreReleasedByTheFirstToken(t *testing.T) {
	s := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		return time.Minute, time.Second, ""
	}}
	l := s.loop(Options{Concurrency: 3, Requests: 3, Limits: Limits{Prefill: 1}}, turnsOf{0})
	require.NoError(t, l.run())
	require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, s.sentAt)
	for k, order := range s.sent {
		require.Zero(t, order.Due)
		require.Equal(t, s.sentAt[k], order.Issued)
	}
}

// A first token that is noticed after the deadline sends no turn that waited for its prefill slot.
func TestFirstTokenAfterTheDeadline(t *testing.T) {
	s, l := simulate(Options{Concurrency: 2, Duration: 10 * time.Second, Grace: time.Minute, Limits: Limits{Prefill: 1}}, time.Minute)
	require.NoError(t, l.conductor.Start(0))
	require.Len(t, s.sent, 1)
	s.at = 11 * time.Second
	l.handle(event{kind: firstToken}, s.at)
	require.Len(t, s.sent, 1)
}

func TestProgressIsTold(t *testing.T) {
	var told []time.Duration
	o := Options{Concurrency: 1, Duration: 4 * time.Second, Progress: func(r Progress) { told = append(told, r.Elapsed) }}
	s, l := simulate(o, time.Hour)
	for _, ms := range []int{0, 999, 1000, 1500, 1999, 2300, 3299, 3300} {
		s.at = time.Duration(ms) * time.Millisecond
		l.reportProgress(s.at)
	}
	require.Equal(t, []time.Duration{time.Second, 2300 * time.Millisecond, 3300 * time.Millisecond}, told)
}

func TestWake(t *testing.T) {
	s := time.Second
	_, l := simulate(Options{Concurrency: 0}, 0)
	for _, c := range []struct {
		deadlines deadlines
		want      time.Duration
	}{
		{deadlines{}, 6 * s},
		{deadlines{duration: 5*s + s/2}, 5*s + s/2},
		{deadlines{duration: 5*s + s/2, stopped: true}, 6 * s},
		{deadlines{stopped: true, cancelAt: 5*s + s/4}, 5*s + s/4},
		{deadlines{stopped: true, cancelAt: 4 * s}, 4 * s},
		{deadlines{stopped: true, giveUpAt: 5*s + s/8}, 5*s + s/8},
	} {
		l.deadlines = c.deadlines
		require.Equal(t, c.want, l.nextWake(5*s), "%+v", c.deadlines)
	}
}

// The conductor knows no options: it imports no package of this module, and no identifier in it is called like one.
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
