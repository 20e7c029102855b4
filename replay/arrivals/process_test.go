package arrivals

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/pyrand"
)

// until returns the instants of a schedule that are before an end.
func until(s Schedule, end time.Duration) (list []time.Duration) {
	for at, ok := s.Next(); ok && at < end; at, ok = s.Next() {
		list = append(list, at)
	}
	return list
}

// The instants are those that numpy gives for the same seed.
//
// Covers T-63.
func TestInstantsAreThoseOfNumpy(t *testing.T) {
	vectors, err := fixtures.NumpyDraws()
	require.NoError(t, err)
	require.Len(t, vectors.Arrivals, 20)
	for _, v := range vectors.Arrivals {
		kind := Kind(slices.Index(kindNames, v.Kind))
		p := Process{Rate: v.Rate, Kind: kind, Shape: v.Shape, Ramp: time.Duration(v.Ramp) * time.Second, Seed: v.Seed}
		list := take(t, p.Schedule(), v.Arrivals)
		var words []byte
		for _, at := range list {
			words = binary.LittleEndian.AppendUint64(words, uint64(at))
		}
		sum := sha256.Sum256(words)
		for k, want := range v.First {
			assert.EqualValues(t, want, list[k], "%+v: arrival %d", p, k)
		}
		assert.EqualValues(t, v.Last, list[v.Arrivals-1], "%+v", p)
		assert.Equal(t, v.SHA256, hex.EncodeToString(sum[:]), "%+v", p)
	}
}

// distance is the statistic of Kolmogorov and Smirnov: how far a sample lies from a law, times the root of its size. It is above
// 1.63 for 1 % of the samples of the law.
func distance(sample []float64, law func(x float64) float64) (d float64) {
	slices.Sort(sample)
	n := float64(len(sample))
	for k, x := range sample {
		d = max(d, law(x)-float64(k)/n, float64(k+1)/n-law(x))
	}
	return d * math.Sqrt(n)
}

// gapDistance compares the gaps between arrivals with the exponential law, and instantDistance the instants with the uniform law.
func gapDistance(list []time.Duration, rate float64) float64 {
	var gaps []float64
	for k, at := range list[1:] {
		gaps = append(gaps, (at - list[k]).Seconds())
	}
	return distance(gaps, func(x float64) float64 { return 1 - math.Exp(-rate*x) })
}

func instantDistance(list []time.Duration, end time.Duration) float64 {
	var sample []float64
	for _, at := range list[1:] {
		sample = append(sample, at.Seconds())
	}
	return distance(sample, func(x float64) float64 { return x / end.Seconds() })
}

// Ten minutes of 50 arrivals a second follow the law, and those of another law do not.
//
// Covers T-63.
func TestPoissonPassesKolmogorovSmirnov(t *testing.T) {
	const end, limit = 10 * time.Minute, 1.63
	p := Process{Rate: 50, Seed: "42"}
	list := until(p.Schedule(), end)
	require.InDelta(t, 30_000, len(list), 4*math.Sqrt(30_000))
	require.Less(t, gapDistance(list, 50), limit)
	require.Less(t, instantDistance(list, end), limit)
	failed := 0
	for seed := range 20 {
		p.Seed = fmt.Sprint(seed)
		list := until(p.Schedule(), end)
		if gapDistance(list, 50) > limit {
			failed++
		}
		if instantDistance(list, end) > limit {
			failed++
		}
	}
	require.LessOrEqual(t, failed, 3, "0.4 of 40 are expected")

	for name, wrong := range map[string]Process{
		"constant":         {Rate: 50, Kind: Constant},
		"another rate":     {Rate: 49},
		"bursts":           {Rate: 50, Kind: Gamma, Shape: 0.9},
		"more even":        {Rate: 50, Kind: Gamma, Shape: 1.1},
		"a rate that grew": {Rate: 50, Ramp: 30 * time.Second},
	} {
		wrong.Seed = "42"
		list := until(wrong.Schedule(), end)
		assert.Greater(t, max(gapDistance(list, 50), instantDistance(list, end)), limit, name)
	}
}

// Covers T-63.
func TestGammaHasItsMeanAndVariance(t *testing.T) {
	const n, rate = 200_000, 20.
	for _, shape := range []float64{0.1, 0.5, 1, 2, 10} {
		list := take(t, Process{Rate: rate, Kind: Gamma, Shape: shape, Seed: "1"}.Schedule(), n+1)
		mean := list[n].Seconds() / n
		variance := 0.
		for k, at := range list[1:] {
			d := (at - list[k]).Seconds() - mean
			variance += d * d / n
		}
		want := 1 / (rate * rate * shape)
		assert.InDelta(t, 1/rate, mean, 4*math.Sqrt(want/n), "shape %g", shape)
		assert.InEpsilon(t, want, variance, 4*math.Sqrt((2+6/shape)/n), "shape %g: variance, whose own follows from the excess kurtosis", shape)
	}
}

// A constant rate has no error that grows: the instant of each arrival is its number divided by the rate.
//
// Covers T-63.
func TestConstantIsExact(t *testing.T) {
	list := take(t, Process{Rate: 3, Kind: Constant}.Schedule(), 1_000_001)
	for k, at := range list {
		if want := time.Duration(2_000_000_000*k/3+1) / 2; at != want { // half of one for rounding
			require.Equal(t, want, at, "arrival %d", k)
		}
	}
}

// With a ramp D to the rate R, R D/2 arrivals come in D, and of them (2k+1)/100 in its tenth k.
//
// Covers T-63.
func TestRampGrowsLinearly(t *testing.T) {
	const rate, ramp = 200., 100 * time.Second
	tenths := func(p Process) (counts [12]int) {
		for _, at := range until(p.Schedule(), ramp*12/10) {
			counts[at*10/ramp]++
		}
		return counts
	}
	want := func(k int) float64 { return rate * ramp.Seconds() / 2 * float64(min(2*k+1, 20)) / 100 }
	for _, p := range []Process{{}, {Kind: Constant}, {Kind: Gamma, Shape: 0.5}, {Kind: Gamma, Shape: 3}} {
		p.Rate, p.Ramp, p.Seed = rate, ramp, "42"
		spread := map[Kind]float64{Poisson: 1, Gamma: 1 / max(p.Shape, 0.001)}[p.Kind] // variance of a count of 1
		for k, n := range tenths(p) {
			assert.InDelta(t, want(k), n, 1+4*math.Sqrt(want(k)*spread), "%+v: tenth %d", p, k)
		}
	}
}

// Instants begin at 0, never go back, and are the same whenever and beside whatever they are asked for.
//
// Covers T-63.
func TestInstantsAreMonotoneAndPure(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Process{
			Rate: math.Exp(rapid.Float64Range(math.Log(1e-6), math.Log(MaxRate)).Draw(r, "log rate")),
			Kind: Kind(rapid.IntRange(0, 2).Draw(r, "kind")),
			Ramp: time.Duration(rapid.Int64Range(0, int64(MaxRamp)).Draw(r, "ramp")),
			Seed: fmt.Sprint(rapid.Int64().Draw(r, "seed")),
		}
		if p.Kind == Gamma {
			p.Shape = math.Exp(rapid.Float64Range(math.Log(minShape), math.Log(maxShape)).Draw(r, "log shape"))
		}
		if rapid.Bool().Draw(r, "no ramp") {
			p.Ramp = 0
		}
		alone, beside, other := p.Schedule(), p.Schedule(), Process{Rate: 1}.Schedule()
		var list []time.Duration
		for range 300 {
			at, ok := alone.Next()
			require.True(r, ok)
			list = append(list, at)
		}
		require.Zero(r, list[0])
		require.True(r, slices.IsSorted(list))
		for _, want := range list {
			other.Next()
			at, _ := beside.Next()
			require.Equal(r, want, at)
		}
	})
}

// An arrival that no Duration can hold, 292 years after the first, ends the schedule.
//
// Covers T-63.
func TestSchedulesEndBeforeTheClockDoes(t *testing.T) {
	for _, rate := range []float64{1e-7, 1e-9, 1e-300, math.SmallestNonzeroFloat64} {
		for _, p := range []Process{{}, {Kind: Constant}, {Kind: Gamma, Shape: 0.5}, {Kind: Gamma, Shape: minShape}, {Ramp: time.Hour}, {Ramp: 400 * time.Millisecond}, {Kind: Constant, Ramp: MaxRamp}} {
			p.Rate, p.Seed = rate, "42"
			s := p.Schedule()
			last := time.Duration(-1)
			at, ok := s.Next()
			require.True(t, ok)
			require.Zero(t, at)
			for n := 0; ok; n++ {
				require.Less(t, n, 10_000, "%+v", p)
				require.GreaterOrEqual(t, at, last)
				last = at
				at, ok = s.Next()
			}
			_, ok = s.Next()
			require.False(t, ok, "it stays ended")
		}
	}
	s := Process{Rate: 1, Kind: Constant}.Schedule().(*drawn)
	s.count = math.Floor(math.MaxInt64 / 1e9)
	at, ok := s.Next()
	require.True(t, ok)
	require.Equal(t, time.Duration(math.MaxInt64)/time.Second*time.Second, at, "the last whole second")
	_, ok = s.Next()
	require.False(t, ok)
}

// Of the largest ramps, the float64 at which the growing half ends can lie behind the one at which the constant half begins.
//
// Covers T-63.
func TestTheHalvesOfARampDoNotCross(t *testing.T) {
	g, crossed := pyrand.NewPCG64(1), 0
	for range 10_000 {
		p := Process{Rate: g.Uniform(1e5, MaxRate), Ramp: MaxRamp - time.Duration(g.Bounded(1<<31))}
		s := p.Schedule().(*drawn)
		s.scale, s.sum, s.count = 0, p.Rate*p.Ramp.Seconds()/2, 1
		before, ok := s.Next()
		require.True(t, ok)
		s.sum = math.Nextafter(s.sum, math.Inf(1))
		if raw, _ := nanoseconds(s.seconds() * 1e9); raw < before {
			crossed++
		}
		after, ok := s.Next()
		require.True(t, ok)
		require.GreaterOrEqual(t, after, before)
	}
	require.NotZero(t, crossed)
}

func TestNanosecondsKnowTheirLimits(t *testing.T) {
	for x, want := range map[float64]time.Duration{0: 0, 0.5: 0, 1.5: 2, 2.5: 2, 0x1p63 - 1024: math.MaxInt64 - 1023} {
		d, ok := nanoseconds(x)
		require.True(t, ok)
		require.Equal(t, want, d)
	}
	for _, x := range []float64{0x1p63, 0x1p64, math.Inf(1), math.NaN()} {
		_, ok := nanoseconds(x)
		require.False(t, ok, "%g", x)
	}
}

func TestParseKind(t *testing.T) {
	for text, want := range map[string]Process{"poisson": {}, "constant": {Kind: Constant}, "gamma:0.5": {Kind: Gamma, Shape: 0.5}, "gamma:1e3": {Kind: Gamma, Shape: 1000}} {
		kind, shape, err := ParseKind(text)
		require.NoError(t, err)
		require.Equal(t, want, Process{Kind: kind, Shape: shape})
	}
	for text, want := range map[string]string{
		"": `"": want poisson, constant or gamma:SHAPE`, "gamma": "want poisson", "gamma:": "want poisson", "gamma:x": "want poisson",
		"Poisson": "want poisson", "poisson:2": "want poisson", "constant:": "want poisson",
		"gamma:0": "shape 0 of gamma: want 0.001 to 1e+06", "gamma:-1": "shape -1", "gamma:NaN": "shape NaN", "gamma:inf": "shape +Inf", "gamma:1e9": "shape 1e+09",
	} {
		_, _, err := ParseKind(text)
		require.ErrorContains(t, err, want, text)
	}
}

// schedules has one schedule of each kind.
func schedules() map[string]Schedule {
	list := map[string]Schedule{"recorded": Recorded(make([]time.Duration, 1<<20))}
	for _, p := range []Process{{}, {Kind: Constant}, {Kind: Gamma, Shape: 0.5}, {Kind: Gamma, Shape: 2}} {
		p.Rate = 1000
		list[p.Kind.String()+fmt.Sprintf(" %g", p.Shape)] = p.Schedule()
		p.Ramp = time.Minute
		list[p.Kind.String()+fmt.Sprintf(" %g ramp", p.Shape)] = p.Schedule()
	}
	return list
}

func TestNextAllocatesNothing(t *testing.T) {
	for name, s := range schedules() {
		require.Zero(t, testing.AllocsPerRun(10_000, func() { s.Next() }), name)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, s := range schedules() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Next()
			}
		})
	}
}
