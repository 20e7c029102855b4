package finish

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
)

// A session with a title call, a subagent that is waited for, one in the background, and one that a subagent made: conversion reads
// every time as it was, in both profiles.
//
// Covers C-33.
func TestConversionReadsSubagentsAsMeant(t *testing.T) {
	s := newScript(t, journal.Export{})
	s.do(ask{q: 0, begin: 0, end: 900, base: -1, add: 2, system: 3, model: "small"})                                            // a title
	s.do(ask{q: 1, begin: 30, end: 2000, base: -1, add: 30, system: 101})                                                       // main
	s.start(ask{q: 2, agent: 1, begin: 2105})                                                                                   // waited for
	s.ids(ask{q: 2, base: 1, keep: 10, add: 5})                                                                                 //
	s.start(ask{q: 3, agent: 2, begin: 2109})                                                                                   // background
	s.ids(ask{q: 3, base: 1, keep: 10, add: 7})                                                                                 //
	s.stop(ask{q: 2, end: 4001})                                                                                                //
	require.NoError(t, s.Write(journal.Begin{Q: 4, T: 4200, Place: journal.Place{Agent: 3, Parent: 1, Via: journal.TierMark}})) // nested
	s.ids(ask{q: 4, base: -1, add: 3})
	s.stop(ask{q: 4, end: 4700})
	s.do(ask{q: 5, agent: 1, begin: 4900, end: 5500, base: 2, keep: 15, add: 2})
	require.NoError(t, s.Write(journal.Agent{Agent: 1, Type: journal.Explore, Result: 1}))
	s.do(ask{q: 6, begin: 5800, end: 7000, base: 1, keep: 30, add: 4})
	s.stop(ask{q: 3, end: 7703})
	s.do(ask{q: 7, agent: 2, begin: 8000, end: 9000, base: 3, keep: 17, add: 1})
	s.do(ask{q: 8, begin: 8500, end: 9900, base: 6, keep: 34, add: 4})
	f, trace := s.built()

	assert.Equal(t, int64(8), trace.SystemTokens, "of the first request that is no preamble, as much as the blocks of the first hold")

	want := []float64{0, 0.03, 2.1, 4.9, 2.1, 8, 4.2, 5.8, 8.5}
	var got []float64
	var status []string
	for _, e := range trace.Entries {
		if e.Subagent == nil {
			got = append(got, e.T)
			continue
		}
		status = append(status, fmt.Sprintf("%s %v completed=%v duration=%v,%d", e.Subagent.AgentID, e.Subagent.T, e.Subagent.Completed, e.Subagent.HasDuration, e.Subagent.DurationMS))
		for _, r := range e.Subagent.Requests {
			got = append(got, r.T)
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, []string{"agent_001 2.1 completed=true duration=true,3400", "agent_002 2.1 completed=false duration=false,0", "agent_003 4.2 completed=true duration=true,500"}, status)
	assert.Contains(t, string(f.note), `"agents":[{"agent_id":"agent_001","parent":"main","tier":1},{"agent_id":"agent_002","parent":"main","tier":1},{"agent_id":"agent_003","parent":"agent_001","tier":2}]`)

	assert.NotContains(t, string(f.note), "alarms")
	for name, r := range map[string]rules.Rules{"default": rules.Default(), "aiperf": rules.AIPerf()} {
		tr, err := weka.Scan(f.trace, r)
		require.NoError(t, err, name)
		plan, _, err := reconstruct.MakePlan(tr, r)
		require.NoError(t, err, name)
		starts := map[string][]float64{}
		for _, session := range plan.Sessions {
			for _, turn := range plan.Turns[session.FirstTurn : session.FirstTurn+session.Turns] {
				starts[session.ID] = append(starts[session.ID], turn.T)
			}
		}
		assert.Equal(t, map[string][]float64{"cap-3f9a1c20": {0, 0.03, 5.8, 8.5}, "cap-3f9a1c20::sa:agent_001": {2.1, 4.9},
			"cap-3f9a1c20::sa:agent_002": {2.1, 8}, "cap-3f9a1c20::sa:agent_003": {4.2}}, starts, name)
		times, err := plan.Times(r.TimeRules(), mmapcache.View{})
		require.NoError(t, err, name)
		ends := map[string]bool{} // whether the main agent waits for the session
		for _, b := range times.Branches {
			for _, n := range b.Sessions {
				ends[plan.Sessions[n].ID] = b.Join != mmapcache.None
			}
		}
		assert.Equal(t, map[string]bool{"cap-3f9a1c20::sa:agent_001": true, "cap-3f9a1c20::sa:agent_002": false, "cap-3f9a1c20::sa:agent_003": true}, ends, name)
	}
}

// A subagent was sent to the background if the main agent asked before its first answer ended, unless that brought its result. At one
// instant the main agent stands first, also where another one arrived first.
//
// Covers C-33.
func TestSubagentsInTheBackground(t *testing.T) {
	for _, c := range []struct {
		name   string
		main   int64 // when the main agent asks again
		result int   // request with the result of the subagent
		want   []string
	}{
		{"while it answers", 1005, 0, []string{"main 0", "main 1", "async_launched 1"}},
		{"when it has answered", 2000, 0, []string{"main 0", "completed 1", "main 2"}},
		{"with its result", 1999, 2, []string{"main 0", "completed 1", "main 1.99"}},
	} {
		s := newScript(t, journal.Export{})
		s.do(ask{q: 0, begin: 0, end: 900, base: -1, add: 3})
		s.start(ask{q: 1, agent: 1, begin: 1001})
		s.ids(ask{q: 1, base: 0, keep: 1, add: 2})
		s.start(ask{q: 2, begin: c.main})
		s.ids(ask{q: 2, base: 0, keep: 3, add: 1})
		if c.result != 0 {
			require.NoError(t, s.Write(journal.Agent{Agent: 1, Type: journal.Explore, Result: c.result}))
		}
		s.stop(ask{q: 1, end: 2000})
		s.stop(ask{q: 2, end: 3000})
		f, _ := s.built()
		var trace struct {
			Requests []struct {
				T      float64
				Status string
			}
		}
		require.NoError(t, json.Unmarshal(f.trace, &trace))
		var got []string
		for _, r := range trace.Requests {
			got = append(got, fmt.Sprint(cmp.Or(r.Status, "main"), " ", r.T))
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// Times of a virtual clock in the trace: on the grid before differences are taken, from the first arrival on, with long gaps cut.
//
// Covers C-34.
func TestTimes(t *testing.T) {
	write := func(s *script) {
		s.do(ask{q: 0, begin: 0, first: 19, end: 29, base: -1, add: 2})
		s.do(ask{q: 1, begin: 31, end: 1999, base: 0, keep: 2, add: 1})              // its predecessor ended on the same instant of the grid of 30 ms
		s.start(ask{q: 2, begin: 2005})                                              // overlaps the next
		s.ids(ask{q: 2, base: 1, keep: 3, add: 2})                                   //
		s.do(ask{q: 3, begin: 2500, end: 3007, base: 1, keep: 3, add: 1})            // goes on from 1, not from 2
		s.stop(ask{q: 2, end: 90_000})                                               //
		s.do(ask{q: 4, begin: 95_111, end: 95_222, base: 2, keep: 5, add: 1})        // shares more with 2
		s.do(ask{q: 5, begin: 3_695_222, end: 3_695_333, base: 3, keep: 4, add: 1})  // an hour later; goes on from 3
		s.do(ask{q: 6, begin: 3_695_999, end: 3_696_000, base: -1, add: 1})          // shares nothing
		s.do(ask{q: 7, begin: 3_696_001, end: 3_696_002, base: -1, add: 0, tail: 3}) // has no block
		s.do(ask{q: 8, begin: 3_696_003, end: 3_696_003, base: 4, keep: 3})          // all of it is shared with 1 to 5; the last of these to end is 5
	}
	// t, api_time, ttft, think_time of each request, in milliseconds; -1: left out
	for _, c := range []struct {
		export journal.Export
		want   [][4]float64
	}{
		{journal.Export{}, [][4]float64{{0, 20, 10, -1}, {30, 1960, -1, 10}, {2000, 88_000, -1, 10}, {2500, 500, -1, 510}, {95_110, 110, -1, 5110},
			{3_695_220, 110, -1, 3_692_220}, {3_695_990, 10, -1, -1}, {3_696_000, 0, -1, -1}, {3_696_000, 0, -1, 670}}},
		{journal.Export{Grid: time.Millisecond}, [][4]float64{{0, 29, 19, -1}, {31, 1968, -1, 2}, {2005, 87_995, -1, 6}, {2500, 507, -1, 501}, {95_111, 111, -1, 5111},
			{3_695_222, 111, -1, 3_692_215}, {3_695_999, 1, -1, -1}, {3_696_001, 1, -1, -1}, {3_696_003, 0, -1, 670}}},
		{journal.Export{Grid: 30 * time.Millisecond, MaxGap: time.Second}, [][4]float64{{0, 0, 0, -1}, {30, 1950, -1, 30}, {2010 - 30, 88_020, -1, 0}, {2490, 510, -1, 510}, {90_990, 120, -1, 990},
			{92_100, 90, -1, 89_100}, {92_850, 30, -1, -1}, {92_880, 0, -1, -1}, {92_880, 0, -1, 690}}},
	} {
		s := newScript(t, c.export)
		write(s)
		f, _ := s.built()
		require.Equal(t, 9, f.Recorded)
		var trace struct{ Requests []map[string]any }
		require.NoError(t, json.Unmarshal(f.trace, &trace))
		var got [][4]float64
		for _, r := range trace.Requests {
			ms := func(key string) float64 {
				if seconds, ok := r[key].(float64); ok {
					return math.Round(seconds * 1000)
				}
				return -1
			}
			got = append(got, [4]float64{ms("t"), ms("api_time"), ms("ttft"), ms("think_time")})
		}
		assert.Equal(t, c.want, got, "%+v", c.export)
	}
}
