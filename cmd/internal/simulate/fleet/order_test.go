package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// turns is a load that releases turns at their instants.
type turns []struct {
	at   int64
	turn workload.Turn
}

func (l *turns) Next() (int64, bool) {
	if len(*l) == 0 {
		return 0, false
	}
	return (*l)[0].at, true
}

func (l *turns) Release(now int64) (t workload.Turn, ok bool) {
	if at, ok := l.Next(); !ok || at > now {
		return t, false
	}
	t = (*l)[0].turn
	*l = (*l)[1:]
	return t, true
}

func (l *turns) Completed(int, int64) {}
func (l *turns) Left() int            { return len(*l) }

// Requests reach the scheduler by a constant later, from which on everything is as without, and their times count from their arrivals.
//
// Covers S-88.
func TestRequestsTakeTimeToTheScheduler(t *testing.T) {
	for _, pools := range []int{1, 2} {
		play := func(request float64) *Result {
			c := engine.Default()
			c.Timing.Formula = &engine.Formula{Pass: 5, Token: 0.1, Request: request}
			o := Options{Switches: preset.Switches{}, Load: &turns{{0, workload.Turn{ID: 0, Prompt: 500, Output: 3}}, {2e6, workload.Turn{ID: 1, Prompt: 700, Output: 2}}, {1e9, workload.Turn{ID: 2, Prompt: 100, Output: 1}}}}
			o.Switches, _ = preset.Named(preset.Default)
			for range pools {
				o.Pools = append(o.Pools, Pool{Workers: 1, Engine: c, Timing: engine.NewTiming(c, nil)})
			}
			got, err := Run(context.Background(), o)
			require.NoError(t, err)
			return got
		}
		at, later := play(0), play(20)
		require.Len(t, later.Requests, 3)
		for k, q := range at.Requests {
			r := later.Requests[k]
			require.Equal(t, q.Arrival, r.Arrival)
			require.Equal(t, q.First+20e6, r.First)
			require.Equal(t, q.Last+20e6, r.Last)
		}
	}
}

// scribe is a round robin that notes what a pool tells its router.
type scribe struct {
	roundRobin
	pool  string
	notes *[]string
}

func (s *scribe) note(now int64, format string, args ...any) {
	*s.notes = append(*s.notes, fmt.Sprintf("%d %s %s", now, s.pool, fmt.Sprintf(format, args...)))
}

func (s *scribe) Workers(now int64, active []int) {
	s.note(now, "workers %v", active)
	s.roundRobin.Workers(now, active)
}

func (s *scribe) Route(now int64, r *Request) (int, bool) {
	w, ok := s.roundRobin.Route(now, r)
	s.note(now, "routes %d to %d", r.ID, w)
	return w, ok
}

func (s *scribe) Events(worker int, list []engine.KVEvent) {
	s.note(-1, "blocks of %d: %d", worker, len(list))
}

func (s *scribe) FirstToken(now int64, r *Request) { s.note(now, "first token of %d", r.ID) }
func (s *scribe) Completed(now int64, r *Request)  { s.note(now, "end of %d", r.ID) }

// Next notes nothing: it is asked again and again.
func (s *scribe) Next(int64) (*Request, int) { return nil, 0 }

// ticks is a planner that notes its ticks in the order of all events, and sets a target at the first.
type ticks struct {
	plan
	notes *[]string
}

func (p *ticks) Tick(now int64, s State) ([]int, error) {
	*p.notes = append(*p.notes, fmt.Sprintf("%d tick %v", now, s))
	return p.plan.Tick(now, s)
}

// What happens at one instant: ends of passes, the prefill pool before the decode pool and the lowest worker first; workers that
// become ready; hand-offs; releases; then passes start; then the tick, and all again.
//
// Covers S-24, S-25.
func TestOrderAtOneInstant(t *testing.T) {
	config := engine.Default()
	timing := engine.NewTiming(config, nil)
	end := timing.Prefill(100) // of the passes of prompts of 100 tokens
	config.StartupTime = float64(end) / 1e9
	switches, _ := preset.Named(preset.Default)
	turn := func(id int, output int) workload.Turn {
		return workload.Turn{ID: id, Session: id, Prompt: 100, Output: output, Chain: []engine.Run{{First: uint32(10 * id), Count: 1}}}
	}
	load := &turns{{0, turn(0, 1)}, {0, turn(1, 1)}, {end, turn(2, 1)}}
	var notes []string
	pool := func(name string) Pool {
		return Pool{Workers: 2, Engine: config, Timing: timing, Router: &scribe{pool: name, notes: &notes}}
	}
	o := Options{Pools: []Pool{pool("prefill"), pool("decode")}, Switches: switches, Load: load}
	o.Planner = &ticks{plan{at: []int64{0, end, 1e9}, targets: [][]int{{3, 3}, {3, 2}, nil}}, &notes}
	got, err := Run(context.Background(), o)
	require.NoError(t, err)
	at := func(now int64, list ...string) (all []string) {
		for _, one := range list {
			all = append(all, fmt.Sprintf("%d %s", now, one))
		}
		return all
	}
	step := end + timing.Decode(100, 100, 1)
	last := end + end
	const events = "-1 prefill blocks of"
	require.Equal(t, slices.Concat(
		at(0, "prefill workers [0 1]", "decode workers [0 1]", "prefill routes 0 to 0", "prefill routes 1 to 1",
			"tick {[{[0 1] [] [] [0 0]} {[0 1] [] [] [0 0]}] 0 0}"),
		[]string{events + " 0: 1"}, at(end, "prefill first token of 0"),
		[]string{events + " 1: 1"}, at(end, "prefill first token of 1"),
		at(end, "prefill workers [0 1 2]", "decode workers [0 1 2]", "decode routes 0 to 0", "decode routes 1 to 1"),
		[]string{"-1 decode blocks of 0: 1", "-1 decode blocks of 1: 1"},
		at(end, "prefill end of 0", "prefill end of 1", "prefill routes 2 to 2",
			fmt.Sprintf("tick {[{[0 1 2] [] [] [0 0 %[1]d]} {[0 1 2] [] [] [0 0 %[1]d]}] %[1]d 0}", end), "decode workers [0 1]"),
		at(step, "decode end of 0", "decode end of 1"),
		[]string{events + " 2: 1"}, at(last, "prefill first token of 2", "decode routes 2 to 0"),
		[]string{"-1 decode blocks of 0: 1"}, at(last, "prefill end of 2"), at(last+step-end, "decode end of 2"),
	), notes)
	require.Equal(t, step, got.Requests[1].Last)
}
