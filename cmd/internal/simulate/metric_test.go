package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGates(t *testing.T) {
	r := resultOf([][]float64{{0, 100, 110, 130}, {0, 200, 260}, {0, 300}})
	r.Config.SLA = SLA{TTFT: 200e6}
	s := r.Summary()
	for text, want := range map[string]string{
		"ttft.p50<=200ms": "", "ttft.p50<200ms": "ttft.p50 is 200 ms", "ttft.max<0.3s": "ttft.max is 300 ms",
		"good>=66%": "", "good>=67%": "good is 66.7 %", "itl.mean<40ms": "", "completed>=100%": "", "reuse>1%": "reuse is 0 %",
		"ttst.p99<60ms": "ttst.p99 is 60.0 ms", "duration<1s": "",
	} {
		g, err := ParseGate(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, g.Judge(s), text)
	}
	r.Config.SLA = SLA{}
	g, err := ParseGate("goodput>1")
	require.NoError(t, err)
	assert.Equal(t, "goodput is not known of this run", g.Judge(r.Summary()))
	for text, want := range map[string]string{
		"ttft":       "want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s' or 'good>=99%'",
		"ttft<2s":    "ttft: want a statistic of it, such as ttft.p95",
		"ttft.p95<2": `"2": want a time with its unit, such as 2s or 50ms`,
		"speed>1":    `no metric "speed": want one of ttft, ttst, itl, token_gap, latency, duration, request_rate, output_token_rate, good, goodput, completed, reuse, reuse_max`,
	} {
		_, err := ParseGate(text)
		assert.EqualError(t, err, want, text)
	}
}
