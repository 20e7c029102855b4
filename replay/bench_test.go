package replay

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// BenchmarkReplay plays bodies of 400 KB on 16 lanes without gaps. The server is the mock or, as sink, a handler that reads
// and answers and does nothing else. It runs in this process, so the figures include it.
func BenchmarkReplay(b *testing.B) {
	c := cachetest.Large(b)
	const answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for name, server := range map[string]http.Handler{
		"mock": mock.New(mock.Config{}),
		"sink": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			url, _ := serve(b, server)
			o := optionsFor(b, c, url)
			o.Endpoint, o.Concurrency, o.Requests, o.AllowWrap, o.Out = payload.ChatCompletions, 16, max(b.N, 1), true, b.TempDir()
			before := measure.ReadProcessUsage()
			s, err := Run(context.Background(), o)
			if err != nil || s.Completed != o.Requests {
				b.Fatal(s, err)
			}
			used := measure.ReadProcessUsage().Since(before)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(used.CPU.Seconds()/float64(b.N)*1e6, "cpu-us/req")
			b.ReportMetric(float64(s.Client.BytesSent)/float64(b.N), "bytes/req")
			b.ReportMetric(float64(s.Lateness.P99)*1e6, "late-p99-us")
		})
	}
}
