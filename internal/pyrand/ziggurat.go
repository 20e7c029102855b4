package pyrand

import (
	_ "embed"
	"encoding/binary"
	"math"
)

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
