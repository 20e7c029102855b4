package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers read as they were written, and nothing else is one.
func TestNumberReadsAsWritten(t *testing.T) {
	for _, n := range []Number{Int(0), Int(1700000000311000123), Int(-3), Float(0.1), Float(1e-9), Float(12.25), Float(200), Float(0), Float(1e22)} {
		data, err := json.Marshal(n)
		require.NoError(t, err)
		var again Number
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, n, again)
	}
	n, err := ParseNumber("39.00")
	require.NoError(t, err)
	require.Equal(t, Float(39), n)
	for _, text := range []string{"", "NaN", "inf", "1e999", "true", "1,000"} {
		_, err := ParseNumber(text)
		require.ErrorContains(t, err, "want a finite number", text)
	}
}
