package mock

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// value returns a gauge, or the count and the sum of a histogram, of GET /metrics, which must parse.
func value(t *testing.T, s *Server, name string) []float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(get(s, "/metrics").Body)
	require.NoError(t, err)
	m := families[name].GetMetric()[0]
	if h := m.GetHistogram(); h != nil {
		return []float64{float64(h.GetSampleCount()), h.GetSampleSum()}
	}
	return []float64{m.GetGauge().GetValue()}
}

// TestMetricsOfARequest counts a request as waiting until its prompt is there, as running until its answer is over, and its time to
// the first token then.
func TestMetricsOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{TTFT: 30 * time.Millisecond, ITL: 10 * time.Millisecond})
		body, prompt := io.Pipe()
		r := httptest.NewRequest("POST", "/v1/completions", body)
		done := make(chan struct{})
		go func() {
			s.ServeHTTP(httptest.NewRecorder(), r)
			close(done)
		}()
		load := func(waiting, running float64) {
			synctest.Wait()
			assert.Equal(t, []float64{waiting}, value(t, s, "vllm:num_requests_waiting"))
			assert.Equal(t, []float64{running}, value(t, s, "vllm:num_requests_running"))
		}
		load(1, 0)
		_, err := io.Copy(prompt, bytes.NewBufferString(`{"prompt":[1,2,3],"stream":true,"max_tokens":3}`))
		require.NoError(t, err)
		prompt.Close()
		load(0, 1)
		assert.Equal(t, []float64{0, 0}, value(t, s, "vllm:time_to_first_token_seconds"))
		time.Sleep(40 * time.Millisecond)
		load(0, 1)
		assert.Equal(t, []float64{1, 0.03}, value(t, s, "vllm:time_to_first_token_seconds"))
		<-done
		load(0, 0)
		assert.Contains(t, get(s, "/metrics").Body.String(), "_bucket{le=\"0.02\"} 0\nvllm:time_to_first_token_seconds_bucket{le=\"0.04\"} 1\n")
	})
}
