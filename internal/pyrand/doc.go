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
