package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// A turn spawns a child and has a next turn, and the lane may send one more request: the child is sent, the session's own turn is
// left to profiling.
//
//
func TestChildrenComeBeforeTheNextTurnInTheStage(t *testing.T) {
	c := recorded(t, recording("o", call{at: 0, took: 5}, call{at: 100, took: 5}, call{at: 200, took: 5},
		call{at: 206, agent: []call{{at: 206, took: 5}, {at: 266, took: 5}, {at: 326, took: 5}}},
		call{at: 300, took: 5}, call{at: 400, took: 5}, call{at: 500, took: 5}))
	for _, name := range []string{preset.Default, preset.AgentX} {
		o := warming(t, c, name, Warmup{Requests: 3})
		o.Requests = 2
		r, err := virtually(t, o, second, at(75))
		require.NoError(t, err)
		require.Equal(t, []string{"0:o#0"}, texts(r.of(measure.WarmupPhase)[:1]), "the primer")
		require.Equal(t, []string{"0:o#1", "0:o#2", "0:o::sa:a3#0"}, texts(r.stageOf()))
		require.Equal(t, []string{"0:o#3", "0:o::sa:a3#1"}, texts(r.of(measure.ProfilingPhase)))
	}
}

// With HandoffOrder seed the answers do not decide what the stage leaves: however long each takes, the same turns are sent, and the
// same sessions of the same trees go on at the same instants. With arrival they do.
//
// Covers T-70.
func TestTheSeedAloneDecidesTheHandoff(t *testing.T) {
	var lines []string
	for k, id := range []string{"m1", "m2", "m3", "s1", "s2"} {
		if id[0] == 'm' {
			lines = append(lines, mixed(id))
		} else {
			lines = append(lines, recording(id, call{at: 0, took: 1}, call{at: 5 + float64(k), took: 1}, call{at: 20, took: 1}))
		}
	}
	c := recorded(t, lines...)
	for _, recycle := range []Recycle{RecycleSampler, RecycleFIFOGuarded} {
		for _, byArrival := range []bool{false, true} {
			seen := map[string]bool{}
			for trial := range 30 {
				random := rand.New(rand.NewPCG(1, uint64(trial)))
				o := warming(t, c, preset.Default, Warmup{Requests: 5})
				o.Concurrency, o.Duration, o.Recycle, o.Switches.HandoffByArrival = 4, 200*time.Second, recycle, byArrival
				r, err := virtually(t, o, func(s sentTurn) answerTo {
					if s.name == measure.ProfilingPhase {
						return answerTo{takes: time.Second}
					}
					return answerTo{takes: time.Duration(1+random.IntN(2000)) * time.Millisecond}
				})
				require.NoError(t, err)
				require.EqualValues(t, 20, r.summary.Warmup.StageRequests)
				played := ""
				for lane := range 4 {
					require.Len(t, ofLane(r.stageOf(), lane), 5)
				}
				for _, s := range r.of(measure.ProfilingPhase) {
					played += fmt.Sprintln(s.at-r.periods[1].origin, s)
				}
				seen[played] = true
			}
			if !byArrival {
				require.Equal(t, 1, len(seen), "hand-offs")
			} else {
				require.Greater(t, len(seen), 1)
			}
		}
	}
}

// A session of the plan that the server ends early leaves its lane short: the stage ends all the same. A tree that ends before its time
// is followed by one that no plan has; the recycler hears of the end of each tree once.
func TestAStageOfThePlanEndsWithoutTheRequestsOfEndedSessions(t *testing.T) {
	plain := func(id string) string {
		return recording(id, call{at: 0, took: 1}, call{at: 10, took: 1}, call{at: 20, took: 1}, call{at: 30, took: 1}, call{at: 40, took: 1}, call{at: 50, took: 1})
	}
	for _, session := range []string{"m1::sa:a1", "s1"} {
		lines := []string{mixed("m1"), mixed("m2"), mixed("m3")}
		if session == "s1" {
			lines = []string{plain("s1"), plain("s2"), plain("s3")}
		}
		o := warming(t, recorded(t, lines...), preset.Default, Warmup{Requests: 3})
		o.Concurrency, o.Duration, o.Recycle = 2, 300*time.Second, RecycleFIFOGuarded
		r, err := virtually(t, o, func(s sentTurn) answerTo {
			if !s.phaseOfPrimers && s.name == measure.WarmupPhase && s.session == session {
				return answerTo{takes: time.Second, category: wire.ContextOverflow}
			}
			return answerTo{takes: time.Second}
		}, at(5, 5))
		require.NoError(t, err)
		require.Positive(t, r.summary.Requests)
		require.Len(t, ofLane(r.stageOf(), 1), 3)
		q := r.sampler.recycler.(*guardedQueue)
		require.Len(t, q.queue, 3+2, "each of two lanes ended a tree that none followed")
		require.Empty(t, q.live.now)
	}
}
