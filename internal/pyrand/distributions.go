package pyrand

import "math"

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
