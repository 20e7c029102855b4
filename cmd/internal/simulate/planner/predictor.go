package planner

// predictor foretells the next value of a series: doc/spec/simulate.md 11.7.
type predictor struct {
	kalman bool
	points int
	last   float64
	level  float64
	trend  float64
	p      [3]float64 // covariance: of the level, of both, of the trend
}

// The noise of the Kalman filter, and its first points, of which the last value is the prediction.
const (
	levelNoise, trendNoise, valueNoise = 1, 0.1, 10
	firstCovariance                    = 10
	firstPoints                        = 5
)

// add takes the next value.
func (k *predictor) add(v float64) {
	k.points++
	k.last = v
	if k.points == 1 {
		k.level, k.trend, k.p = v, 0, [3]float64{firstCovariance, 0, firstCovariance}
		return
	}
	level := k.level + k.trend
	a, b, d := k.p[0]+k.p[1]+k.p[1]+k.p[2]+levelNoise, k.p[1]+k.p[2], k.p[2]+trendNoise
	gain, trendGain := a/(a+valueNoise), b/(a+valueNoise)
	k.level = level + float64(gain*(v-level))
	k.trend += float64(trendGain * (v - level))
	k.p = [3]float64{a - float64(gain*a), b - float64(gain*b), d - float64(trendGain*b)}
}

// next returns the prediction; ok is false before the first value.
func (k *predictor) next() (v float64, ok bool) {
	if !k.kalman || k.points < firstPoints {
		return k.last, k.points > 0
	}
	return max(k.level+k.trend, 0), true
}
