package replay

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/conductor"
)

// A dataset of shards is played as the dataset of one shard with the same traces.
func TestShardsPlayAsOne(t *testing.T) {
	demo, timed := cachetest.Demo(t), mooncake(t, 0, 1500, 1500, 4000, 90000)
	shards, timedShards := cachetest.Shards(t, demo, 0, 3, 3, 10, 16), cachetest.Shards(t, timed, 2, 5)
	for name, set := range map[string]func(*Options){
		"in order":        func(*Options) {},
		"shuffled":        func(o *Options) { o.Order = Shuffle },
		"trees":           func(o *Options) { o.Trees = 40; o.Order = Random; o.AllowWrap = true },
		"sampled":         func(o *Options) { o.Start = Start{Sampled: true} },
		"a small context": func(o *Options) { o.MaxContext = 20000 },
		"none fits":       func(o *Options) { o.MaxContext = 1 },
		"rate": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 0
		},
		"rate of requests": func(o *Options) { o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, PerRequest: true} },
		"no start":         func(o *Options) { o.Arrivals = Arrivals{Mode: RecordedArrivals} },
		"recorded": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RecordedArrivals}
			if o.Cache == demo {
				o.Cache = timed
			} else {
				o.Cache = timedShards
			}
		},
	} {
		said := func(c *mmapcache.Cache) (text string) {
			o := optionsFor(t, c, unreachable)
			o.Out, o.Preset, o.Switches, o.SkipPreflight, o.Pace = "", "", nil, false, Pace{}
			set(&o)
			estimate, err := EstimateDuration(o)
			text = fmt.Sprintln(estimate, err, o.CheckArrivals(), o.HasRecordedStarts())
			p, err := NewPlayer(Options{
				Cache: o.Cache, Concurrency: o.Concurrency, MaxContext: o.MaxContext, Order: o.Order, AllowWrap: o.AllowWrap, Start: o.Start,
				Arrivals: o.Arrivals, Trees: o.Trees,
			})
			if err != nil {
				return text + err.Error()
			}
			turns, at := playedOn(t, p, aSecond)
			return text + fmt.Sprintln(turns, at, p.Err())
		}
		require.Equal(t, said(demo), said(shards), name)
	}
}

// A run sends of a dataset of shards what it sends of one shard, and finds the same in common between the prompts.
func TestShardsAreSentAsOne(t *testing.T) {
	demo := cachetest.Demo(t)
	said := func(c *mmapcache.Cache) string {
		v, err := virtually(t, optionsFor(t, c, unreachable), second)
		require.NoError(t, err)
		require.Positive(t, v.results.info.Facts.Prompts.Reused)
		return fmt.Sprint(v.sent, *v.results.info.Facts.Prompts)
	}
	require.Equal(t, said(demo), said(cachetest.Shards(t, demo, 0, 3, 3, 10, 16)))
}

// Damage of a shard ends what needs it, with an error that names the file. It is no error of a run that plays other traces.
//
// Covers D-12.
func TestDamagedShardEndsTheRun(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	shards := cachetest.Shards(t, cachetest.Demo(t), 0, 3, 10, 16)
	file := cachetest.DamageShard(t, shards, 3)
	o := optionsFor(t, shards, url)
	o.Traces = 10
	s, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 10, s.Trees)

	for name, set := range map[string]func(*Options){
		"on the way":       func(o *Options) { o.Concurrency = 2 },
		"at the beginning": func(o *Options) { o.Concurrency = 16 },
		"arrivals": func(o *Options) {
			o.Arrivals, o.Pace = Arrivals{Mode: RateArrivals, Rate: 1000}, Pace{Speed: 1e6}
			o.Trees = 16
		},
		"arrivals at once": func(o *Options) {
			o.Arrivals, o.Pace = Arrivals{Mode: RateArrivals, Rate: 1000}, Pace{Speed: 1e6}
			o.Order, o.Trees = Shuffle, 16
		},
		"context": func(o *Options) { o.MaxContext = math.MaxInt32 },
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, cachetest.Open(t, shards.Root, shards.Manifest.Key), url)
			set(&o)
			_, err := Run(context.Background(), o)
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			require.ErrorContains(t, err, file)
			if name == "at the beginning" || name == "context" {
				require.NoDirExists(t, o.Out)
			}
			_, err = EstimateDuration(o)
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			p, err := NewPlayer(Options{Cache: o.Cache, Concurrency: o.Concurrency, MaxContext: o.MaxContext})
			if err == nil {
				for now := time.Duration(0); !p.Done(); now += time.Second {
					for u, ok := p.Take(now); ok; u, ok = p.Take(now) {
						require.NoError(t, p.Returned(u.ID, now, conductor.OK))
					}
				}
				err = p.Err()
			}
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			require.ErrorContains(t, err, file)
		})
	}
}
