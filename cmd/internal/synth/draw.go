package synth

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
)

// draws is the chance of one trace. It computes with sums, products and square roots alone, which are the same on every machine.
type draws struct{ source *rand.ChaCha8 }

func newDraws(seed, trace uint64) *draws {
	var key [32]byte
	copy(key[:], "agentx synth 1")
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], trace)
	return &draws{rand.NewChaCha8(key)}
}

// share returns a number from 0 to below 1.
func (d *draws) share() float64 { return float64(d.source.Uint64()>>11) * 0x1p-53 }

// chance reports true with a probability.
func (d *draws) chance(p float64) bool { return d.share() < p }

// below returns a whole number from 0 to below n.
func (d *draws) below(n int) int { return min(int(d.share()*float64(n)), n-1) }

// near returns a factor from 0.8 to below 1.2.
func (d *draws) near() float64 { return 0.8 + float64(0.4*d.share()) }

// number draws from a distribution.
func (d *draws) number(c curve) float64 { return c.at(d.share()) }

// whole draws a whole number from a distribution.
func (d *draws) whole(c curve) int { return rounded(d.number(c)) }

// one draws an element of a list by its share.
func one[T any](d *draws, list []weighted[T]) T {
	rest := d.share()
	for _, e := range list {
		if rest -= e.share; rest < 0 {
			return e.value
		}
	}
	return list[len(list)-1].value
}

// weighted is a value and which share of draws gives it. Shares of a list add up to 1.
type weighted[T any] struct {
	value T
	share float64
}

func rounded(x float64) int { return int(math.Floor(x + 0.5)) }

// curve is a distribution: the values at ascending shares, from 0 to 1, with straight lines between.
type curve []quantile

// quantile says below which value a share of all values lies.
type quantile struct{ share, value float64 }

// bend makes a distribution of quantiles. Between two of them values grow by equal factors, as those of long tails do: each
// stretch is halved at its geometric mean, three times.
func bend(points ...quantile) curve {
	c := curve(points)
	for range 3 {
		finer := curve{c[0]}
		for k := 1; k < len(c); k++ {
			lo, hi := c[k-1], c[k]
			middle := (lo.value + hi.value) / 2
			if lo.value > 0 {
				middle = math.Sqrt(lo.value * hi.value)
			}
			finer = append(finer, quantile{(lo.share + hi.share) / 2, middle}, hi)
		}
		c = finer
	}
	return c
}

// at returns the value below which a share of all values lies.
func (c curve) at(share float64) float64 {
	k := sort.Search(len(c)-1, func(k int) bool { return c[k+1].share > share })
	k = min(k, len(c)-2)
	lo, hi := c[k], c[k+1]
	return lo.value + float64((hi.value-lo.value)*((share-lo.share)/(hi.share-lo.share)))
}
