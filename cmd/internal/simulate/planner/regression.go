package planner

import "math"

// kind says which features of a pass explain its time.
type kind uint8

// The kinds of models.
const (
	prefillKind kind = iota // prefill tokens
	decodeKind              // requests, KV tokens
	aggKind                 // prefill tokens, KV tokens
)

func (k kind) features() int {
	if k == prefillKind {
		return 1
	}
	return 2
}

// Line says how long a pass takes: an intercept, and seconds for each unit of a feature. The zero value has no fit.
type Line struct {
	Intercept float64    `json:"intercept_s"`
	Coef      [2]float64 `json:"coef"`
	Fitted    bool       `json:"fitted"`
}

// leastSeconds is the shortest time that a model foretells.
const leastSeconds = 1e-6

// predict returns the seconds of a pass.
func (l Line) predict(a, b float64) float64 {
	return max(l.Intercept+float64(l.Coef[0]*a)+float64(l.Coef[1]*b), leastSeconds)
}

// batchTolerance is how far below 0 the coefficient of decode's requests may lie: batch size and KV tokens move together.
const batchTolerance = -1e-6

// fit returns the least-squares line through the samples, not fitted where they say too little or the time would fall with more work.
func fit(k kind, list []sample, least int) Line {
	if len(list) < least {
		return Line{}
	}
	l := solve(k, list)
	if !l.Fitted {
		return Line{}
	}
	if k == decodeKind && l.Coef[0] < batchTolerance {
		l.Coef[0] = 0
	}
	tolerated := k == decodeKind
	if l.Coef[0] < 0 && !tolerated || l.Coef[1] < 0 {
		return Line{}
	}
	return l
}

// singular is the share of the product of two variances at which two features count as one.
const singular = 1e-12

// solve returns the least-squares line, from centred sums. Products are rounded: no fused multiply-add.
func solve(k kind, list []sample) (l Line) {
	n := float64(len(list))
	var mx [2]float64
	var my float64
	for _, s := range list {
		mx[0], mx[1], my = mx[0]+s.x[0], mx[1]+s.x[1], my+s.wall
	}
	mx[0], mx[1], my = mx[0]/n, mx[1]/n, my/n
	var xx, yy, xy, xw, yw float64
	for _, s := range list {
		x, y, w := s.x[0]-mx[0], s.x[1]-mx[1], s.wall-my
		xx, yy, xy = xx+float64(x*x), yy+float64(y*y), xy+float64(x*y)
		xw, yw = xw+float64(x*w), yw+float64(y*w)
	}
	if k.features() == 1 {
		if xx == 0 {
			return Line{}
		}
		l.Coef[0] = xw / xx
	} else {
		det := float64(xx*yy) - float64(xy*xy)
		if !(det > singular*float64(xx*yy)) {
			return Line{}
		}
		l.Coef[0] = (float64(xw*yy) - float64(yw*xy)) / det
		l.Coef[1] = (float64(yw*xx) - float64(xw*xy)) / det
	}
	l.Intercept = my - float64(l.Coef[0]*mx[0]) - float64(l.Coef[1]*mx[1])
	l.Fitted = !math.IsNaN(l.Intercept) && !math.IsInf(l.Intercept, 0)
	return l
}
