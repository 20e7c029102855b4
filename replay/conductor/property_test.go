package conductor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// turnKey names a request whatever the order in which trees are opened: by the number of its tree on its lane.
type turnKey struct{ lane, nth, session, turn int }

// forest is what a property plays: trees by lane, and what becomes of every request.
type forest struct {
	trees map[int][]*Tree
	takes map[turnKey]time.Duration
	ended map[turnKey]bool
}

// drawForest draws trees with whole seconds everywhere, so that coincidences are common.
func drawForest(t *rapid.T) forest {
	f := forest{map[int][]*Tree{}, map[turnKey]time.Duration{}, map[turnKey]bool{}}
	seconds := func(most int, label string) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Second
	}
	for lane := range rapid.IntRange(1, 4).Draw(t, "lanes") {
		for nth := range rapid.IntRange(0, 3).Draw(t, "trees") {
			tree := &Tree{}
			for n := range rapid.IntRange(1, 6).Draw(t, "sessions") {
				s := Session{Turns: make([]Turn, rapid.IntRange(0, 4).Draw(t, "turns"))}
				for k := range s.Turns {
					s.Turns[k].Delay = seconds(4, "delay")
					key := turnKey{lane, nth, n, k}
					f.takes[key] = seconds(6, "takes")
					f.ended[key] = rapid.IntRange(0, 9).Draw(t, "ended") == 0
				}
				if n > 0 {
					s.Parent = rapid.IntRange(0, n-1).Draw(t, "parent")
					parent := &tree.Sessions[s.Parent]
					if m := len(parent.Turns); m > 0 {
						s.SpawnTurn = rapid.IntRange(0, m-1).Draw(t, "spawn")
						if join := rapid.IntRange(-1, m-1).Draw(t, "join"); join >= 0 {
							parent.Turns[join].Joins = append(parent.Turns[join].Joins, n)
						}
					}
					s.OnIssue = rapid.Bool().Draw(t, "on issue")
					s.Offset = seconds(5, "offset")
				}
				tree.Sessions = append(tree.Sessions, s)
			}
			f.trees[lane] = append(f.trees[lane], tree)
		}
		if f.trees[lane] == nil {
			f.trees[lane] = []*Tree{}
		}
	}
	return f
}

// world returns a world that plays the forest, and the names of the trees by ordinal, filled as they open.
func (f forest) world(limits Limits) (*world, *[]turnKey) {
	names := &[]turnKey{}
	opened := map[int]int{}
	w := newWorld(len(f.trees), sourceFunc(func(lane int) (*Tree, bool) {
		list := f.trees[lane]
		if opened[lane] >= len(list) {
			return nil, false
		}
		*names = append(*names, turnKey{lane: lane, nth: opened[lane]})
		opened[lane]++
		return list[opened[lane]-1], true
	}), limits)
	w.service = func(s Send) (time.Duration, bool) {
		k := name(*names, s)
		return f.takes[k], f.ended[k]
	}
	return w, names
}

type sourceFunc func(lane int) (*Tree, bool)

func (f sourceFunc) Next(lane int) (*Tree, bool) { return f(lane) }

func name(trees []turnKey, s Send) turnKey {
	k := trees[s.Tree]
	k.session, k.turn = s.Session, s.Turn
	return k
}

// model works out when every request of the forest is sent, session by session and without a clock: when a session
// starts decides all that it and its descendants do.
func (f forest) model() map[turnKey]time.Duration {
	sends := map[turnKey]time.Duration{}
	for lane, list := range f.trees {
		at := time.Duration(0)
		for nth, tree := range list {
			var session func(n int, start time.Duration) (end time.Duration)
			treeEnd := at
			session = func(n int, due time.Duration) (end time.Duration) {
				ends := map[int]time.Duration{} // of the children born so far
				for k, turn := range tree.Sessions[n].Turns {
					if k > 0 {
						due = end + turn.Delay
					}
					for _, child := range turn.Joins {
						due = max(due, ends[child]) // 0 for one that is not born
					}
					key := turnKey{lane, nth, n, k}
					sends[key] = due
					end = due + f.takes[key]
					dead := f.ended[key] && k+1 < len(tree.Sessions[n].Turns)
					for c, s := range tree.Sessions {
						switch {
						case c == 0 || s.Parent != n || s.SpawnTurn != k:
						case s.OnIssue:
							ends[c] = session(c, due+s.Offset)
						case !dead:
							ends[c] = session(c, end+s.Offset)
						}
					}
					if dead {
						break
					}
				}
				treeEnd = max(treeEnd, end)
				return end
			}
			session(0, at)
			at = treeEnd
		}
	}
	return sends
}

func TestForestsArePlayedAsTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawForest(t)
		want := f.model()
		stop := time.Duration(1 << 62)
		if rapid.Bool().Draw(t, "stops") { // between two seconds: at the same instant either order is right
			stop = time.Duration(rapid.IntRange(0, 40).Draw(t, "stop"))*time.Second + time.Second/2
			for k, at := range want {
				if at > stop {
					delete(want, k)
				}
			}
		}
		w, names := f.world(Limits{})
		w.playUntil(stop, 1<<62)
		got := map[turnKey]time.Duration{}
		for k, s := range w.sends {
			got[name(*names, s.Send)] = s.at
			require.Equal(t, s.at, s.Due)
			require.Equal(t, k, s.ID)
		}
		require.Equal(t, want, got)
		require.Len(t, w.sends, len(want), "none is sent twice")
		w.requireQuiet(t)
	})
}

// TestNoRuleIsBrokenWhenEventsAreLate: with a conductor that notices everything late the model does not hold, but what
// it did can be held against each rule.
func TestNoRuleIsBrokenWhenEventsAreLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawForest(t)
		limits := Limits{Requests: rapid.IntRange(0, 30).Draw(t, "requests"), Trees: rapid.IntRange(0, 6).Draw(t, "trees in all")}
		w, names := f.world(limits)
		w.lag = func() time.Duration { return time.Duration(rapid.IntRange(0, 3).Draw(t, "lag")) * time.Second / 2 }
		stop := time.Duration(rapid.IntRange(1, 100).Draw(t, "stop")) * time.Second
		w.playUntil(stop, stop+3*time.Second)
		w.requireQuiet(t)

		sent, returned := map[turnKey]sending{}, map[turnKey]returning{}
		for _, s := range w.sends {
			k := name(*names, s.Send)
			require.NotContains(t, sent, k)
			require.GreaterOrEqual(t, s.at, s.Due)
			sent[k] = s
		}
		for _, r := range w.returns {
			k := name(*names, r.Send)
			require.NotContains(t, returned, k, "returned twice")
			returned[k] = r
		}
		require.Len(t, returned, len(sent))
		if limits.Requests > 0 {
			require.LessOrEqual(t, len(sent), limits.Requests)
		}
		if limits.Trees > 0 {
			require.LessOrEqual(t, len(*names), limits.Trees)
		}
		for k, s := range sent {
			f.requireRules(t, k, s, sent, returned)
		}
	})
}

// requireRules holds one send against the rules: where it stands in its session, and when it was due.
func (f forest) requireRules(t *rapid.T, k turnKey, s sending, sent map[turnKey]sending, returned map[turnKey]returning) {
	tree := f.trees[k.lane][k.nth]
	me := tree.Sessions[k.session]
	at := func(session, turn int) turnKey { return turnKey{k.lane, k.nth, session, turn} }
	due := time.Duration(0)
	switch {
	case k.turn > 0:
		before, ok := returned[at(k.session, k.turn-1)]
		require.True(t, ok, "a turn was skipped")
		require.False(t, before.ended, "its session had ended")
		require.LessOrEqual(t, before.at, s.at, "two requests of a session at a time")
		due = before.at + me.Turns[k.turn].Delay
	case k.session == 0 && k.nth > 0:
		for o, r := range returned { // nothing of a tree goes on when the lane takes the next
			if o.lane == k.lane && o.nth == k.nth-1 {
				require.LessOrEqual(t, r.at, s.at)
				due = max(due, r.at)
			}
		}
		if due == 0 {
			return // the one before had no request: when it was opened is not in the log
		}
	case k.session == 0:
	case me.OnIssue:
		spawner, ok := sent[at(me.Parent, me.SpawnTurn)]
		require.True(t, ok, "born of a turn that was not sent")
		due = spawner.at + me.Offset
	default:
		spawner, ok := returned[at(me.Parent, me.SpawnTurn)]
		require.True(t, ok, "born of a turn that did not return")
		require.False(t, spawner.ended && me.SpawnTurn+1 < len(tree.Sessions[me.Parent].Turns), "born of a session that had ended")
		due = spawner.at + me.Offset
	}
	if k.turn > 0 {
		for _, child := range me.Turns[k.turn].Joins {
			c := tree.Sessions[child]
			if c.SpawnTurn >= k.turn {
				continue // not born yet
			}
			for turn := range c.Turns {
				r, ok := returned[at(child, turn)]
				require.True(t, ok, "a joined child was not done")
				require.LessOrEqual(t, r.at, s.at)
				due = max(due, r.at)
				if r.ended {
					break
				}
			}
		}
	}
	require.Equal(t, due, s.Due)
}

func TestNothingIsLeftBehindAfterManyTrees(t *testing.T) {
	const trees = 10_000
	source := queue{}
	for range trees {
		source[-1] = append(source[-1], root(0, 1).child(0, 0, true, 0, 0).join(0, 1, 1))
	}
	w := newWorld(7, source, Limits{}).play()
	require.Equal(t, trees, w.c.Counts().TreesDrained)
	require.LessOrEqual(t, cap(w.c.timers), 64)
	w.requireQuiet(t)
}
