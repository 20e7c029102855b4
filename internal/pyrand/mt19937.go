package pyrand

import "math/bits"

// Lanes is how many generators a Twisters has.
const Lanes = 32

// Twisters is 32 generators of CPython's random.Random side by side: Mersenne Twisters, each with a 64-bit seed of its own.
// Seed starts all of them; Below then draws from one, numbered from 0. It is not safe for concurrent use.
//
// Seeding is one chain of 2 x 624 dependent multiplications, and a caller that seeds a generator per number needs only the
// first few outputs. So many chains advance at once, and outputs are computed when they are drawn, without the renewal of the
// whole state. One chain alone takes 4.8 us a seed, seedPlain 1.0, and seedAVX2 0.2.
type Twisters struct {
	state [Lanes / 8][mtN][8]uint32
}

const (
	mtN = 624
	mtM = 397

	// mtOutputs is how many outputs need nothing but the seeded state.
	mtOutputs = mtN - mtM
)

// mtInit is the state that init_by_array starts from, the same for every seed.
var mtInit = func() (s [mtN]uint32) {
	s[0] = 19650218
	for i := 1; i < mtN; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	return s
}()

// mtKeys is what init_by_array adds at odd and even steps, per generator.
type mtKeys [2][Lanes / 8][8]uint32

// Seed seeds the generators, each as random.Random(seed) does: init_by_array with the 32-bit words of the seed, the low word
// first, without a high word of 0.
func (m *Twisters) Seed(seeds *[Lanes]uint64) {
	keys := keysOf(seeds)
	if hasAVX2 {
		seedAVX2(&m.state, &mtInit, &keys)
		return
	}
	m.seedPlain(&keys)
}

func keysOf(seeds *[Lanes]uint64) (keys mtKeys) {
	for g, seed := range seeds {
		low, high := uint32(seed), uint32(seed>>32)
		keys[0][g/8][g%8] = low
		if keys[1][g/8][g%8] = high + 1; high == 0 { // a key of one word
			keys[1][g/8][g%8] = low
		}
	}
	return keys
}

// seedPlain seeds four generators at a time, whose chains the registers hold. It is the oracle of seedAVX2.
func (m *Twisters) seedPlain(keys *mtKeys) {
	for g := 0; g < Lanes; g += 4 {
		seedFour(&m.state[g/8], g%8, (*[4]uint32)(keys[0][g/8][g%8:]), (*[4]uint32)(keys[1][g/8][g%8:]))
	}
}

// seedFour seeds the generators g to g+3 of eight.
func seedFour(s *[mtN][8]uint32, g int, odd, even *[4]uint32) {
	a, b, c, d := mtInit[0], mtInit[0], mtInit[0], mtInit[0]
	for i := 1; i < mtN; i++ {
		k, v := odd, mtInit[i]
		if i&1 == 0 {
			k = even
		}
		a = (v ^ (a^a>>30)*1664525) + k[0]
		b = (v ^ (b^b>>30)*1664525) + k[1]
		c = (v ^ (c^c>>30)*1664525) + k[2]
		d = (v ^ (d^d>>30)*1664525) + k[3]
		*(*[4]uint32)(s[i][g:]) = [4]uint32{a, b, c, d}
	}
	v := (*[4]uint32)(s[1][g:]) // step 624 wraps around: from word 623 to word 1
	a = (v[0] ^ (a^a>>30)*1664525) + even[0]
	b = (v[1] ^ (b^b>>30)*1664525) + even[1]
	c = (v[2] ^ (c^c>>30)*1664525) + even[2]
	d = (v[3] ^ (d^d>>30)*1664525) + even[3]
	*v = [4]uint32{a, b, c, d}
	for n := uint32(2); n <= mtN; n++ {
		i := n
		if n == mtN {
			i = 1
		}
		v = (*[4]uint32)(s[i][g:])
		a = (v[0] ^ (a^a>>30)*1566083941) - i
		b = (v[1] ^ (b^b>>30)*1566083941) - i
		c = (v[2] ^ (c^c>>30)*1566083941) - i
		d = (v[3] ^ (d^d>>30)*1566083941) - i
		*v = [4]uint32{a, b, c, d}
	}
	*(*[4]uint32)(s[0][g:]) = [4]uint32{0x80000000, 0x80000000, 0x80000000, 0x80000000}
}

// output returns output number k of generator g, k < mtOutputs.
func (m *Twisters) output(g, k int) uint32 {
	s, g := &m.state[g/8], g%8
	y := s[k][g]&0x80000000 | s[k+1][g]&0x7fffffff
	v := s[k+mtM][g] ^ y>>1
	if y&1 != 0 {
		v ^= 0x9908b0df
	}
	v ^= v >> 11
	v ^= v << 7 & 0x9d2c5680
	v ^= v << 15 & 0xefc60000
	return v ^ v>>18
}

// Below returns the first number in [0, n) that generator g draws after Seed, as CPython's randrange(n): of each output it
// takes as many top bits as n has, until the result is less than n. That takes fewer than two outputs on average. It panics
// when all 227 outputs are too large, which happens for fewer than one seed in 2^226.
func (m *Twisters) Below(g int, n uint32) uint32 {
	shift := 32 - bits.Len32(n)
	for k := range mtOutputs {
		if r := m.output(g, k) >> shift; r < n {
			return r
		}
	}
	panic("pyrand: 227 draws in a row out of range")
}
