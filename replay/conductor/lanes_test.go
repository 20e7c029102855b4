package conductor

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// A test whose comment ends with "Covers T-NN" is one of the catalogue in doc/spec/replay.md 10.

// All lanes reach the admission hook at once, each with its own session.
//
// Covers T-1.
func TestAllLanesStartAtOnce(t *testing.T) {
	vectorsOf(t, "startup", "T-1", fixtures.Counts{1, 1, 1}, playStartup)
	recorded := func() Recording { // a root of four turns and a child, 10 s apart
		return Recording{
			Tree:   root(0, 10, 10, 10).child(0, 0, false, 9, 0),
			Starts: [][]float64{{0, 10e3, 20e3, 30e3}, {25e3}}, BranchStarts: []float64{25e3},
		}
	}
	for name, start := range map[string]func(r Recording) *StartState{
		"lanes with a start state":    func(r Recording) *StartState { return ResumeAt(r, View{}, 10e3) },
		"lanes of traces without t*":  func(r Recording) *StartState { return ResumeFrom(r.Tree, 2) },
		"lanes that begin with all 0": func(Recording) *StartState { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			source := &assignments{}
			for range 64 {
				r := recorded()
				o := Assignment{Tree: r.Tree, Start: start(r)}
				if o.Start != nil {
					AlignLanes("burst", []*StartState{o.Start}, 0)
				}
				source.lanes = append(source.lanes, o)
			}
			w := newWorld(64, source, Limits{})
			w.closed = true
			w.start()
			require.Len(t, w.held, 64)
			require.Equal(t, 64, distinct(w.held))
			require.Empty(t, w.sends)
			w.call(func() { w.c.Wake(time.Millisecond) }) // the hook stays closed: no turn is sent twice
			require.Len(t, w.held, 64)
			w.open()
			w.goOn(never, never)
			w.requireQuiet(t)
			require.LessOrEqual(t, w.ended, time.Minute)
			require.Equal(t, 64, w.c.Counts().TreesDrained)
		})
	}
}

// Two of 64 lanes are refused. Start returns the error of the first of them, in whatever order they fail, and starts all other
// lanes.
//
// Covers T-2.
func TestStartReportsTheFirstRefusedLane(t *testing.T) {
	vectorsOf(t, "startup", "T-2", fixtures.Counts{1, 1, 1}, playStartup)
	for name, root7 := range map[string]float64{"at the same place": 0, "the first lane last": 1e-9} {
		t.Run(name, func(t *testing.T) {
			source := &assignments{}
			for lane := range 64 {
				o := Assignment{Tree: root(0)}
				if lane == 7 { // its child is refused first
					o = Assignment{Tree: root(0).child(0, 0, true, root7, 0)}
				}
				source.lanes = append(source.lanes, o)
			}
			w := newWorld(64, source, Limits{})
			w.refuse = func(s Dispatch) error {
				if s.Lane == 7 || s.Lane == 20 {
					return fmt.Errorf("lane %d: %w", s.Lane, errRefused)
				}
				return nil
			}
			w.start()
			require.ErrorContains(t, w.failed, "lane 7: ")
			require.ErrorIs(t, w.failed, errRefused)
			require.Len(t, w.sends, 62)
			var named []int
			for _, e := range w.of(TurnRefused) {
				named = append(named, e.Lane)
			}
			require.Equal(t, []int{7, 20}, named)
			w.goOn(never, never)
			w.requireQuiet(t)
			require.Len(t, w.returns, 62)
			require.Len(t, w.of(LaneFinished), 64, "each of them ends by itself, and says so")
		})
	}
}

// parse parses a log in the notation of the vectors.
func parse(t *testing.T, text string) *eventLog {
	t.Helper()
	e := &eventLog{}
	require.NoError(t, json.Unmarshal([]byte(text), e))
	return e
}

// sent lists the turns that the lanes of a log sent, with their instants, in the notation of the vectors.
func sent(w *world, opened []script) (list []string) {
	for _, s := range w.sends {
		list = append(list, fmt.Sprintf("%g %s:%d", float64(s.at)/1e6, opened[s.Tree].names[s.Session], s.Turn))
	}
	return list
}

// Lanes start at their anchors: spread or in a burst.
//
// Covers T-23.
func TestStartAnchors(t *testing.T) {
	const log = `{"traces": {
		"a": {"root": "a", "conversations": {
			"a": {"turns": [{"ts_ms": 0, "api_ms": 100, "spawns": ["x"]}, {"ts_ms": 105000}], "branches": [{"id": "x", "children": ["ax"]}]},
			"ax": {"turns": [{"ts_ms": 1000}, {"ts_ms": 109000}]}}},
		"b": {"root": "b", "conversations": {"b": {"turns": [{"ts_ms": 0}, {"ts_ms": 102000}]}}},
		"c": {"root": "c", "conversations": {
			"c": {"turns": [{"ts_ms": 0, "api_ms": 100, "spawns": ["x"]}, {"ts_ms": 104000, "joins": ["x"]}], "branches": [{"id": "x", "children": ["cx"]}]},
			"cx": {"turns": [{"ts_ms": 1000}, {"ts_ms": 103500}]}}}},
		"lanes": [{"trace": "a", "t_star_ms": 100000}, {"trace": "b", "t_star_ms": 100000}, {"trace": "c", "t_star_ms": 100000}],
		"service_ms": {"default": 100, "cx": %d}, "anchor": "%s"}`
	for _, c := range []struct {
		anchor   string
		child    int // how long it takes
		deadline time.Duration
		want     []string
	}{
		{"spread", 100, 2 * time.Second, []string{"0 b:1", "1500 cx:1", "2000 c:1", "3000 a:1", "7000 ax:1"}},
		{"spread", 9000, 2 * time.Second, []string{"0 b:1", "1500 cx:1", "3000 a:1", "7000 ax:1", "10500 c:1"}},
		{"burst", 100, time.Second / 2, []string{"0 a:1", "0 b:1", "0 cx:1", "500 c:1", "4000 ax:1"}},
	} {
		t.Run(fmt.Sprint(c.anchor, c.child), func(t *testing.T) {
			w, opened, _ := parse(t, fmt.Sprintf(log, c.child, c.anchor)).play(t)
			require.Equal(t, c.want, sent(w, opened))
			require.Equal(t, c.deadline, w.of(SessionParked)[0].At)
		})
	}
}

// A delay counts from the return of the turn before, however long that took in the replay and in the recording.
//
// Covers T-24.
func TestDelayCountsFromTheReturn(t *testing.T) {
	eventLogsOf(t, "T-24", fixtures.Counts{1, 1, 1})
	for _, c := range []struct {
		api  int // recorded
		want string
	}{{6000, "34000 a:1"}, {10000, "30000 a:1"}, {12000, "30000 a:1"}} { // 4 s, nothing, and overlapping
		w, opened, _ := parse(t, fmt.Sprintf(`{"traces": {"a": {"root": "a", "conversations": {"a": {"turns":
			[{"ts_ms": 0, "api_ms": %d}, {"ts_ms": 10000}]}}}}, "lanes": [{"trace": "a"}], "service_ms": {"default": 30000}}`, c.api)).play(t)
		require.Equal(t, []string{"0 a:0", c.want}, sent(w, opened))
	}
	t.Run("noticed late", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 4)), Limits{})
		w.start()
		require.NoError(t, w.c.Returned(0, 10*time.Second, 13*time.Second, OK))
		at, ok := w.c.NextWake()
		require.True(t, ok)
		require.Equal(t, 14*time.Second, at)
		w.now = 17 * time.Second
		w.c.Wake(w.now)
		require.Equal(t, Dispatch{ID: 1, Turn: 1, Due: 14 * time.Second, Issued: 17 * time.Second}, w.sends[1].Dispatch)
	})
}

// A lane takes the next tree when the last session of its tree is closed, and never has two trees.
//
// Covers T-29.
func TestLaneTakesTheNextTreeAfterTheLastSession(t *testing.T) {
	eventLogsOf(t, "T-29", fixtures.Counts{3, 3, 3})
	w := newWorld(1, anyLane(root(0).child(0, 0, true, 0, 0), root(0)), Limits{})
	w.takes(map[string]float64{"1#0": 60})
	w.play()
	require.Equal(t, "1m0s lane0 tree1 0#0", w.log()[2], "the root ended at 1 s")
	w.requireQuiet(t)
}

// The next tree is due when the last one ended, not when the conductor learned of its end.
func TestNextTreeIsDueWhenTheLastOneEnded(t *testing.T) {
	w := newWorld(1, anyLane(root(0).child(0, 0, true, 0, 0), root(0)), Limits{})
	w.start()
	require.NoError(t, w.c.Returned(1, 8*time.Second, 9*time.Second, OK))
	w.now = 10 * time.Second
	require.NoError(t, w.c.Returned(0, 7*time.Second, w.now, OK))
	require.Equal(t, Dispatch{ID: 2, Tree: 1, Due: 8 * time.Second, Issued: 10 * time.Second}, w.sends[2].Dispatch)
}

// An overflow ends its session at any turn, and once.
//
// Covers T-31.
func TestOverflowEndsItsSession(t *testing.T) {
	eventLogsOf(t, "T-31", fixtures.Counts{4, 4, 4})
	for turn, want := range [][]string{
		{"0s lane0 tree0 0#0", "1s lane0 tree1 0#0"},
		{"0s lane0 tree0 0#0", "1s lane0 tree0 0#1", "2s lane0 tree1 0#0"},
		{"0s lane0 tree0 0#0", "1s lane0 tree0 0#1", "2s lane0 tree0 0#2", "3s lane0 tree1 0#0"},
	} {
		w := newWorld(1, anyLane(root(0, 0, 0), root(0)), Limits{})
		w.server = func(s Dispatch) answer {
			if s.Tree == 0 && s.Turn == turn {
				return answer{time.Second, 0, Overflow}
			}
			return answer{takes: time.Second}
		}
		w.play()
		require.Equal(t, want, w.log())
		require.Equal(t, []EndReason{[]EndReason{Truncated, Truncated, Errored}[turn], Completed}, []EndReason{w.of(SessionClosed)[0].Reason, w.of(SessionClosed)[1].Reason})
		require.Len(t, w.of(SessionClosed), 2)
		w.requireQuiet(t)
	}
}

// Any other failure ends no session and is not retried: the next turn follows after its delay.
//
// Covers T-32.
func TestFailureDoesNotEndItsSession(t *testing.T) {
	eventLogsOf(t, "T-32", fixtures.Counts{1, 1, 1})
	tree := root(0, 3, 3, 0).child(0, 0, false, 0, 0, 0).child(1, 0, true, 0, 0).join(0, 2, 1).after(2, 0, 0, 0)
	w := newWorld(1, anyLane(tree), Limits{})
	w.server = func(s Dispatch) answer { return answer{time.Second, 0, Failed} } // all of them
	w.play()
	require.Equal(t, []string{
		"0s lane0 tree0 0#0", "1s lane0 tree0 1#0", "1s lane0 tree0 2#0", "2s lane0 tree0 1#1", "4s lane0 tree0 0#1",
		"8s lane0 tree0 0#2", "9s lane0 tree0 0#3",
	}, w.log())
	require.Equal(t, 2, w.c.Counts().ChildrenErrored)
	w.requireQuiet(t)
}

// A lane whose t* lies in a long gap starts within the cap.
//
// Covers T-48.
func TestLaneThatStartsInALongGap(t *testing.T) {
	eventLogsOf(t, "T-48", fixtures.Counts{1, 1, 1})
	w, opened, skipped := parse(t, `{"traces": {
		"a": {"root": "a", "conversations": {"a": {"turns": [{"ts_ms": 0, "api_ms": 1000}, {"ts_ms": 7200000, "api_ms": 1000}, {"ts_ms": 7204000}]}}},
		"b": {"root": "b", "conversations": {"b": {"turns": [{"ts_ms": 0}, {"ts_ms": 1000}, {"ts_ms": 2000}]}}}},
		"lanes": [{"trace": "a", "t_star_ms": 1000}, {"trace": "b", "t_star_ms": 1000}],
		"service_ms": {"default": 1000}, "anchor": "spread", "lane_start_cap_ms": 300000}`).play(t)
	require.Equal(t, []string{"0 b:1", "2000 b:2", "300000 a:1", "304000 a:2"}, sent(w, opened), "the gaps behind the first request stay")
	require.Equal(t, []float64{6899000, 0}, skipped)
}

func TestRequestLimitIsMetExactly(t *testing.T) {
	for limit := 1; limit <= 7; limit++ {
		trees := anyLane(root(0, 0, 0).child(0, 0, true, 0, 0), root(0, 3), root(0))
		w := newWorld(2, trees, Limits{Requests: limit}).play()
		require.Len(t, w.sends, limit)
		w.requireQuiet(t)
	}
}

// A tree that ended before the limit was met has drained, also at the same instant.
func TestRequestLimitReleasesOnlyWhatWasOpen(t *testing.T) {
	w := newWorld(2, anyLane(root(0), root(0, 0), root(0)), Limits{Requests: 3})
	w.start()
	w.now = time.Second
	require.NoError(t, w.c.Returned(1, w.now, 0, OK))
	require.NoError(t, w.c.Returned(0, w.now, w.now, OK))
	require.Equal(t, 1, w.c.Counts().TreesDrained)
	require.NoError(t, w.c.Returned(2, 2*time.Second, 2*time.Second, OK))
	require.Equal(t, 1, w.c.Counts().TreesReleased)
	require.Equal(t, 2, w.c.Counts().TreesOpened)
}

func TestTreeLimitIsMetExactly(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		w := newWorld(2, anyLane(root(0), root(0, 0), root(0), root(0), root(0)), Limits{Trees: limit}).play()
		require.Equal(t, limit, w.c.Counts().TreesOpened)
		require.Len(t, w.of(LaneFinished), 2)
		w.requireQuiet(t)
	}
}

func TestSourceThatRunsDryLetsTheOtherLanesFinish(t *testing.T) {
	w := newWorld(8, anyLane(root(0, 1), root(0)), Limits{}).play()
	require.Len(t, w.sends, 3)
	require.Len(t, w.of(LaneFinished), 8)
	w.requireQuiet(t)
}

// repeatingSource is a source that returns the same tree for ever.
type repeatingSource struct{ tree *Tree }

func (s repeatingSource) Next(int) (Assignment, bool) { return Assignment{Tree: s.tree}, true }

// A lane ends when its trees send nothing: a tree whose first turn waits for itself, or that is always refused, would be opened
// for ever at one instant.
func TestTreesThatSendNothingEndTheirLane(t *testing.T) {
	tree := root(0).child(0, 0, true, 0, 0).after(0, 0, 1, 0)
	require.NoError(t, tree.Validate())
	w := newWorld(1, repeatingSource{tree}, Limits{})
	w.start()
	require.True(t, w.c.Done())
	require.Equal(t, maxEmptyTrees, w.c.Counts().TreesDeadlocked)
	require.ErrorIs(t, w.of(LaneFinished)[0].Err, ErrEmptyTrees)
	w.requireQuiet(t)

	w = newWorld(1, repeatingSource{root(0)}, Limits{})
	w.refuse = func(Dispatch) error { return errRefused }
	w.start()
	require.ErrorIs(t, w.failed, errRefused)
	require.True(t, w.c.Done())
}

// Turns are sent in the order of their due times, also when Wake comes late for all of them. Two turns of one tree are sent in
// the order of slots.
func TestSendsGoOutInTheOrderOfDueTimes(t *testing.T) {
	w := newWorld(4, anyLane(root(0, 4).child(0, 0, true, 6, 0), root(0, 2), root(0, 4), root(0, 1)), Limits{})
	w.start()
	for id := range 4 {
		require.NoError(t, w.c.Returned(id, 0, 0, OK))
	}
	w.now = time.Minute
	w.c.Wake(w.now)
	got := []string{}
	for _, s := range w.sends[4:] {
		got = append(got, fmt.Sprint(s.Due, " ", s.Lane, " ", s.Session))
		require.Equal(t, time.Minute, s.Issued)
	}
	require.Equal(t, []string{"1s 3 0", "2s 1 0", "4s 0 0", "4s 2 0", "6s 0 1"}, got)
}

func TestReturnDoesNotOvertakeWhatWasDueBefore(t *testing.T) {
	w := newWorld(2, anyLane(root(0, 0), root(0, 1)), Limits{})
	w.start()
	require.NoError(t, w.c.Returned(1, 0, 0, OK)) // due at 1 s
	require.NoError(t, w.c.Returned(0, 5*time.Second, 5*time.Second, OK))
	lanes := []int{}
	for _, s := range w.sends {
		lanes = append(lanes, s.Lane)
	}
	require.Equal(t, []int{0, 1, 1, 0}, lanes)
}

func TestIssueThatIsLateMovesTheChildrenThatCountFromIt(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 1).child(0, 1, true, 2, 0)), Limits{})
	w.start()
	require.NoError(t, w.c.Returned(0, 0, 0, OK))
	w.c.Wake(10 * time.Second)
	at, _ := w.c.NextWake()
	require.Equal(t, 12*time.Second, at)
}

func TestFourThousandLanes(t *testing.T) {
	const lanes = 4096
	source := queue{}
	for k := range lanes {
		source[k] = []*Tree{root(0, float64(k%7)), root(0)}
	}
	w := newWorld(lanes, source, Limits{}).play()
	for k := range lanes {
		require.Equal(t, time.Duration(0), w.sends[k].at)
		require.Equal(t, k, w.sends[k].Lane)
	}
	require.Len(t, w.sends, 3*lanes)
	w.requireQuiet(t)
}

func TestTreesThatCannotBePlayed(t *testing.T) {
	require.EqualError(t, (&Tree{}).Validate(), "the root session has no request")
	require.EqualError(t, root(0).child(0, 0, false, 0).Validate(), "session 1 has no request")
	unplayable := root(0).child(0, 0, false, 0)
	unplayable.Sessions[1].Unplayable = true
	require.NoError(t, unplayable.Validate())
	joins := "session 0, turn 1: it joins branch 0, which no turn before it spawns: it could never be sent"
	require.EqualError(t, root(0, 0).child(0, 1, false, 0, 0).join(0, 1, 1).Validate(), joins)
	require.ErrorContains(t, root(0).child(0, 0, false, 0, 0).child(1, 0, false, 0, 0).join(0, 0, 2).Validate(), "it could never be sent")
	require.EqualError(t, root(0).after(0, 0, 0, 0).Validate(), "session 0, turn 0: it comes after turn 0 of its own session: want a turn of another one")
	require.EqualError(t, root(0).after(0, 0, 1, 0).Validate(), "session 0, turn 0: it comes after a turn of session 1: want one of the 1 sessions, from 0")
	require.EqualError(t, root(0).child(0, 0, false, 0, 0).after(0, 0, 1, 1).Validate(), "session 0, turn 0: it comes after turn 1 of session 1: want one of its 1 turns, from 0")
	twice := root(0, 0).child(0, 0, false, 0, 0)
	twice.Sessions[0].Turns[1].Spawns = []int{0}
	require.EqualError(t, twice.Validate(), "session 0, turn 1: it spawns branch 0, which names another turn")
	twice.Sessions[0].Turns[1].Spawns = nil
	twice.Sessions[0].Turns[0].Spawns = []int{0, 0}
	require.EqualError(t, twice.Validate(), "branch 0 is spawned by 2 turns: want one")
	lost := root(0)
	lost.Sessions = append(lost.Sessions, Session{Turns: turns(0)})
	require.EqualError(t, lost.Validate(), "session 1 is in no branch: every session but the root needs one")
	for want, change := range map[string]func(*Branch){
		"branch 0: its parent is session 7: want one of the 2 sessions, from 0":                                                      func(b *Branch) { b.Parent = 7 },
		"branch 0: turn 7 of session 0 spawns it: want one of its 2 turns, from 0":                                                   func(b *Branch) { b.Spawn = 7 },
		"branch 0: its child is session 2: want one from 1 to 1, behind its parent":                                                  func(b *Branch) { b.Sessions = []int{2} },
		"branch 0: session 1 is in it twice: list it once":                                                                           func(b *Branch) { b.Sessions = []int{1, 1} },
		"branch 0: session 1 counts from the issue of its spawning turn, its branch from the return: set OnIssue of the branch, too": func(b *Branch) { b.OnIssue = false },
		"session 0, turn 0: it spawns branch 0, which names another turn":                                                            func(b *Branch) { b.Spawn = 1 },
	} {
		tree := root(0, 0).child(0, 0, true, 0, 0)
		change(&tree.Branches[0])
		require.EqualError(t, tree.Validate(), want)
	}
}

// The report of a tree that deadlocks before it has sent anything names its opening as the last event.
func TestDeadlockBeforeTheFirstSend(t *testing.T) {
	tree := root(0, 0).child(0, 0, false, 0, 0)
	tree.after(0, 0, 1, 0)
	w := newWorld(1, anyLane(root(0), tree), Limits{}).play() // the first tree ends after a second
	deadlocks := w.of(TreeDeadlocked)
	require.Len(t, deadlocks, 1)
	require.Equal(t, Event{Kind: TreeOpened, At: time.Second, Tree: 1}, deadlocks[0].Deadlock.Last)
	require.Len(t, w.sends, 1)
}
