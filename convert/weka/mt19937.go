package weka

import "math/bits"

// mt19937x4 is four Mersenne Twisters side by side, as CPython's random.Random uses them: seeded by init_by_array with
// the 32-bit words of a 64-bit seed, least significant first. No generator of the standard library gives its numbers.
//
// Seeding is one long chain of dependent multiplications, 624 x 2 steps, and all that a block needs is the first few
// outputs. Four chains at once take little longer than one (1.0 against 4.8 us for each seed), and outputs are
// computed when they are drawn, without renewing the whole state.
type mt19937x4 struct {
	state [mtN][4]uint32
}

const (
	mtN = 624
	mtM = 397

	// mtOutputs is how many outputs can be computed from the seeded state alone.
	mtOutputs = mtN - mtM
)

// mtInit is the state that init_by_array starts from: the same for every seed.
var mtInit = func() (s [mtN]uint32) {
	s[0] = 19650218
	for i := 1; i < mtN; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	return s
}()

// seed seeds the four generators.
func (m *mt19937x4) seed(seeds *[4]uint64) {
	var key [2][4]uint32 // what is added at even and odd steps
	for l, seed := range seeds {
		low, high := uint32(seed), uint32(seed>>32)
		key[0][l] = low
		if key[1][l] = high + 1; high == 0 { // a key of one word
			key[1][l] = low
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
	k := &key[1] // step 624, at place 1 again, behind place 623
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

// output returns the 32-bit output number k < mtOutputs of one generator.
func (m *mt19937x4) output(lane, k int) uint32 {
	s := &m.state
	y := s[k][lane]&0x80000000 | s[k+1][lane]&0x7fffffff
	v := s[k+mtM][lane] ^ y>>1
	if y&1 != 0 {
		v ^= 0x9908b0df
	}
	v ^= v >> 11
	v ^= v << 7 & 0x9d2c5680
	v ^= v << 15 & 0xefc60000
	return v ^ v>>18
}

// below returns a uniform number in [0, n): the top bits of outputs, as many as n has, until one is less than n. More
// than half of all outputs are, so that the outputs at hand run out once in 2^227 seeds.
func (m *mt19937x4) below(lane int, n uint32) uint32 {
	shift := 32 - bits.Len32(n)
	for k := range mtOutputs {
		if r := m.output(lane, k) >> shift; r < n {
			return r
		}
	}
	panic("mt19937: 227 draws in a row out of range")
}
