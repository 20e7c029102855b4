package fit

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// row is a duration that was measured, in milliseconds, with its features.
type row struct {
	features
	ms, weight float64
}

// of returns the milliseconds that constants give, without weights.
func (r *row) of(f *engine.Formula) float64 {
	x := &r.features
	return f.Pass*x[passes] + f.Attention*x[attention] + f.KV*x[kv] + f.Sequence*x[sequences] + f.Request*x[requests] + f.Token*x[knee0]
}

// trust returns how much a duration counts that constants explain by a factor: as much above 1 as below, and less, the more it is off, from so
// much on.
func trust(factor, off float64) float64 {
	factor = max(factor, 1e-3)
	return math.Min(1, off/math.Abs(math.Log(factor))) / math.Max(1, factor*factor)
}

// appendRow adds a duration of nanoseconds, whose relative error counts.
func appendRow(rows []row, f features, ns int64, weight float64) []row {
	ms := float64(ns) / 1e6
	if ms <= 0 || f[passes]+f[requests] == 0 {
		return rows
	}
	return append(rows, row{f, ms, weight / (ms * ms)})
}

// constantsOf are the constants of a formula that are fitted: of a pass, attention, KV, a sequence, a request, and a token.
const constantsOf = knee0 + 1

// leastSquares returns the formula, none of whose constants is negative, with the least sum of weighted squares; of the knees the best.
func leastSquares(rows []row) (f engine.Formula) {
	least := math.Inf(1)
	if len(rows) == 0 {
		return f
	}
	for k, knee := range knees {
		if math.IsInf(rows[0].features[knee0+k], 1) { // not known
			continue
		}
		pick := func(r *row) [constantsOf]float64 {
			return [...]float64{r.features[passes], r.features[attention], r.features[kv], r.features[sequences], r.features[requests], r.features[knee0+k]}
		}
		c, squares := nonNegative(rows, pick)
		if squares < least*(1-1e-9) {
			least = squares
			f = engine.Formula{Pass: c[passes], Attention: c[attention], KV: c[kv], Sequence: c[sequences], Request: c[requests], Token: c[knee0], Weights: c[knee0] * float64(knee)}
		}
	}
	return f
}

// nonNegative returns the factors of the columns with the least sum of weighted squares, and that sum. It leaves out the column whose factor
// would be the most negative, and solves again.
func nonNegative(rows []row, pick func(*row) [constantsOf]float64) (c [constantsOf]float64, squares float64) {
	used := [constantsOf]bool{true, true, true, true, true, true}
	for {
		c = normal(rows, pick, used)
		worst := -1
		for k, v := range c {
			if v < 0 && (worst < 0 || v < c[worst]) {
				worst = k
			}
		}
		if worst < 0 {
			break
		}
		used[worst] = false
	}
	for k := range rows {
		r := &rows[k]
		off := -r.ms
		for i, v := range pick(r) {
			off += c[i] * v
		}
		squares += r.weight * off * off
	}
	return c, squares
}

// normal solves the normal equations of the used columns, each scaled to length 1, by Gauss's elimination with pivots on the diagonal. A
// column that the others explain has the factor 0.
func normal(rows []row, pick func(*row) [constantsOf]float64, used [constantsOf]bool) (c [constantsOf]float64) {
	var a [constantsOf][constantsOf + 1]float64
	for k := range rows {
		r := &rows[k]
		x := pick(r)
		for i := range x {
			for j := range x {
				a[i][j] += r.weight * x[i] * x[j]
			}
			a[i][constantsOf] += r.weight * x[i] * r.ms
		}
	}
	var scale [constantsOf]float64
	for i := range scale {
		scale[i] = math.Sqrt(a[i][i])
		used[i] = used[i] && scale[i] > 0
	}
	for i := range a {
		for j := range a[i] {
			switch {
			case !used[i] || j < constantsOf && !used[j]:
				a[i][j] = 0
			case j < constantsOf:
				a[i][j] /= scale[i] * scale[j]
			default:
				a[i][j] /= scale[i]
			}
		}
	}
	done := [constantsOf]bool{}
	for {
		pivot := -1
		for i := range a {
			if !done[i] && a[i][i] > 1e-9 && (pivot < 0 || a[i][i] > a[pivot][pivot]) {
				pivot = i
			}
		}
		if pivot < 0 {
			break
		}
		done[pivot] = true
		for i := range a {
			if i == pivot {
				continue
			}
			factor := a[i][pivot] / a[pivot][pivot]
			for j := range a[i] {
				a[i][j] -= factor * a[pivot][j]
			}
		}
	}
	for i := range c {
		if done[i] {
			c[i] = a[i][constantsOf] / a[i][i] / scale[i]
		}
	}
	return c
}
