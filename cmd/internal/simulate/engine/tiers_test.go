package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Runs of blocks hold and drop what a list of them does, whatever comes, leaves and is asked for.
//
// Covers S-37.
func TestSpansAreAPlainTier(t *testing.T) {
	dropped, held := 0, 0
	for seed := range uint64(300) {
		draw := rand.New(rand.NewPCG(seed, 7))
		size, keeps := int64(1+draw.IntN(200)), seed%2 == 0
		plain, fast := &plainTier{blocks: size, keeps: keeps}, newSpans(size, keeps)
		for range 200 {
			r := Run{uint32(draw.IntN(300)), uint32(1 + draw.IntN(70))}
			var a, b []uint32
			note := func(list *[]uint32) func(Run) {
				return func(r Run) {
					for c := r.First + r.Count; c > r.First; c-- {
						*list = append(*list, c-1)
					}
				}
			}
			switch draw.IntN(3) {
			case 0:
				plain.remove(r)
				fast.remove(r)
			case 1:
				require.Equal(t, plain.leading(r.First, r.Count), fast.leading(r.First, r.Count), "seed %d", seed)
				held += int(plain.leading(r.First, r.Count))
			default:
				plain.put(r, note(&a))
				fast.put(r, note(&b))
				require.Equal(t, a, b, "seed %d", seed)
				dropped += len(a)
			}
			require.Equal(t, int64(len(plain.list)), fast.held, "seed %d", seed)
		}
	}
	require.Greater(t, dropped, 100_000)
	require.Greater(t, held, 10_000)
}

// serve plays requests one after another on a worker of so many blocks, with tiers that load 1 GB/s of 1 MB a token.
func serve(blocks int, plain bool, tiers []Tier, list ...*Request) *Worker {
	c := Default()
	c.Blocks, c.KVBytesPerToken, c.Tiers = blocks, 1e6, tiers
	switches, _ := preset.Named(preset.Default)
	w := New(Options{Config: c, Timing: NewTiming(c, nil), Switches: switches, Plain: plain})
	now := int64(0)
	for _, r := range list {
		w.Submit(now, r, false)
		for w.HasWork() {
			if !w.Ready(now) {
				now = w.Wake()
			}
			w.Start(now)
			now = w.End()
			w.Finish()
		}
	}
	return w
}

// prompt200 returns a prompt of three full blocks and a part, with one token of output.
func prompt200(first uint32) *Request {
	return &Request{Prompt: 200, Output: 1, Chain: []Run{{first, 3}}}
}

// A prompt that others have evicted is loaded before it is scheduled, from the tiers that have it, each at its own speed.
//
// Covers S-38.
func TestALoadTakesTheTimeOfItsLink(t *testing.T) {
	host := Tier{Name: "host", Size: "100", GBPerS: 1}
	for _, plain := range []bool{false, true} {
		a, b, again := prompt200(0), prompt200(10), prompt200(0)
		w := serve(4, plain, []Tier{host}, a, b, again)
		require.Equal(t, []any{int64(192e6), 192, 192, 1}, []any{again.LoadWait, again.Loaded, again.Reused, again.Admissions})
		require.Equal(t, b.Last+192e6, again.Admitted)
		require.Equal(t, []uint32{0, 3}, []uint32{w.used.below.list[0].leading(0, 3), w.used.below.list[0].leading(10, 3)}, "what is visible in the pool leaves the tier")
		require.Equal(t, []TierCounts{{"host", 100, 192, 192, 192e6}}, w.Counts().Tiers)

		kept := host
		kept.Policy = tierFIFO
		w = serve(4, plain, []Tier{kept}, prompt200(0), prompt200(10), prompt200(0))
		require.Equal(t, uint32(3), w.used.below.list[0].leading(0, 3), "first in, first out: it stays")

		// Two blocks of host hold the beginning, one of disk the end: both links work at a time.
		again = prompt200(0)
		w = serve(4, plain, []Tier{{Name: "host", Size: "2", GBPerS: 1}, {Name: "disk", Size: "128tok", GBPerS: 0.1}}, prompt200(0), prompt200(10), again)
		require.Equal(t, []any{int64(640e6), 192}, []any{again.LoadWait, again.Loaded})
		require.Equal(t, []TierCounts{{"host", 2, 128, 128, 128e6}, {"disk", 2, 64, 64, 640e6}}, w.Counts().Tiers)
	}
}

// While a prompt is loaded, those behind it run; loads of one tier follow one another, and a stretch ends where one comes.
//
// Covers S-38.
func TestOthersRunWhileAPromptIsLoaded(t *testing.T) {
	for _, plain := range []bool{false, true} {
		c := Default()
		c.Blocks, c.KVBytesPerToken, c.Tiers = 12, 1e6, []Tier{{Name: "host", Size: "100", GBPerS: 1}}
		switches, _ := preset.Named(preset.Default)
		w := New(Options{Config: c, Timing: NewTiming(c, nil), Switches: switches, Plain: plain})
		w.used.below.put(0, Run{0, 3})
		w.used.below.put(0, Run{10, 3})
		a, b := prompt200(0), prompt200(10)
		other := &Request{Prompt: 64, Output: 100, Chain: []Run{{20, 1}}}
		for _, r := range []*Request{a, b, other} {
			w.Submit(0, r, false)
		}
		for now := int64(0); w.HasWork(); now = w.End() {
			w.Start(now)
			w.Finish()
		}
		require.Equal(t, []int64{192e6, 384e6, 0}, []int64{a.LoadWait, b.LoadWait, other.LoadWait})
		require.Zero(t, other.Admitted)
		for _, r := range []*Request{a, b} {
			require.Greater(t, r.Admitted, r.LoadWait)
			require.Less(t, r.Admitted-r.LoadWait, int64(10e6), "it enters with the next pass")
		}
	}
}
