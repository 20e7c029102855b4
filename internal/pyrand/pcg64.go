package pyrand

import "math/bits"

// PCG64 is numpy's default_rng: PCG64 (XSL-RR 128/64) seeded by SeedSequence. doc/spec/replay.md 2.3.
//
// It is not safe for concurrent use.
type PCG64 struct {
	state, increment u128
	half             uint32 // the high half that Uint32 has kept
	hasHalf          bool
}

// NewPCG64 returns numpy.random.default_rng(seed).
func NewPCG64(seed uint64) *PCG64 {
	// numpy passes one word for a seed below 2^32, two for others. SeedSequence mixes a missing word as zero, so passing
	// both gives the same state.
	words := expand(mixEntropy([4]uint32{uint32(seed), uint32(seed >> 32)}))
	pair := func(k int) uint64 { return uint64(words[k+1])<<32 | uint64(words[k]) }
	g := &PCG64{increment: u128{pair(4)<<1 | pair(6)>>63, pair(6)<<1 | 1}}
	g.step()
	g.state = g.state.plus(u128{pair(0), pair(2)})
	g.step()
	return g
}

func (g *PCG64) step() { g.state = g.state.times(pcgMultiplier).plus(g.increment) }

// Uint64 returns the next 64 random bits.
func (g *PCG64) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// uint32 returns 32 random bits: the low half of a 64-bit output, on the next call its high half. Float64 and Uint64 called
// in between leave the kept half in place.
func (g *PCG64) uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	word := g.Uint64()
	g.half, g.hasHalf = uint32(word>>32), true
	return uint32(word)
}

// Float64 returns a number in [0, 1), as numpy's random().
func (g *PCG64) Float64() float64 { return float64(g.Uint64()>>11) * 0x1p-53 }

// Uniform returns a number in [lo, hi), as numpy's uniform(lo, hi). The conversion keeps the compiler from fusing product
// and sum, which would change the last bit on some machines.
func (g *PCG64) Uniform(lo, hi float64) float64 { return lo + float64((hi-lo)*g.Float64()) }

// Bounded returns a number in [0, n), as numpy's integers(n) with n <= 2^32: Lemire's method with rejection on 32-bit draws.
// For n of 0 and 1 it returns 0 and draws nothing.
func (g *PCG64) Bounded(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	product := uint64(g.uint32()) * uint64(n)
	if uint32(product) < n {
		// -n%n is 2^32 mod n. Products with a low half below it are rejected, so that all results are equally likely.
		for excess := -n % n; uint32(product) < excess; {
			product = uint64(g.uint32()) * uint64(n)
		}
	}
	return uint32(product >> 32)
}

// pcgMultiplier is the multiplier of PCG64's 128-bit linear congruential generator.
var pcgMultiplier = u128{0x2360ed051fc65da4, 0x4385df649fccf645}

// u128 is an unsigned integer modulo 2^128.
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
