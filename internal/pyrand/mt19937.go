package pyrand

import "math/bits"

// MT19937x4 is four generators of CPython's random.Random side by side: Mersenne Twisters, each with a 64-bit seed of its
// own. Seed starts all four; Below then draws from one of them, numbered 0 to 3. It is not safe for concurrent use.
//
// Seeding is one chain of 2 x 624 dependent multiplications, and a caller that seeds a generator per number needs only the
// first few outputs. Four chains at once cost little more than one (1.0 us a seed instead of 4.8), and outputs are computed
// when they are drawn, without the renewal of the whole state.
type MT19937x4 struct {
	state [mtN][4]uint32
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

// Seed seeds the four generators, each as random.Random(seed) does: init_by_array with the 32-bit words of the seed, the low
// word first, without a high word of 0.
func (m *MT19937x4) Seed(seeds *[4]uint64) {
	var key [2][4]uint32 // what is added at even and odd steps
	for g, seed := range seeds {
		low, high := uint32(seed), uint32(seed>>32)
		key[0][g] = low
		if key[1][g] = high + 1; high == 0 { // a key of one word
			key[1][g] = low
		}
	}
	s := &m.state
	a, b, c, d := mtInit[0], mtInit[0], mtInit[0], mtInit[0]
	for i := 1; i < mtN; i++ {
		k, v := &key[(i-1)&1], mtInit[i]
		a = (v ^ (a^a>>30)*1664525) + k[0]
		b = (v ^ (b^b>>30)*1664525) + k[1]
		c = (v ^ (c^c>>30)*1664525) + k[2]
		d = (v ^ (d^d>>30)*1664525) + k[3]
		s[i] = [4]uint32{a, b, c, d}
	}
	k := &key[1] // step 624 wraps around: from word 623 to word 1
	a = (s[1][0] ^ (a^a>>30)*1664525) + k[0]
	b = (s[1][1] ^ (b^b>>30)*1664525) + k[1]
	c = (s[1][2] ^ (c^c>>30)*1664525) + k[2]
	d = (s[1][3] ^ (d^d>>30)*1664525) + k[3]
	s[1] = [4]uint32{a, b, c, d}
	for i := 2; i < mtN; i++ {
		v, n := &s[i], uint32(i)
		a = (v[0] ^ (a^a>>30)*1566083941) - n
		b = (v[1] ^ (b^b>>30)*1566083941) - n
		c = (v[2] ^ (c^c>>30)*1566083941) - n
		d = (v[3] ^ (d^d>>30)*1566083941) - n
		s[i] = [4]uint32{a, b, c, d}
	}
	v := &s[1]
	v[0] = (v[0] ^ (a^a>>30)*1566083941) - 1
	v[1] = (v[1] ^ (b^b>>30)*1566083941) - 1
	v[2] = (v[2] ^ (c^c>>30)*1566083941) - 1
	v[3] = (v[3] ^ (d^d>>30)*1566083941) - 1
	s[0] = [4]uint32{0x80000000, 0x80000000, 0x80000000, 0x80000000}
}

// output returns output number k of generator g, k < mtOutputs.
func (m *MT19937x4) output(g, k int) uint32 {
	s := &m.state
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
func (m *MT19937x4) Below(g int, n uint32) uint32 {
	shift := 32 - bits.Len32(n)
	for k := range mtOutputs {
		if r := m.output(g, k) >> shift; r < n {
			return r
		}
	}
	panic("pyrand: 227 draws in a row out of range")
}
