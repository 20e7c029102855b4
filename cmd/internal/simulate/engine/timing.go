package engine

import "math"

// Timing says how long the parts of a pass take: doc/spec/simulate.md 4. The zero value is the default polynomials, which
// belong to no model and no GPU, at speed 1.
type Timing struct {
	table          *Table
	prefill        float64 // speed; at most 0, or 1: as it is
	decode         float64
	capacityTokens float64
}

// NewTiming returns the timing of an engine. table is nil for the polynomials.
func NewTiming(c Config, table *Table) Timing {
	return Timing{
		table: table, prefill: c.SpeedupRatio, decode: float64(c.SpeedupRatio * c.DecodeSpeedupRatio),
		capacityTokens: float64(c.Blocks) * float64(c.BlockSize),
	}
}

// prefillMS returns the milliseconds in which so many prompt tokens are computed, unscaled.
func (t *Timing) prefillMS(tokens float64) float64 {
	if tokens <= 0 {
		return 0
	}
	if t.table != nil {
		return max(t.table.prefillMS(tokens), 0)
	}
	square := float64(float64(4.209989e-07*tokens) * tokens) // each product is rounded: no fused multiply-add
	linear := float64(1.518344e-02 * tokens)
	return max(square+linear+16.50142, 0)
}

// decodeMS returns the milliseconds of one decode step that reads kv tokens, of requests with length tokens in all, unscaled.
func (t *Timing) decodeMS(kv, length, requests int) float64 {
	if requests == 0 {
		return 0
	}
	if t.table != nil {
		return max(t.table.decodeMS(float64(kv), float64(length/requests)), 1)
	}
	return decodePoly(min(1, float64(kv)/t.capacityTokens))
}

// decodePoly returns the milliseconds of a step at a utilisation of the pool.
func decodePoly(p float64) float64 {
	square := float64(float64(-25.74*p) * p)
	linear := float64(54.01 * p)
	return max(square+linear+5.74, 1)
}

// The longest parts of a pass, about two years and six days: so many passes as a stretch has fit an int64 behind any instant of a run.
const (
	longestPrefill = 1 << 56
	longestDecode  = 1 << 49
)

// Prefill returns the nanoseconds in which so many prompt tokens are computed.
func (t *Timing) Prefill(tokens int) int64 {
	return int64(min(quantise(t.prefillMS(float64(tokens)), t.prefill), longestPrefill))
}

// Decode returns the nanoseconds of one decode step.
func (t *Timing) Decode(kv, length, requests int) int64 {
	return int64(min(quantise(t.decodeMS(kv, length, requests), t.decode), longestDecode))
}

// quantise rounds milliseconds to nanoseconds, and those at a speed again: doc/spec/simulate.md 4.3.
func quantise(ms, speed float64) float64 {
	ns := math.RoundToEven(float64(ms/1000) * 1e9)
	if speed > 0 && speed != 1 {
		ns = math.RoundToEven(float64(float64(ns/1e9)/speed) * 1e9)
	}
	return ns
}

// charge returns T: the prompt tokens that a pass is charged for, of n requests whose chunks and prefixes have these sums.
func charge(n, chunks, prefixes int) int {
	if n == 0 {
		return 0
	}
	return n * ((prefixes+chunks)/n - prefixes/n)
}
