package synth

import (
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// A trace drawn from a cache of one has its requests, in order, on the same lanes; prompts that shared blocks share some, and
// others none; lengths and intervals differ by a fifth at most. But it is not the same.
func TestResampledTraceKeepsWhatIsShared(t *testing.T) {
	o := Options{Seed: 3}
	for _, k := range append(familiesOf(o, 3), 0, 1, 2) {
		from := recordingOf(&o, k)
		from.ID = "donor"
		donor := cacheOf(t, string(from.AppendJSON(nil)), rules.Default())
		again := recordingOf(&Options{Seed: 9, From: donor}, 0)
		a, b := requestsOf(from), requestsOf(again)
		require.Len(t, b, len(a))
		differ := false
		for i := range a {
			lo, hi := float64(a[i].IDs.Len), float64(a[i].IDs.Len)
			slack := float64(len(a[i].IDs.Runs)+i+2) / 2 // of rounding, for each stretch
			assert.GreaterOrEqual(t, float64(b[i].IDs.Len), 0.8*lo-slack)
			assert.LessOrEqual(t, float64(b[i].IDs.Len), 1.2*hi+slack)
			assert.Equal(t, b[i].IDs.Len, b[i].In/blockSize)
			assert.InDelta(t, a[i].Out, b[i].Out, 0.2*float64(a[i].Out)+1)
			assert.Equal(t, a[i].Model, b[i].Model)
			assert.InDelta(t, float64(a[i].APITime), float64(b[i].APITime), 0.2*float64(a[i].APITime)+float64(len(a)))
			differ = differ || a[i].IDs.Len != b[i].IDs.Len
			if i > 0 {
				requireSameOrder(t, a, b, i)
			}
		}
		require.True(t, differ)
	}
}

// requireSameOrder compares request i of two traces with the request before it.
func requireSameOrder(t *testing.T, a, b []*weka.RecordedRequest, i int) {
	t.Helper()
	was, is := sharedBlocks(a[i-1].IDs, a[i].IDs), sharedBlocks(b[i-1].IDs, b[i].IDs)
	require.Equal(t, was == 0, is == 0)
	require.Equal(t, was == a[i-1].IDs.Len, is == b[i-1].IDs.Len, "goes on from the whole prompt")
	require.Equal(t, was == a[i].IDs.Len, is == b[i].IDs.Len)
	require.Equal(t, a[i].T < a[i-1].T+a[i-1].APITime, b[i].T < b[i-1].T+b[i-1].APITime, "begins before the answer has ended")
}

// requestsOf lists the requests of a trace in the order of the file.
func requestsOf(r *weka.Recording) (list []*weka.RecordedRequest) {
	for k := range r.Entries {
		e := &r.Entries[k]
		if e.Subagent == nil {
			list = append(list, &e.RecordedRequest)
			continue
		}
		for k := range e.Subagent.Requests {
			list = append(list, &e.Subagent.Requests[k])
		}
	}
	return list
}

// Two prompts, of blocks 0 to 9 and of 0 to 3 and 10 to 12, are three stretches: one shared, two not. A block that follows
// another one than at first is a block of its own.
func TestStretches(t *testing.T) {
	tr := newTree(13)
	walk := func(blocks ...int32) (node int32) {
		for _, b := range blocks {
			node = tr.child(node, b)
		}
		tr.ends[node] = true
		return node
	}
	long := walk(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	other := walk(0, 1, 2, 3, 10, 11, 12)
	require.Equal(t, long, walk(0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	moved := walk(0, 9)
	require.Equal(t, moved, walk(0, 9))
	require.NotEqual(t, long, moved)
	s := &resample{draws: newDraws(1, 1), tree: tr}
	s.stretch()
	require.Equal(t, 5, len(tr.stretches)) // block 0, 1 to 3, 4 to 9, 10 to 12, and 9 behind 0
	a, b := tr.prompt(long), tr.prompt(other)
	require.Equal(t, a.Runs[:2], b.Runs[:2])
	require.Len(t, a.Runs, 3)
	require.NotEqual(t, a.Runs[2], b.Runs[2])
	require.Equal(t, tr.blocks(), func() (n int) {
		for _, p := range tr.stretches {
			n += p.blocks
		}
		return n
	}())
}

// Quantiles of a distribution are those that it was made of, and between them values rise.
func TestCurves(t *testing.T) {
	c := &curve{points: []quantile{{0, 0}, {0.1, 1}, {0.5, 16}, {1, 256}}}
	for share, want := range map[float64]float64{0: 0, 0.05: 0.5, 0.1: 1, 0.3: 4, 0.5: 16, 0.75: 64} {
		assert.InDelta(t, want, c.at(share), 1e-9, "%v", share)
	}
	assert.InDelta(t, 256, c.at(math.Nextafter(1, 0)), 1e-9)
	var list []float64
	for k := range 1000 {
		list = append(list, c.at(float64(k)/1000))
	}
	assert.True(t, slices.IsSorted(list))
}

// A dataset of shards gives the traces that the dataset of one shard with the same traces gives. Damage of a shard is an error.
func TestResampleShards(t *testing.T) {
	t.Cleanup(cachetest.RemoveRoot)
	demo := cachetest.Demo(t)
	shards := cachetest.Shards(t, demo, 0, 3, 3, 10, 16)
	o := Options{Traces: 30, Seed: 1, From: demo}
	want := text(t, o)
	o.From = shards
	require.True(t, want == text(t, o))
	file := cachetest.DamageShard(t, shards, 3)
	o.From = cachetest.Open(t, shards.Root, shards.Manifest.Key)
	for _, workers := range []int{1, 4} {
		o.Workers = workers
		_, err := Write(t.Context(), io.Discard, o)
		require.ErrorIs(t, err, mmapcache.ErrDamaged)
		require.ErrorContains(t, err, file)
	}
}
