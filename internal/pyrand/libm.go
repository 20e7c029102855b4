package pyrand

import (
	_ "embed"
	"encoding/binary"
	"math"
)

// numpy takes log and pow from the C library, whose last bit is not always that of the correctly rounded result, nor that of
// package math. Here they are as glibc has computed them since 2.28 on machines with fused multiply-add, for the arguments that
// Gamma has. The method and the tables are those of Arm's optimized routines (NOTICE): a table gives the logarithm of a number c
// near the argument, and a polynomial the rest.

// libmTables has, as little-endian 64-bit words: 128 times 1/c, log(c) and its tail, of pow; 128 times the tail of 2^(k/128) and
// its bits without the exponent; 128 times 1/c and log(c), of log.
//
//go:embed libm.bin
var libmTables []byte

type (
	powLogEntry struct{ inverse, log, tail float64 }
	expEntry    struct {
		tail float64
		bits uint64
	}
	logEntry struct{ inverse, log float64 }
)

var powLogTable, expTable, logTable = readLibm(libmTables)

// readLibm reads the tables of pow, exp and log from their bytes.
func readLibm(words []byte) (p [128]powLogEntry, e [128]expEntry, l [128]logEntry) {
	bits := func(k int) uint64 { return binary.LittleEndian.Uint64(words[8*k:]) }
	float := func(k int) float64 { return math.Float64frombits(bits(k)) }
	for k := range 128 {
		p[k] = powLogEntry{float(3 * k), float(3*k + 1), float(3*k + 2)}
		e[k] = expEntry{float(384 + 2*k), bits(384 + 2*k + 1)}
		l[k] = logEntry{float(640 + 2*k), float(640 + 2*k + 1)}
	}
	return p, e, l
}

// ln2 in two parts; a product of the first with an exponent is exact.
const (
	ln2High = 0x1.62e42fefa3800p-1
	ln2Low  = 0x1.ef35793c76730p-45
)

// split returns x as 2^k z with z from a number whose bits are origin to twice that, and the place of z in a table of 128. x is
// positive and normal.
func split(x float64, origin uint64) (z, k float64, place int) {
	bits := math.Float64bits(x)
	rest := bits - origin
	return math.Float64frombits(bits - rest&(0xfff<<52)), float64(int64(rest) >> 52), int(rest >> 45 & 127)
}

// libmLog returns log(x) of a positive, normal x up to 1.
func libmLog(x float64) float64 {
	switch {
	case x == 1:
		return 0
	case x >= 1-0x1p-4:
		return logNearOne(x - 1)
	}
	z, k, place := split(x, 0x3fe6000000000000)
	c := logTable[place]
	r := math.FMA(z, c.inverse, -1)
	w := math.FMA(k, ln2High, c.log)
	high := w + r
	low := math.FMA(k, ln2Low, w-high+r)
	r2 := r * r
	p := math.FMA(r2, math.FMA(r, -0x1.55575e506c89fp-3, 0x1.999b324f10111p-3), math.FMA(r, -0x1.fffffffeb459p-3, 0x1.555555551305bp-2))
	return math.FMA(r*r2, p, math.FMA(r2, -0x1.0000000000001p-1, low)) + high
}

// logNearOne returns log(1+r).
func logNearOne(r float64) float64 {
	r2 := r * r
	r3 := r * r2
	p := math.FMA(r3, -0x1.5521375d145cdp-4, math.FMA(r2, 0x1.78182f7afd085p-4, math.FMA(r, -0x1.999eb43b068ffp-4, 0x1.c7184282ad6cap-4)))
	p = math.FMA(r3, p, math.FMA(r2, -0x1.fffffa4423d65p-4, math.FMA(r, 0x1.24924a344de3p-3, -0x1.55555556745a7p-3)))
	p = math.FMA(r3, p, math.FMA(r2, 0x1.999999995dd0cp-3, math.FMA(r, -0x1.ffffffffffdcbp-3, 0x1.5555555555577p-2)))
	w := float64(r * 0x1p27)
	rHigh := r + w - w
	rLow := r - rHigh
	w = float64(rHigh * rHigh * -0.5)
	high := r + w
	low := math.FMA(-0.5*rLow, rHigh+r, r-high+w)
	return math.FMA(r3, p, low) + high
}

// libmPow returns x^y of a positive, normal x, where y is 1 or more and y log(x) less than 512. pow(0, y) is 0.
func libmPow(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	z, k, place := split(x, 0x3fe6955500000000)
	c := powLogTable[place]
	r := math.FMA(z, c.inverse, -1)
	t1 := math.FMA(k, ln2High, c.log)
	t2 := t1 + r
	low1 := math.FMA(k, ln2Low, c.tail)
	low2 := t1 - t2 + r
	ar := -0.5 * r
	ar2 := float64(r * ar) // the conversions keep compilers from fusing
	ar3 := r * ar2
	high := t2 + ar2
	low3 := math.FMA(ar, r, -ar2)
	low4 := t2 - high + ar2
	p := math.FMA(ar2, math.FMA(r, 0x1.0002b8b263fc3p0, -0x1.2495b9b4845e9p0), math.FMA(r, -0x1.555555529a47ap-1, 0x1.999999959554ep-1))
	p = math.FMA(ar2, p, math.FMA(r, 0x1.0000000000006p-1, -0x1.555555555556p-1))
	low := math.FMA(ar3, p, low1+low2+low3+low4)
	log := high + low
	tail := high - log + low
	product := float64(y * log)
	return libmExp(product, math.FMA(y, tail, math.FMA(y, log, -product)))
}

// libmExp returns exp(x+tail), where x is 0 or not tiny, and less than 512. The tail is small.
func libmExp(x, tail float64) float64 {
	const shift = 0x1.8p52 // adding it rounds to an integer, in the low bits
	if x <= -1024 {
		return 0
	}
	rounded := math.FMA(0x1.71547652b82fep7, x, shift)
	n := math.Float64bits(rounded)
	k := rounded - shift
	r := math.FMA(k, -0x1.cf79abc9e3b3ap-47, math.FMA(k, -0x1.62e42fefa0000p-8, x)) + tail
	e := expTable[n%128]
	bits := e.bits + n<<45
	r2 := r * r
	p := math.FMA(r2, math.FMA(r, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2), e.tail+r)
	p = math.FMA(r2*r2, math.FMA(r, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5), p)
	if x <= -512 {
		return libmTiny(math.Float64frombits(bits+1022<<52), p)
	}
	scale := math.Float64frombits(bits)
	return math.FMA(scale, p, scale)
}

// libmTiny returns 2^-1022 (scale + scale*p), rounded once where it is subnormal. Product and sum are not fused here.
func libmTiny(scale, p float64) float64 {
	product := float64(scale * p)
	y := scale + product
	if y < 1 {
		low := scale - y + product
		high := 1 + y
		y = high + (1 - high + y + low) - 1
	}
	return 0x1p-1022 * y
}
