package pyrand

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// drawOf returns the method that draws from a law.
func drawOf(t *testing.T, law string, shape float64) func(g *PCG64) float64 {
	switch law {
	case "exponential":
		return (*PCG64).Exponential
	case "normal":
		return (*PCG64).normal
	case "gamma":
		return func(g *PCG64) float64 { return g.Gamma(shape) }
	}
	require.Fail(t, "there is no law "+law)
	return nil
}

// Every number that numpy draws, bit for bit, those of the rare branches among them.
//
// Covers T-62.
func TestDrawsAreThoseOfNumpy(t *testing.T) {
	vectors, err := fixtures.NumpyDraws()
	require.NoError(t, err)
	require.Len(t, vectors.Draws, 50)
	largest := map[string]float64{}
	for _, v := range vectors.Draws {
		draw, g, digest := drawOf(t, v.Law, v.Shape), NewPCG64(v.Seed), sha256.New()
		var words []byte
		for k := range v.Draws {
			x := draw(g)
			if k < len(v.First) {
				assert.Equal(t, v.First[k], float(x), "draw %d of %s with shape %g, seed %d", k, v.Law, v.Shape, v.Seed)
			}
			words = binary.LittleEndian.AppendUint64(words, math.Float64bits(x))
			largest[v.Law] = max(largest[v.Law], math.Abs(x))
		}
		digest.Write(words)
		assert.Equal(t, v.SHA256, hex.EncodeToString(digest.Sum(nil)), "%d draws of %s with shape %g, seed %d", v.Draws, v.Law, v.Shape, v.Seed)
	}
	require.Greater(t, largest["exponential"], exponentialTail, "a draw of the tail")
	require.Greater(t, largest["normal"], normalTail, "a draw of the tail")
}

// The strips of a ziggurat have equal areas: the first with its tail, the others as rectangles between two heights.
func TestZigguratsHaveStripsOfEqualArea(t *testing.T) {
	for name, z := range map[string]struct {
		*ziggurat
		curve func(x float64) float64
		unit  float64 // of rabs
		tail  float64 // area behind the first strip
	}{
		"exponential": {exponential, func(x float64) float64 { return math.Exp(-x) }, 1 << 53, math.Exp(-exponentialTail)},
		"normal":      {normal, func(x float64) float64 { return math.Exp(-x * x / 2) }, 1 << 52, math.Sqrt(math.Pi/2) * math.Erfc(normalTail/math.Sqrt2)},
	} {
		edge := func(strip int) float64 { return z.scale[strip] * z.unit }
		area := edge(255)*z.height[255] + z.tail
		assert.InEpsilon(t, area, edge(0)*z.height[255], 1e-9, "%s: the base", name)
		for strip := 2; strip < 256; strip++ {
			assert.InEpsilon(t, z.curve(edge(strip)), z.height[strip], 1e-12, "%s: height %d", name, strip)
			assert.InEpsilon(t, area, edge(strip)*(z.height[strip-1]-z.height[strip]), 1e-9, "%s: strip %d", name, strip)
			assert.InEpsilon(t, edge(strip-1)/edge(strip)*z.unit, z.inside[strip], 1e-9, "%s: inside %d", name, strip)
		}
	}
}

// log and pow differ from package math by a unit in the last place here and there, and by no more than pow of package math errs.
func TestLogAndPowAreNearThoseOfPackageMath(t *testing.T) {
	g := NewPCG64(1)
	for range 20_000 {
		x, y := g.Uniform(0x1p-30, 1), 1+1/g.Uniform(0.001, 1)
		require.InEpsilon(t, math.Log(x), libmLog(x), 1e-15, "log(%g)", x)
		x *= 3
		if want := math.Pow(x, y); want > 0x1p-1022 && want < math.Exp(500) {
			require.InEpsilon(t, want, libmPow(x, y), 1e-13, "pow(%g, %g)", x, y)
		}
	}
	for _, x := range []float64{1, 1 - 0x1p-4, math.Nextafter(1, 0), math.Nextafter(1-0x1p-4, 0)} {
		require.InDelta(t, math.Log(x), libmLog(x), 1e-17)
		require.InEpsilon(t, math.Pow(x, 3), libmPow(x, 3), 1e-15)
	}
	require.Zero(t, libmPow(0, 2))
	require.Zero(t, libmPow(0x1p-53, 1000))
	require.Equal(t, 0x1p-1074, libmPow(0.5, 1074))
	require.Equal(t, 0x1p-1022, libmPow(0.5, 1022))
	require.Zero(t, libmPow(0.5, 1076))
}

func BenchmarkDraws(b *testing.B) {
	for _, shape := range []float64{1, 0.5, 2} {
		b.Run(fmt.Sprintf("gamma %g", shape), func(b *testing.B) {
			g := NewPCG64(1)
			for b.Loop() {
				g.Gamma(shape)
			}
		})
	}
}
