package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
)

// tablesOf opens the tables of a dataset alone.
func tablesOf(t *testing.T, c *mmapcache.Cache) *mmapcache.Cache {
	tables, err := mmapcache.OpenTables(c.Root, c.Manifest.Key)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tables.Close()) })
	return tables
}

// A dataset of shards is the load that the dataset of one shard with the same traces is.
func TestShardsAreOneLoad(t *testing.T) {
	demo := cachetest.Demo(t)
	type loads struct {
		roots, mooncake *Sessions
		all, some       []Turn
		lanes           []leaving
	}
	of := func(c *mmapcache.Cache) (l loads) {
		c = tablesOf(t, c)
		var err error
		l.roots, err = Roots(c, 64, "64")
		require.NoError(t, err)
		l.mooncake, err = Timed(c, 64, preset.Width32)
		require.NoError(t, err)
		l.all, err = Recorded(c, 0, 64, "64")
		require.NoError(t, err)
		l.some, err = Recorded(c, 5, 48, "64")
		require.NoError(t, err)
		l.lanes = playLoad(t, lanesOf(t, c, 4, 64), int64(time.Second), nil)
		return l
	}
	require.Equal(t, of(demo), of(cachetest.Shards(t, demo, 0, 3, 3, 10, 16)))
}

// Damage of a shard is an error of a load that has its traces, and of no other.
func TestDamagedShardIsAnErrorOfTheLoad(t *testing.T) {
	shards := cachetest.Shards(t, cachetest.Demo(t), 3, 10, 16)
	file := cachetest.DamageShard(t, shards, 2)
	c := tablesOf(t, shards)
	_, err := Recorded(c, 10, 64, "64")
	require.NoError(t, err)
	_, err = Recorded(c, 11, 64, "64")
	require.ErrorContains(t, err, file)
	_, err = Roots(c, 64, "64")
	require.ErrorContains(t, err, file)
	_, err = Timed(c, 64, "64")
	require.ErrorContains(t, err, file)
	load, err := Lanes(LanesOptions{Replay: replay.Options{Cache: c, Concurrency: 2}, BlockSize: 64})
	require.NoError(t, err)
	turns := 0
	for now := int64(0); load.Left() > 0; now += int64(time.Minute) {
		for turn, ok := load.Release(now); ok; turn, ok = load.Release(now) {
			load.Completed(turn.ID, now)
			turns++
		}
	}
	require.Positive(t, turns)
	require.ErrorIs(t, load.Err(), mmapcache.ErrDamaged)
	require.ErrorContains(t, load.Err(), file)
}

// Blocks of another size are an error in whichever shard they are.
func TestShardWithOtherBlocks(t *testing.T) {
	c := cachetest.Prepare(t, cachetest.TraceLine("a", 64)+cachetest.TraceLine("b", 64)+cachetest.TraceLine("c", 64), "code")
	mixed := mmapcache.NewStructure()
	for k := range c.Traces() {
		p := cachetest.Plan(c, k)
		p.Trace.BlockSize = 64 + 64*uint32(k/2)
		require.NoError(t, mixed.Append(p))
	}
	reader, err := newPrompts(c, "64")
	require.NoError(t, err)
	require.NoError(t, reader.open(mixed.Plan(1)))
	require.ErrorContains(t, reader.open(mixed.Plan(2)), "trace c: blocks of 128 tokens, those before have 64")
}
