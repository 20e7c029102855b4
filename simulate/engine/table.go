package engine

// Table is durations measured elsewhere: doc/spec/simulate.md 4.2.
type Table struct {
	prefillISL, prefillTTFT []float64
	decodeKV, decodeContext []float64
	decodeITL               [][]float64 // by kv, then context
}

func (t *Table) prefillMS(tokens float64) float64 { return 0 }

func (t *Table) decodeMS(kv, context float64) float64 { return 0 }
