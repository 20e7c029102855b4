package start

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"
)

// LaneSeed returns the seed of a lane that plays a trace: section 2.3 of the specification of the replay. base is the
// operator's seed in decimal. It depends on nothing else, so what other lanes play cannot move this one.
func LaneSeed(base, trace string, lane int) uint64 {
	return hashSeed(base + ":" + trace + ":" + strconv.Itoa(lane))
}

// TraceSeed is LaneSeed as the generation G2 has it for lanes with a trace of their own: without the lane.
func TraceSeed(base, trace string) uint64 {
	return hashSeed(base + ":" + trace)
}

func hashSeed(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

// Generator gives the random numbers of numpy's default_rng, bit for bit: PCG64 (XSL-RR 128/64) seeded by SeedSequence.
// Section 2.3 of the specification of the replay.
type Generator struct {
	state, increment u128
	half             uint32 // high half of the last word that Uint32 cut
	kept             bool   // half is still to be given
}

// NewGenerator returns the generator of a seed.
func NewGenerator(seed uint64) *Generator {
	// numpy feeds as few words as the seed fits in. A missing word is mixed like a zero, so the count does not show.
	words := expand(mixEntropy([4]uint32{uint32(seed), uint32(seed >> 32)}))
	pair := func(k int) uint64 { return uint64(words[k+1])<<32 | uint64(words[k]) }
	g := &Generator{increment: u128{pair(4)<<1 | pair(6)>>63, pair(6)<<1 | 1}}
	g.step()
	g.state = g.state.plus(u128{pair(0), pair(2)})
	g.step()
	return g
}

func (g *Generator) step() { g.state = g.state.times(pcgMultiplier).plus(g.increment) }

// Uint64 returns the next 64 bits.
func (g *Generator) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// Uint32 returns 32 bits: the low half of a new word, then its high half. The high half is kept while other numbers
// are drawn.
func (g *Generator) Uint32() uint32 {
	if g.kept {
		g.kept = false
		return g.half
	}
	word := g.Uint64()
	g.half, g.kept = uint32(word>>32), true
	return uint32(word)
}

// Float64 returns a number from 0 up to 1, 1 left out.
func (g *Generator) Float64() float64 { return float64(g.Uint64()>>11) * 0x1p-53 }

// Uniform returns a number from lo up to hi. The conversion keeps the compiler from fusing product and sum, which would
// change the last bit on some machines.
func (g *Generator) Uniform(lo, hi float64) float64 { return lo + float64((hi-lo)*g.Float64()) }

// Bounded returns a number below n, by Lemire's method. Below 1 and below 0 there is nothing to draw: 0.
func (g *Generator) Bounded(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	product := uint64(g.Uint32()) * uint64(n)
	if uint32(product) < n {
		// -n%n is 2^32 mod n: so many of the low halves are one too many for some results.
		for excess := -n % n; uint32(product) < excess; {
			product = uint64(g.Uint32()) * uint64(n)
		}
	}
	return uint32(product >> 32)
}

// pcgMultiplier is that of the 128-bit linear congruential generator in PCG64.
var pcgMultiplier = u128{0x2360ed051fc65da4, 0x4385df649fccf645}

// u128 is a number modulo 2^128.
type u128 struct{ hi, lo uint64 }

func (a u128) plus(b u128) u128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return u128{hi, lo}
}

func (a u128) times(b u128) u128 {
	hi, lo := bits.Mul64(a.lo, b.lo)
	return u128{hi + a.hi*b.lo + a.lo*b.hi, lo}
}

// mixEntropy is the first half of numpy's SeedSequence: up to four words of entropy to the pool.
func mixEntropy(pool [4]uint32) [4]uint32 {
	factor := uint32(0x43b0d7e5)
	hash := func(v uint32) uint32 {
		v ^= factor
		factor *= 0x931e8875
		v *= factor
		return v ^ v>>16
	}
	for k := range pool {
		pool[k] = hash(pool[k])
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := 0xca01f9dd*pool[to] - 0x4973f715*hash(pool[from])
				pool[to] = v ^ v>>16
			}
		}
	}
	return pool
}

// expand is the second half of SeedSequence: the pool to words of state, the low half of each pair first.
func expand(pool [4]uint32) (words [8]uint32) {
	factor := uint32(0x8b51f9dd)
	for k := range words {
		v := pool[k%len(pool)] ^ factor
		factor *= 0x58f38ded
		v *= factor
		words[k] = v ^ v>>16
	}
	return words
}
