// Package pyrand reproduces the random numbers of Python programs bit for bit: those of numpy's default_rng (PCG64) and
// of CPython's random.Random (Mersenne Twister).
//
// AIPerf places prompts and starts of lanes with these generators. A cache or a replay that is to be compared with AIPerf
// needs the same numbers, which no generator of Go's standard library gives.
//
//	g := pyrand.NewPCG64(42)     // numpy.random.default_rng(42)
//	x := g.Float64()             // .random()
//	n := g.Bounded(6)            // .integers(6)
//	e := g.Exponential()         // .standard_exponential()
//	s := g.Gamma(0.5)            // .standard_gamma(0.5)
//
// The tests hold both against vectors that numpy and CPython computed. Exponential, Normal and Gamma equal numpy's on x86-64 Linux
// with fused multiply-add. Elsewhere the C library may give numpy another last bit.
package pyrand

import (
	_ "embed"
	"encoding/binary"
	"math"
	"math/bits"
)

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

// mixEntropy mixes four words of entropy into the pool of numpy's SeedSequence.
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

// expand turns SeedSequence's pool into eight words of state, as generate_state does. Each pair of words makes a 64-bit
// number, its low half first.
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

// Exponential returns a number of the exponential law with mean 1, as numpy's standard_exponential().
func (g *PCG64) Exponential() float64 {
	for {
		word := g.Uint64() >> 3
		strip := int(word & 0xff)
		word >>= 8
		x := float64(word) * exponential.scale[strip]
		switch {
		case word < exponential.inside[strip]: // 98.9 % of the draws
			return x
		case strip == 0:
			return exponentialTail - math.Log1p(-g.Float64())
		case exponential.under(g, strip, math.Exp(-x)):
			return x
		}
	}
}

// normal returns a number of the normal law with mean 0 and variance 1, as numpy's standard_normal().
func (g *PCG64) normal() float64 {
	for {
		word := g.Uint64()
		strip, negative := int(word&0xff), word>>8&1 != 0
		word = word >> 9 & (1<<52 - 1)
		x := float64(word) * normal.scale[strip]
		if negative {
			x = -x
		}
		switch {
		case word < normal.inside[strip]: // 99.3 % of the draws
			return x
		case strip == 0:
			return g.normalTail(word>>8&1 != 0)
		case normal.under(g, strip, math.Exp(-0.5*x*x)):
			return x
		}
	}
}

// normalTail returns a number of the normal law beyond the first strip.
func (g *PCG64) normalTail(negative bool) float64 {
	for {
		x := float64(-normalTailInverse * math.Log1p(-g.Float64()))
		y := -math.Log1p(-g.Float64())
		if y+y > x*x {
			if negative {
				return -(normalTail + x)
			}
			return normalTail + x
		}
	}
}

// Gamma returns a number of the gamma law with a shape above 0 and scale 1, as numpy's standard_gamma(shape).
func (g *PCG64) Gamma(shape float64) float64 {
	switch {
	case shape == 1:
		return g.Exponential()
	case shape < 1:
		return g.smallGamma(shape)
	}
	b := shape - 1./3
	c := 1 / math.Sqrt(9*b)
	for {
		x := g.normal()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := g.Float64()
		if u < 1-float64(0.0331*(x*x)*(x*x)) || math.Log(u) < float64(0.5*x*x)+float64(b*(1-v+math.Log(v))) {
			return b * v
		}
	}
}

// smallGamma is Gamma for a shape below 1.
func (g *PCG64) smallGamma(shape float64) float64 {
	for {
		u, v := g.Float64(), g.Exponential()
		if u <= 1-shape {
			if x := libmPow(u, 1/shape); x <= v {
				return x
			}
			continue
		}
		y := -libmLog((1 - u) / shape)
		if x := libmPow(1-shape+float64(shape*y), 1/shape); x <= v+y {
			return x
		}
	}
}

// InvertedExponential draws from the exponential distribution of mean 1 as -log(1-u), from one draw u.
func (g *PCG64) InvertedExponential() float64 { return -libmLog(1 - g.Float64()) }

// ziggurat has the strips of one distribution. A draw picks a strip and a point of its base, rabs in units of scale: below
// inside[strip] the point lies under the curve whatever its height.
type ziggurat struct {
	inside [256]uint64  // ke, ki
	scale  [256]float64 // we, wi
	height [256]float64 // fe, fi: the curve at the right end of the strip
}

// zigguratTables has the six tables of ziggurat_constants.h in numpy 2.4.6 (ke, we, fe, ki, wi, fi), as little-endian 64-bit
// words. They are data: numpy computed them once, with roundings that the formulas of Marsaglia and Tsang do not give.
//
//go:embed ziggurat.bin
var zigguratTables []byte

var exponential, normal = readZiggurat(zigguratTables), readZiggurat(zigguratTables[3*256*8:])

func readZiggurat(words []byte) *ziggurat {
	z := &ziggurat{}
	word := func(table, k int) uint64 { return binary.LittleEndian.Uint64(words[8*(256*table+k):]) }
	for k := range 256 {
		z.inside[k], z.scale[k], z.height[k] = word(0, k), math.Float64frombits(word(1, k)), math.Float64frombits(word(2, k))
	}
	return z
}

// under reports whether a point of a strip that is not the first lies under the curve, whose height there is curve. It draws
// the height of the point.
func (z *ziggurat) under(g *PCG64, strip int, curve float64) bool {
	return float64((z.height[strip-1]-z.height[strip])*g.Float64())+z.height[strip] < curve
}

// The points at which the first strips end and the tails begin.
const (
	exponentialTail   = 7.6971174701310497140446280481
	normalTail        = 3.6541528853610087963519472518
	normalTailInverse = 0.27366123732975827203338247596
)
