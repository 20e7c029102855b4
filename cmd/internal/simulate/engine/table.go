package engine

import (
	"fmt"
	"math"
	"sort"
)

// Table is durations that were measured or computed elsewhere: doc/spec/simulate.md 4.2.
type Table struct {
	PrefillISL    []float64   `json:"prefill_isl"` // tokens of a pass
	PrefillTTFT   []float64   `json:"prefill_ttft_ms"`
	DecodeKV      []float64   `json:"decode_active_kv_tokens"`
	DecodeContext []float64   `json:"decode_context_length"` // mean length of the requests of a step
	DecodeITL     [][]float64 `json:"decode_itl"`            // milliseconds, by KV tokens, then context
}

// Validate returns an error that names the first array that cannot be used.
func (t *Table) Validate() error {
	for _, axis := range []struct {
		name   string
		values []float64
	}{{"prefill_isl", t.PrefillISL}, {"decode_active_kv_tokens", t.DecodeKV}, {"decode_context_length", t.DecodeContext}} {
		if err := checkAxis(axis.name, axis.values); err != nil {
			return err
		}
	}
	if err := checkValues("prefill_ttft_ms", t.PrefillTTFT, len(t.PrefillISL), "prefill_isl"); err != nil {
		return err
	}
	if len(t.DecodeITL) != len(t.DecodeKV) {
		return fmt.Errorf("decode_itl has %d rows, decode_active_kv_tokens %d values", len(t.DecodeITL), len(t.DecodeKV))
	}
	for k, row := range t.DecodeITL {
		if err := checkValues(fmt.Sprintf("decode_itl[%d]", k), row, len(t.DecodeContext), "decode_context_length"); err != nil {
			return err
		}
	}
	return nil
}

func checkAxis(name string, values []float64) error {
	if len(values) == 0 {
		return fmt.Errorf("%s has no values", name)
	}
	for k, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %g: want a finite number", name, k, v)
		}
		if k > 0 && v <= values[k-1] {
			return fmt.Errorf("%s[%d] is %g after %g: want rising values", name, k, v, values[k-1])
		}
	}
	return nil
}

func checkValues(name string, values []float64, want int, axis string) error {
	if len(values) != want {
		return fmt.Errorf("%s has %d values, %s %d", name, len(values), axis, want)
	}
	for k, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %g: want a finite number", name, k, v)
		}
	}
	return nil
}

// prefillMS interpolates along the tokens of a pass, and extrapolates at both ends.
func (t *Table) prefillMS(tokens float64) float64 {
	k, share := place(t.PrefillISL, tokens)
	return between(t.PrefillTTFT, k, share)
}

// decodeMS interpolates along KV tokens and context, and extrapolates at all ends.
func (t *Table) decodeMS(kv, context float64) float64 {
	k, share := place(t.DecodeContext, context)
	row, along := place(t.DecodeKV, kv)
	low := between(t.DecodeITL[row], k, share)
	if row+1 == len(t.DecodeITL) {
		return low
	}
	return mix(low, between(t.DecodeITL[row+1], k, share), along)
}

// place returns the value of an axis from which on x lies, and which share of the way to the next one x is. Behind the ends it
// goes on from the last two values. An axis of one value has no way to go.
func place(axis []float64, x float64) (k int, share float64) {
	if len(axis) == 1 {
		return 0, 0
	}
	k = min(max(sort.SearchFloat64s(axis, x)-1, 0), len(axis)-2)
	return k, (x - axis[k]) / (axis[k+1] - axis[k])
}

func between(values []float64, k int, share float64) float64 {
	if len(values) == 1 {
		return values[0]
	}
	return mix(values[k], values[k+1], share)
}

// mix is rounded after the product: no fused multiply-add.
func mix(a, b, share float64) float64 { return a + float64((b-a)*share) }
