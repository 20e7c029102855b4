package weka

import "math/bits"

// mt19937 is the Mersenne Twister as CPython's random.Random uses it: seeded by init_by_array with the 32-bit words
// of a 64-bit seed, least significant first. No generator of the standard library gives its numbers.
type mt19937 struct {
	state [mtN]uint32
	next  int
}

const (
	mtN = 624
	mtM = 397
)

// mtInit is the state that init_by_array starts from: the same for every seed.
var mtInit = func() (s [mtN]uint32) {
	s[0] = 19650218
	for i := 1; i < mtN; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	return s
}()

func (m *mt19937) seed(seed uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	words := 1
	if key[1] != 0 {
		words = 2
	}
	m.state = mtInit
	s := &m.state
	i, j := 1, 0
	for range mtN {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		i++
		j++
		if i >= mtN {
			s[0] = s[mtN-1]
			i = 1
		}
		if j >= words {
			j = 0
		}
	}
	for range mtN - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		i++
		if i >= mtN {
			s[0] = s[mtN-1]
			i = 1
		}
	}
	s[0] = 0x80000000
	m.next = mtN
}

// uint32 returns the next 32-bit output.
func (m *mt19937) uint32() uint32 {
	if m.next >= mtN {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mt19937) twist() {
	s := &m.state
	for i := range mtN {
		y := s[i]&0x80000000 | s[(i+1)%mtN]&0x7fffffff
		v := s[(i+mtM)%mtN] ^ y>>1
		if y&1 != 0 {
			v ^= 0x9908b0df
		}
		s[i] = v
	}
	m.next = 0
}

// below returns a uniform number in [0, n): the top bits of outputs, as many as n has, until one is less than n.
func (m *mt19937) below(n uint32) uint32 {
	shift := 32 - bits.Len32(n)
	for {
		if r := m.uint32() >> shift; r < n {
			return r
		}
	}
}
