package router

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// routerOf returns a router of active workers 0 to workers-1, with blocks of 64 and passes of 1000 tokens.
func routerOf(t *testing.T, workers int, config string, role engine.Role) *KV {
	switches, _ := preset.Named(preset.Default)
	c, err := Parse([]byte(config), switches.RouterCost)
	require.NoError(t, err)
	e := engine.Default()
	e.MaxBatchedTokens = 1000
	k, err := New(Options{Config: c, Switches: switches, Engine: e, Timing: engine.NewTiming(e, nil), Seed: 42, Role: role})
	require.NoError(t, err)
	active := make([]int, workers)
	for id := range active {
		active[id] = id
	}
	k.Workers(0, active)
	return k
}

func request(prompt int, chain ...engine.Run) *fleet.Request {
	r := &fleet.Request{}
	r.Prompt, r.Chain = prompt, chain
	return r
}

// With an estimate the oldest prefill of a worker decays, from when it became the oldest.
//
// Covers S-22.
func TestTheOldestPrefillDecays(t *testing.T) {
	k := routerOf(t, 1, `{"router_prefill_load_model":"engine"}`, engine.Aggregated)
	a, b, c := request(2500), request(400), request(600)
	for _, r := range []*fleet.Request{a, b, c} {
		k.Route(0, r)
	}
	w := k.workers[0]
	whole := 2*k.timing.Prefill(1000) + k.timing.Prefill(500)
	require.Equal(t, 2500+400+600, w.prefillTokens(0))
	require.Equal(t, 1250+1000, w.prefillTokens(whole/2))
	require.Equal(t, 1000, w.prefillTokens(10*whole))
	k.FirstToken(whole, b) // not the oldest
	require.Equal(t, 600, w.prefillTokens(whole))
	k.FirstToken(whole, a)
	require.Equal(t, 600, w.prefillTokens(whole))
	require.Equal(t, 300, w.prefillTokens(whole+k.timing.Prefill(600)/2))
	k.Completed(whole, c) // without a first token
	require.Zero(t, w.prefillTokens(whole))
	require.Zero(t, w.prefillSum)

	k = routerOf(t, 1, `{}`, engine.Aggregated)
	k.Route(0, a)
	require.Equal(t, 2500, k.workers[0].prefillTokens(10*whole))
}

// Credit decays where a worker has more to prefill than the one that has the least.
//
// Covers S-21.
func TestExcessIsAboveTheLeastLoaded(t *testing.T) {
	k := routerOf(t, 2, `{"overlap_score_credit_decay":1}`, engine.Aggregated)
	k.Route(0, request(640))
	k.Route(0, request(128))
	r := request(1024)
	k.gather(0, r, k.overlaps(r))
	require.Equal(t, []float64{8, 0}, []float64{k.candidates[0].excess, k.candidates[1].excess})
}

// A request waits while every worker has more to prefill than the threshold, and leaves on a first token, an end or a new worker.
//
// Covers S-20.
func TestRequestsWaitForThePrefills(t *testing.T) {
	k := routerOf(t, 2, `{"router_queue_threshold":0.5}`, engine.Aggregated)
	mustRoute := func(r *fleet.Request) {
		_, ok := k.Route(0, r)
		require.True(t, ok)
	}
	kept := func(r *fleet.Request) {
		_, ok := k.Route(0, r)
		require.False(t, ok)
		got, _ := k.Next(0)
		require.Nil(t, got)
	}
	a, b, even := request(501), request(501), request(500)
	mustRoute(even) // worker 0 has 500 of 500, which is not more
	mustRoute(a)
	mustRoute(b)
	x, y, z := request(10), request(700), request(700)
	kept(x)
	kept(y)
	kept(z)
	got, _ := k.Next(1)
	require.Nil(t, got, "nothing has happened")
	k.FirstToken(1, a)
	got, id := k.Next(1)
	require.Same(t, x, got)
	require.Equal(t, k.flights[x].worker.id, id)
	got, _ = k.Next(1)
	require.Same(t, y, got, "510 tokens are left on one worker, 10 on the other")
	got, _ = k.Next(1)
	require.Nil(t, got)
	k.Workers(2, []int{0, 1, 2})
	got, id = k.Next(2)
	require.Same(t, z, got)
	require.Equal(t, 2, id)
	require.Empty(t, k.queue)
}

// Time alone lets no request out, even where prefills decay.
//
// Covers S-20, S-22.
func TestTheQueueWaitsForAnEvent(t *testing.T) {
	k := routerOf(t, 1, `{"router_queue_threshold":0.5,"router_prefill_load_model":"engine"}`, engine.Aggregated)
	k.Route(0, request(1000))
	r := request(10)
	_, ok := k.Route(0, r)
	require.False(t, ok)
	got, _ := k.Next(0)
	require.Nil(t, got)
	later := k.timing.Prefill(1000)
	got, _ = k.Next(later)
	require.Nil(t, got)
	k.Completed(later, request(1)) // of another router
	got, _ = k.Next(later)
	require.Same(t, r, got)
}

// The policies decide who leaves first.
//
// Covers S-20.
func TestQueuePolicies(t *testing.T) {
	for policy, want := range map[string][]int{fcfs: {0, 1, 2, 3, 4}, lcfs: {4, 3, 2, 1, 0}, wspt: {2, 0, 3, 4, 1}} {
		k := routerOf(t, 1, fmt.Sprintf(`{"router_queue_threshold":0.1,"router_queue_policy":%q}`, policy), engine.Aggregated)
		k.Events(0, []engine.KVEvent{{Run: engine.Run{First: 0, Count: 10}}})
		k.Route(0, request(1000))
		list := []*fleet.Request{request(200), request(900), request(740, engine.Run{First: 0, Count: 11}), request(200), request(300)}
		for n, r := range list { // the third needs 100 new tokens
			_, ok := k.Route(int64(n), r)
			require.False(t, ok)
		}
		var got []int
		for len(got) < len(list) {
			for r := range k.flights {
				k.Completed(0, r)
			}
			r, _ := k.Next(0)
			for n := range list {
				if list[n] == r {
					got = append(got, n)
				}
			}
		}
		require.Equal(t, want, got, policy)
	}
}

// What is known of a worker ends with it. Requests that it still has end without a trace, and a decode pool has no prefills.
//
// Covers S-20.
func TestWorkersComeAndGo(t *testing.T) {
	k := routerOf(t, 2, `{}`, engine.Aggregated)
	run := engine.Run{First: 5, Count: 15}
	k.Events(1, []engine.KVEvent{{Run: run}})
	r := request(960, run)
	id, _ := k.Route(0, r)
	require.Equal(t, 1, id)
	require.Equal(t, 15, r.Overlap)
	k.Workers(1, []int{0, 2})
	k.Events(1, []engine.KVEvent{{Run: run}})
	k.FirstToken(1, r)
	k.Completed(1, r)
	require.Empty(t, k.flights)
	second := request(960, run)
	k.Route(1, second)
	require.Zero(t, second.Overlap)

	k = routerOf(t, 2, `{"router_queue_threshold":0}`, engine.Decode)
	for range 3 {
		_, ok := k.Route(0, request(1<<20))
		require.True(t, ok)
	}
}
