package workload

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/conductor"
)

// leaving is when a turn left, and when it ended.
type leaving struct {
	Turn
	at, end int64
}

// playLoad plays a load against a server that takes as long for every turn, and refuses some.
func playLoad(t *testing.T, l Load, takes int64, refused func(Turn) bool) (list []leaving) {
	t.Helper()
	var flying []leaving
	for now := int64(0); ; {
		for turn, ok := l.Release(now); ok; turn, ok = l.Release(now) {
			flying = append(flying, leaving{turn, now, now + takes})
			list = append(list, flying[len(flying)-1])
		}
		at, ok := l.Next()
		switch {
		case len(flying) > 0 && (!ok || flying[0].end <= at):
			require.Positive(t, max(1, l.Left()))
			f := flying[0]
			flying, now = flying[1:], f.end
			if refused != nil && refused(f.Turn) {
				l.(Refuser).Refused(f.ID, now)
			} else {
				l.Completed(f.ID, now)
			}
		case ok:
			now = max(now, at)
		default:
			require.Zero(t, l.Left())
			return list
		}
	}
}

// lanesOf returns the load of lanes of a structure.
func lanesOf(t *testing.T, c *mmapcache.Cache, lanes, block int) *LanesLoad {
	l, err := Lanes(LanesOptions{Replay: replay.Options{Cache: c, Concurrency: lanes}, BlockSize: block, IDWidth: "64"})
	require.NoError(t, err)
	return l
}

// Against a fleet of constant latency, turns leave in the order and at the instants of the player, which are those of a run; with the
// lengths of the recording. Every turn leaves once.
//
// Covers S-04.
func TestLanesLeaveAsPlayed(t *testing.T) {
	c := cachetest.Demo(t)
	for _, lanes := range []int{1, 4, 16, 40} {
		got := playLoad(t, lanesOf(t, c, lanes, 64), int64(time.Second), nil)
		require.Len(t, got, c.Facts.Turns)
		p, err := replay.NewPlayer(replay.Options{Cache: c, Concurrency: lanes})
		require.NoError(t, err)
		at := map[int]time.Duration{}
		var ends []int // in the order of their ends, which is that of leaving
		for now, k := time.Duration(0), 0; !p.Done(); {
			for turn, ok := p.Take(now); ok; turn, ok = p.Take(now) {
				at[turn.ID] = now
				ends = append(ends, turn.ID)
				plan := cachetest.Plan(c, turn.Trace)
				row := plan.Turns[int(plan.Sessions[turn.Session].FirstTurn)+turn.Turn]
				want := Turn{
					ID: turn.ID, Session: int(plan.Trace.FirstSession) + turn.Session, Number: turn.Turn, Prompt: int(row.In), Output: max(1, int(row.Out)),
				}
				l := got[turn.ID]
				require.Equal(t, int64(now), l.at, "%+v", turn)
				l.Chain = nil
				require.Equal(t, want, l.Turn)
			}
			next, ok := p.Next()
			if k < len(ends) && (!ok || at[ends[k]]+time.Second <= next) {
				now = at[ends[k]] + time.Second
				require.NoError(t, p.Returned(ends[k], now, conductor.OK))
				k++
				continue
			}
			now = max(now, next)
		}
	}
}

// A turn that no worker can hold ends its session, as an overflow of the context does in a run; the other sessions go on.
//
// Covers S-04.
func TestRefusedTurnEndsItsSession(t *testing.T) {
	c := cachetest.Demo(t)
	all := playLoad(t, lanesOf(t, c, 4, 64), int64(time.Second), nil)
	roots := map[int]bool{}
	for k := range c.Traces() {
		roots[int(cachetest.Plan(c, k).Trace.FirstSession)] = true
	}
	i := slices.IndexFunc(all, func(l leaving) bool { return !roots[l.Session] && l.Number == 1 })
	require.Positive(t, i)
	child := all[i].Session
	some := playLoad(t, lanesOf(t, c, 4, 64), int64(time.Second), func(u Turn) bool { return u.Session == child })
	count := func(list []leaving) map[int]int {
		n := map[int]int{}
		for _, l := range list {
			n[l.Session]++
		}
		return n
	}
	want := count(all)
	want[child] = 1
	require.Equal(t, want, count(some))
}

// Two turns of a trace share as many blocks as their ids say, and turns of two traces share none unless their scope is the same.
//
// Covers S-03.
func TestChainsOfLanes(t *testing.T) {
	c := cachetest.Demo(t)
	for _, block := range []int{64, 48, 16, 100} {
		list := playLoad(t, lanesOf(t, c, 4, block), int64(time.Second), nil)
		ids := map[[2]int][]IDRun{}
		tokens := map[[2]int]int{}
		reader, err := newPrompts(c, "64")
		require.NoError(t, err)
		for k := range c.Traces() {
			plan := cachetest.Plan(c, k)
			require.NoError(t, reader.open(plan))
			for n, session := range plan.Sessions {
				for u := range int(session.Turns) {
					turn := plan.Turns[int(session.FirstTurn)+u]
					place := [2]int{int(plan.Trace.FirstSession) + n, u}
					ids[place], tokens[place] = slices.Clone(reader.ids(turn)), int(turn.In)
					require.LessOrEqual(t, len(flat(ids[place])), int(turn.HashIDs))
				}
			}
		}
		for i, a := range list {
			for _, b := range list[:i] {
				if a.Session != b.Session && i%7 > 0 {
					continue
				}
				x, y := flat(ids[[2]int{a.Session, a.Number}]), flat(ids[[2]int{b.Session, b.Number}])
				same := 0
				for same < min(len(x), len(y)) && x[same] == y[same] {
					same++
				}
				want := min(same*64, a.Prompt, b.Prompt) / block
				require.Equal(t, want, common(a.Chain, b.Chain), "block %d", block)
			}
		}
	}
}

// flat writes ids out.
func flat(list []IDRun) (ids []IDRun) {
	for _, r := range list {
		for k := range r.Count {
			ids = append(ids, IDRun{r.Scope, r.ID + int64(k), 1})
		}
	}
	return ids
}

// What cannot be played is said.
//
// Covers S-04.
func TestLanesRefusals(t *testing.T) {
	_, err := Lanes(LanesOptions{Replay: replay.Options{Cache: cachetest.Demo(t)}})
	require.ErrorContains(t, err, "lanes: blocks of 0 tokens: want at least 1")
	_, err = Lanes(LanesOptions{BlockSize: 64})
	require.ErrorContains(t, err, "lanes: cache: nil")
	c := cachetest.Prepare(t, cachetest.TraceLine("a", 64)+cachetest.TraceLine("b", 64), "code")
	mixed := mmapcache.NewStructure()
	for k := range c.Traces() {
		p := *cachetest.Plan(c, k)
		p.Trace.BlockSize = 64 + 64*uint32(k)
		require.NoError(t, mixed.Append(&p))
	}
	_, err = Lanes(LanesOptions{Replay: replay.Options{Cache: mmapcache.CacheOf(mixed, mmapcache.StructureFacts{})}, BlockSize: 64})
	require.ErrorContains(t, err, "trace b: blocks of 128 tokens, those before have 64")
}

// Trees with a marker share blocks with themselves alone, as many as without one; two trees of a trace share none.
//
// Covers S-96.
func TestSeparateTreesShareNothing(t *testing.T) {
	o := LanesOptions{Replay: replay.Options{Cache: cachetest.Demo(t), Concurrency: 4, Requests: 900}, BlockSize: 64, IDWidth: "64"}
	together, err := Lanes(o)
	require.NoError(t, err)
	o.Separate = true
	apart, err := Lanes(o)
	require.NoError(t, err)
	want, got := playLoad(t, together, int64(time.Second), nil), playLoad(t, apart, int64(time.Second), nil)
	require.Equal(t, len(want), len(got))
	shared := map[[2]uint32]bool{} // number apart, number together
	owners := map[uint32]uint32{}
	for id, turn := range got {
		require.Equal(t, blocks(want[id].Chain), blocks(turn.Chain))
		k := 0
		numbers := numbersOf(want[id].Chain)
		for _, n := range numbersOf(turn.Chain) {
			other, known := owners[n]
			require.True(t, !known || other == numbers[k], "a number apart stands for one together")
			owners[n] = numbers[k]
			shared[[2]uint32{n, numbers[k]}] = true
			k++
		}
	}
	distinct := map[uint32]bool{}
	for pair := range shared {
		distinct[pair[1]] = true
	}
	require.Greater(t, len(shared), 2*len(distinct), "trees of the same trace, played again and again")
}

// blocks returns how many blocks a chain has, and numbersOf which.
func blocks(chain []engine.Run) int { return len(numbersOf(chain)) }

func numbersOf(chain []engine.Run) (list []uint32) {
	for _, r := range chain {
		for k := range r.Count {
			list = append(list, r.First+k)
		}
	}
	return list
}

// Roots are the requests of each trace in the order of the file, without those of subagents, a recorded think time apart.
//
// Covers S-06.
func TestRoots(t *testing.T) {
	line := `{"id":"a","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":64,"requests":[` +
		`{"t":0,"type":"n","model":"m","in":100,"out":2,"hash_ids":[1],"input_types":[],"output_types":[],"stop":"","api_time":1},` +
		`{"t":2,"type":"subagent","agent_id":"x","subagent_type":"x","status":"completed","duration_ms":3000,"models":["m"],"requests":[` +
		`{"t":2,"type":"n","model":"m","in":70,"out":0,"hash_ids":[7],"input_types":[],"output_types":[],"stop":"","api_time":1}]},` +
		`{"t":6,"type":"n","model":"m","in":130,"out":0,"hash_ids":[1,2],"input_types":[],"output_types":[],"stop":"","api_time":1,"think_time":1.25}]}` + "\n"
	s, err := Roots(cachetest.Prepare(t, line, "code"), 64, "64")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{len(s.list), len(s.turns)})
	l, err := s.Concurrency(3, "sessions")
	require.NoError(t, err)
	got := playLoad(t, l, int64(time.Second), nil)
	require.Len(t, got, 2)
	require.Equal(t, []int64{0, 2250e6}, []int64{got[0].at, got[1].at})
	require.Equal(t, [][2]int{{100, 2}, {130, 1}}, [][2]int{{got[0].Prompt, got[0].Output}, {got[1].Prompt, got[1].Output}})
	require.Equal(t, 1, common(got[0].Chain, got[1].Chain))
}
