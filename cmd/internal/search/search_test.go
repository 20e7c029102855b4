package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

func conditions(t *testing.T, texts ...string) (list []slo.Condition) {
	t.Helper()
	for _, text := range texts {
		c, err := measure.ParseCondition(text)
		require.NoError(t, err)
		list = append(list, c)
	}
	return list
}

// slowRun makes the records of a run with a hundred requests that leave every 100 ms. Every tenth has its first token after two seconds,
// the others after half a second.
func slowRun(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	var records []measure.Record
	for k := range 100 {
		at, ttft := float64(k)/10, 0.5
		if k%10 == 0 {
			ttft = 2
		}
		records = append(records, measure.Record{
			Phase: "profiling", Bucket: measure.Profiling, Credit: k, RequestID: "r", Numbers: measure.Numbers{Due: measure.At(at), Admitted: measure.At(at), Sent: measure.At(at),
				FirstToken: measure.At(at + ttft), LastToken: measure.At(at + ttft), End: measure.At(at + ttft), Status: 200}, Transfer: measure.Transfer{Chunks: 1},
		})
	}
	slices.SortFunc(records, func(a, b measure.Record) int { return cmp.Compare(a.End.Seconds(), b.End.Seconds()) })
	for k := range records {
		require.NoError(t, w.Write(&records[k]))
	}
	require.NoError(t, w.Close())
	return dir
}

// A probe is given up in the second in which a condition is lost, and not otherwise.
func TestProbeIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []string
		bounds capacity.Bounds
		at     time.Duration // at which it is given up; 0: it is not
	}{
		{"slow", []string{"latency.p99<1h", "ttft.p95<1s"}, capacity.Bounds{Duration: 30 * time.Second}, 26 * time.Second},
		{"by requests", []string{"ttft.p95<1s"}, capacity.Bounds{Requests: 150}, 10 * time.Second},
		{"fast", []string{"ttft.p95<3s"}, capacity.Bounds{Duration: 30 * time.Second}, 0},
		{"enough of them are fast", []string{"ttft.p75<1s"}, capacity.Bounds{Duration: 30 * time.Second}, 0},
		{"a lower limit waits for the end", []string{"request_rate>1000", "ttft.p95>3s"}, capacity.Bounds{Requests: 110}, 0},
		{"a condition on requests", []string{"ttft<1s"}, capacity.Bounds{Requests: 110}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := slowRun(t)
			synctest.Test(t, func(t *testing.T) {
				ctx, over := context.WithCancel(t.Context())
				s := &Search{}
				ticker := time.NewTicker(time.Second)
				defer ticker.Stop()
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.watch(ctx, replay.Watched{Dir: dir}, outlooksOf(conditions(t, c.levels...), measure.Rules{}, c.bounds), ticker.C)
				}()
				time.Sleep(29*time.Second + time.Second/2) // of the bubble
				synctest.Wait()
				over()
				<-done
				assert.Equal(t, c.at, time.Duration(s.lost.Load()))
			})
		})
	}
}

func TestVerdictOfAProbe(t *testing.T) {
	no, yes := false, true
	summary := func(change func(*measure.Summary)) *measure.Summary {
		levels := conditions(t, "ttft.p95<2s", "itl<1s", "itl.p95<50ms")
		s := &measure.Summary{Goodput: &measure.Goodput{Conditions: []measure.LevelResult{
			{Condition: levels[0], Value: 1.84, Met: &yes}, {Condition: levels[1], Value: measure.Missing}, {Condition: levels[2], Value: 0.041, Met: &yes},
		}}}
		if change != nil {
			change(s)
		}
		return s
	}
	r := measure.ListedRun{Concurrency: 96, Dir: "c0096"}
	for want, p := range map[string]capacity.Probe{
		"96 lanes: met: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms)": probeOf(r, summary(nil), nil),
		"96 lanes: missed: ttft.p95 1.84 s (2 s), itl.p95 51 ms (50 ms)": probeOf(r, summary(func(s *measure.Summary) {
			s.Goodput.Conditions[2].Value, s.Goodput.Conditions[2].Met = 0.051, &no
		}), nil),
		"96 lanes: missed: ttft.p95 not known (2 s), itl.p95 41 ms (50 ms)": probeOf(r, summary(func(s *measure.Summary) {
			s.Goodput.Conditions[0].Value, s.Goodput.Conditions[0].Met = measure.Missing, &no
		}), nil),
		"96 lanes: missed: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms): errors 1.5 % (1 %)":     probeOf(r, summary(func(s *measure.Summary) { s.ErrorRate = 0.015 }), nil),
		"96 lanes: missed: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms): not valid: wedged_tree": probeOf(r, summary(nil), errors.New("replay: not valid: wedged_tree")),
		"96 lanes: client-bound: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms): the processor":    probeOf(r, summary(func(s *measure.Summary) { s.Client.Bound, s.Client.BoundBy = true, []string{"the processor"} }), nil),
		"96 lanes: client-bound: ttft.p95 1.84 s (2 s), itl.p95 41 ms (50 ms): the connections, the processor": probeOf(r, summary(func(s *measure.Summary) {
			s.ErrorRate, s.Client.Bound, s.Client.BoundBy = 1, true, []string{"the connections", "the processor"}
		}), nil),
	} {
		assert.Equal(t, want, p.String())
	}
	few := probeOf(r, summary(func(s *measure.Summary) { s.ErrorRate = mostErrors }), nil)
	assert.Equal(t, capacity.Met, few.Verdict)
}

// A search pauses before every probe but the first, and an interrupt ends the pause.
func TestSearchDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Search{Search: capacity.Search{From: 4}, Drain: 5 * time.Second}
		ctx, interrupt := context.WithCancel(t.Context())
		begun := time.Now()
		require.Equal(t, 4, s.next(ctx))
		require.Zero(t, time.Since(begun))
		s.probes = append(s.probes, capacity.Probe{Lanes: 4, Verdict: capacity.Met})
		require.Equal(t, 8, s.next(ctx))
		require.Equal(t, 5*time.Second, time.Since(begun))
		interrupt()
		require.Zero(t, s.next(ctx))
		require.Equal(t, 5*time.Second, time.Since(begun))
		s.Failed = true
		require.Zero(t, s.next(t.Context()))
		s.Failed, s.probes[0].Verdict = false, capacity.Missed
		require.Zero(t, s.next(t.Context()))
		require.Equal(t, 5*time.Second, time.Since(begun), "the answer is known: nothing to drain for")
	})
}
