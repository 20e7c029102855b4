// Package splitmix is the generator splitmix64. Its numbers must never change.
package splitmix

// Rand draws numbers. Its value is the seed.
type Rand uint64

// Next draws a number of 64 bits.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
