package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	simpreset "github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
)

// Lanes begin, recycle and pace as a replay of the same options does: a player that is told when the fleet ended each request gives out the
// same turns at the same instants.
//
// Covers S-04.
func TestLanesPlayTheirOptions(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	input, err := NewInput(c)
	require.NoError(t, err)
	_, err = NewInput(mmapcache.CacheOf(c.Structure, mmapcache.StructureFacts{Rules: mmapcache.TimeRules{LiveAnswers: true}}))
	require.ErrorContains(t, err, "session_rows=live")
	aiperf, _ := preset.Named(preset.AIPerf)
	seen := map[string]string{}
	for name, set := range map[string]func(*replay.Options){
		"default": func(*replay.Options) {},
		"sampled": func(o *replay.Options) { o.Start.Sampled = true },
		"late": func(o *replay.Options) {
			o.Start = replay.Start{Sampled: true, Ratios: &resume.Ratios{Min: 0.8, Max: 0.9}}
		},
		"burst":    func(o *replay.Options) { o.Start = replay.Start{Sampled: true, Burst: true} },
		"guarded":  func(o *replay.Options) { o.Recycle = replay.RecycleFIFOGuarded },
		"one each": func(o *replay.Options) { o.MaxLivePerTrace = true; o.Order = replay.Random },
		"random":   func(o *replay.Options) { o.Order, o.AllowWrap = replay.Random, true },
		"shuffled": func(o *replay.Options) { o.Order = replay.Shuffle },
		"fast":     func(o *replay.Options) { o.Pace.Speed = 3 },
		"capped":   func(o *replay.Options) { o.Pace.MaxGap = time.Second },
		"flat out": func(o *replay.Options) { o.Pace.ASAP = true },
		"idle":     func(o *replay.Options) { o.Limits.TraceIdle = 500 * time.Millisecond },
		"switches": func(o *replay.Options) { o.Switches = &aiperf },
	} {
		config := Default()
		config.Input, config.Concurrency, config.Workers, config.LimitRequests = input, 12, 2, 400
		set(&config.Lanes.Options)
		r, err := Run(context.Background(), config)
		require.NoError(t, err)
		require.Len(t, r.Requests, 400)
		o := config.Lanes.Options
		o.Cache, o.Concurrency, o.Requests, o.Seed = c, 12, 400, "42"
		p, err := replay.NewPlayer(o)
		require.NoError(t, err)
		order := ""
		for _, event := range eventsOf(r) {
			if event.ends {
				require.NoError(t, p.Returned(event.request, time.Duration(event.at), conductor.OK), name)
				continue
			}
			turn, ok := p.Take(time.Duration(event.at))
			require.True(t, ok, "%s: request %d leaves at %d ns", name, event.request, event.at)
			q := r.Requests[event.request]
			session := int(cachetest.Plan(c, turn.Trace).Trace.FirstSession) + turn.Session
			require.Equal(t, [2]int{q.Session, q.Number}, [2]int{session, turn.Turn}, name)
			order += fmt.Sprintln(turn.Lane, session, turn.Turn, event.at)
		}
		require.True(t, p.Done(), name)
		require.Empty(t, seen[order], "%s plays as it does", name)
		seen[order] = name
	}
}

// lanesEvent is a request that leaves or ends.
type lanesEvent struct {
	at      int64
	ends    bool
	request int
}

// eventsOf lists what happened to the requests of a result, in order: at one instant ends come first.
func eventsOf(r *Result) (list []lanesEvent) {
	for k, q := range r.Requests {
		list = append(list, lanesEvent{q.Arrival, false, k}, lanesEvent{q.Last, true, k})
	}
	slices.SortStableFunc(list, func(a, b lanesEvent) int {
		ends := func(e lanesEvent) int {
			if e.ends {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(ends(a), ends(b)))
	})
	return list
}

// Trees of the demo on lanes, from their structure alone: without a bound each once, within bounds again and again.
//
// Covers S-04.
func TestLanes(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	input, err := NewInput(c)
	require.NoError(t, err)
	config := Default()
	config.Input, config.Concurrency, config.Workers = input, 4, 2
	play := func(change func(*Config)) *Result {
		one := config
		change(&one)
		r, err := Run(context.Background(), one)
		require.NoError(t, err)
		return r
	}
	all := play(func(*Config) {})
	require.Len(t, all.Requests, c.Facts.Turns)
	plain := play(func(c *Config) { c.Plain = true })
	require.Len(t, plain.Requests, len(all.Requests))
	for k, r := range all.Requests {
		assert.Equal(t, engine.Done, r.Status)
		assert.Equal(t, [2]int64{plain.Requests[k].Arrival, plain.Requests[k].Last}, [2]int64{r.Arrival, r.Last})
	}
	assert.Len(t, play(func(c *Config) { c.LimitRequests = 50 }).Requests, 50)
	assert.Len(t, play(func(c *Config) { c.LimitRequests = 500 }).Requests, 500, "trees are played again")
	traces := play(func(c *Config) { c.LimitTraces, c.Concurrency = 2, 2 })
	assert.Len(t, traces.Requests, len(cachetest.Plan(c, 0).Turns)+len(cachetest.Plan(c, 1).Turns))
	for _, k := range []int{20, 60, 100} {
		at := all.Requests[k].Arrival
		n := 0
		for _, r := range all.Requests {
			if r.Arrival <= at {
				n++
			}
		}
		assert.Len(t, play(func(c *Config) { c.MaxTime = time.Duration(at) }).Requests, n, "what is due at the bound leaves")
	}
	assert.Len(t, play(func(c *Config) { c.Concurrency = 17 }).Requests, len(all.Requests), "a lane without a tree")
	bounded := config
	bounded.Concurrency, bounded.LimitRequests, bounded.LimitTraces = 9, 50, 8
	require.ErrorContains(t, bounded.Validate(), "9 lanes, but 8 traces: within a bound of requests or time")
	small := play(func(c *Config) { c.Engine.Config.Blocks, c.Workers = 100, 1 })
	rejected := 0
	for _, r := range small.Requests {
		if r.Status == engine.Rejected {
			rejected++
		}
	}
	assert.Positive(t, rejected)
	assert.Less(t, len(small.Requests), len(all.Requests), "a session whose prompt fits no worker has ended")
}

// Under the switch lane-idle a tree that a lane plays rests as long as recorded, but where the command line says how long at most.
//
// Covers S-04.
func TestLanesRestAsRecorded(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	input, err := NewInput(c)
	require.NoError(t, err)
	ends := func(idle simpreset.Choice, set map[string]string) time.Duration {
		config := Default()
		config.Input, config.Concurrency, config.Workers = input, 4, 2
		short := preset.Seconds(0.1)
		switches, _ := preset.Named(preset.Default)
		switches.TreeIdleCap = &short
		config.Switches.LaneIdle, config.Lanes.Options.Switches, config.Lanes.Set = idle, &switches, set
		r, err := Run(context.Background(), config)
		require.NoError(t, err)
		return time.Duration(r.Duration)
	}
	capped := ends("capped", nil)
	require.Greater(t, ends(simpreset.IdleUncapped, nil), capped)
	require.Equal(t, capped, ends(simpreset.IdleUncapped, map[string]string{"tree-idle-cap": "100ms"}))
}
