package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// BenchmarkCompute computes the results of a run of b.N requests on 256 lanes, each with 20 content messages, and says what a request
// costs: -benchtime=1000000x is a million of them. MB is the largest heap that was seen.
func BenchmarkCompute(b *testing.B) {
	run := writeLongRun(b, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() { peak <- watchHeap(stop) }()
	res, err := run.Compute()
	close(stop)
	b.ReportMetric(float64(<-peak)/(1<<20), "MB")
	if err != nil || res.Counts.Sent != b.N {
		b.Fatal(res.Counts, err)
	}
}

// watchHeap returns the largest heap that it sees.
func watchHeap(stop chan struct{}) (peak uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		metrics.Read(sample)
		peak = max(peak, sample[0].Value.Uint64())
		select {
		case <-stop:
			return peak
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// writeLongRun writes a run of n requests.
func writeLongRun(b *testing.B, n int) *Run {
	dir := b.TempDir()
	w, err := measure.Create(dir)
	if err != nil {
		b.Fatal(err)
	}
	for k := range int64(n) {
		var contents []int64
		for c := range int64(20) {
			contents = append(contents, 50*ms+(k*7919)%(40*ms)+c*5*ms+(k*c*31)%(4*ms))
		}
		sent := k*ms + (k*104729)%ms
		end := sent + contents[19] + 3*ms
		r := success(sent, end, 1000+k%5000, 100+k%300, contents...)
		if k%50 == 0 {
			r = failure(sent, end, wire.HTTPStatus)
		}
		r.Trace, r.Session, r.RequestID = "trace", "trace::sa:agent", "d7f6a0a2-6f0d-4b5e-9c7e-0c3f7a1b2c3d"
		r.CorrelationID, r.RootID, r.SourceKind = r.RequestID, r.RequestID, "weka_main"
		r.Credit = int(k)
		if err := w.Write(&r); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	data, _ := json.Marshal(infoOf(preset.Default, float64(n)/1000))
	if err := os.WriteFile(filepath.Join(dir, measure.RunFile), data, 0o600); err != nil {
		b.Fatal(err)
	}
	run, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	return run
}
