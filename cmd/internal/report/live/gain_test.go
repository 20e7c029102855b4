package live

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// withoutSums returns the metrics without the sums of histograms, in which the order of values shows.
func withoutSums(t *testing.T, s *State) map[string]*dto.MetricFamily {
	text, err := s.Metrics()
	require.NoError(t, err)
	families := scraped(t, text)
	for _, f := range families {
		for _, m := range f.Metric {
			if m.Histogram != nil {
				m.Histogram.SampleSum = nil
			}
		}
	}
	return families
}

func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// sent returns a gain as it comes at part 0.
func sent(t *testing.T, s *State) *Gain {
	text, err := json.Marshal(s.TakeGain())
	require.NoError(t, err)
	g := new(Gain)
	require.NoError(t, json.Unmarshal(text, g))
	return g
}

// The state of part 0 is that of a run that has the requests of all parts: counts, rates and metrics alike, and percentiles to 1 %.
func TestGainsAddUpToTheWholeLoad(t *testing.T) {
	whole, host := NewState(measure.Rules{}, 12), NewState(measure.Rules{}, 12)
	host.Share(3)
	guests := []*State{NewState(measure.Rules{}, 4), NewState(measure.Rules{}, 4)}
	for _, g := range guests {
		g.KeepGains()
	}
	parts := append([]*State{host}, guests...)
	draw := rand.New(rand.NewPCG(1, 2))
	at := time.Unix(1.7e9, 0)
	sums := make([]int, 3)
	for second := range 50 {
		phase := measure.WarmupPhase
		if second >= 10 {
			phase = measure.ProfilingPhase
		}
		if second == 10 {
			clear(sums)
		}
		for _, r := range someRecords(40) {
			k := draw.IntN(3)
			r.Phase = phase
			if phase == measure.WarmupPhase {
				r.Bucket = measure.WarmupBucket
			}
			whole.Add(r)
			parts[k].Add(r)
			sums[k]++
		}
		elapsed := time.Duration(second) * time.Second
		stood := func(n int, seconds, longest float64) *measure.Standstills {
			return &measure.Standstills{N: n, Seconds: seconds, Longest: measure.Standstill{At: 3, Seconds: longest, InFlight: 2}}
		}
		for k, s := range parts {
			s.Report(measure.Progress{Standstills: stood(k+1, 1, float64(k)/2), Phase: phase, Elapsed: elapsed - time.Duration(2-k)*time.Millisecond, Remaining: time.Duration(k) * time.Minute, Requests: sums[k] + 10, InFlight: 10, TreesOpen: 4})
		}
		whole.Report(measure.Progress{Standstills: stood(6, 3, 1), Phase: phase, Elapsed: elapsed, Remaining: 2 * time.Minute, Requests: sums[0] + sums[1] + sums[2] + 30, InFlight: 30, TreesOpen: 12})
		for k, g := range guests {
			require.NoError(t, host.AddGain(k+1, sent(t, g)))
		}
		at = at.Add(time.Second)
		whole.Look(at)
		host.Look(at)

		want, got := whole.Status(), host.Status()
		require.Equal(t, &Parts{Of: 3, Playing: 3}, got.Parts)
		got.Parts = nil
		require.Equal(t, asJSON(t, want), asJSON(t, got), "second %d", second)
		require.Equal(t, withoutSums(t, whole), withoutSums(t, host), "second %d", second)
		a, b := whole.summary(new(measure.RunInfo)), host.summary(new(measure.RunInfo))
		require.Equal(t, a.Requests, b.Requests)
		require.Equal(t, a.Buckets, b.Buckets)
		for k, of := range []measure.Stat{a.TTFT, a.ITL, a.TPOT, a.RequestLatency, a.Lateness, a.ISL, a.OSL} {
			other := []measure.Stat{b.TTFT, b.ITL, b.TPOT, b.RequestLatency, b.Lateness, b.ISL, b.OSL}[k]
			require.Equal(t, of.N, other.N)
			if of.N > 0 {
				require.InEpsilon(t, 1+float64(of.P95), 1+float64(other.P95), 0.01)
				require.InEpsilon(t, 1+float64(of.Mean), 1+float64(other.Mean), 1e-9)
			}
		}
	}
	require.Equal(t, counted(NewRealtime(whole)), counted(NewRealtime(host)))
	require.Contains(t, host.statusLog(), "3 of 3 parts")
	before := host.Status()
	host.Leave(2)
	now := host.Status()
	require.Equal(t, &Parts{Of: 3, Playing: 2}, now.Parts)
	require.Equal(t, 20, now.InFlight, "what the part had in flight is gone")
	require.Equal(t, before.Completed, now.Completed, "what it has done stays")
}

// counted returns the lines of a block that have no percentiles.
func counted(r *Realtime) (lines []string) {
	for _, line := range r.Block(40*time.Second, Servers{}) {
		if !strings.Contains(line, " p50=") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (s *State) statusLog() string {
	now := s.Status()
	return now.Log() + now.Block(200)[0]
}

// A load of 12 s whose other part was heard of a second ago is over when the 12 s are.
func TestRemainingTimeOfTheWholeLoad(t *testing.T) {
	host, guest := NewState(measure.Rules{}, 2), NewState(measure.Rules{}, 1)
	host.Share(2)
	guest.KeepGains()
	report := func(s *State, elapsed, remaining time.Duration) {
		s.Report(measure.Progress{Phase: measure.ProfilingPhase, Elapsed: elapsed, Remaining: remaining})
	}
	report(guest, 3*time.Second, 9*time.Second)
	require.NoError(t, host.AddGain(1, sent(t, guest)))
	for _, c := range [][3]time.Duration{{4, 8, 8}, {4, 2, 8}, {4, -1, -1}, {12, 0, 0}, {13, 0, 0}} {
		report(host, c[0]*time.Second, c[1]*time.Second)
		want := measure.Missing
		if c[2] >= 0 {
			want = measure.Number(c[2])
		}
		require.Equal(t, asJSON(t, want), asJSON(t, host.Status().Remaining), "%v", c)
	}
}

// What a part sends in a second has a bound, however many requests it ends.
func TestGainsAreSmall(t *testing.T) {
	s := NewState(measure.Rules{}, 8)
	s.KeepGains()
	draw := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		r := good(0, 0.001*draw.Float64(), draw.ExpFloat64(), 0.01*draw.ExpFloat64(), 2+draw.Int64N(1000))
		s.Add(r)
	}
	text, err := json.Marshal(s.TakeGain())
	require.NoError(t, err)
	require.Less(t, len(text), 400_000)
	again := s.TakeGain()
	require.Nil(t, again.Profiling)
	require.Nil(t, again.Recent)
}

// A gain that no part sends is refused as a whole.
func TestGainsThatNoPartSends(t *testing.T) {
	host := NewState(measure.Rules{}, 8)
	host.Share(2)
	before := host.Status()
	many := `{},{},{},{},{},{}`
	for _, text := range []string{
		`{"recent":{"phase":"other"}}`,
		`{"recent":{"phase":"profiling","ttft":{"65535":1}}}`,
		`{"recent":{"phase":"profiling","itl":{"1":-1}}}`,
		`{"recent":{"phase":"profiling","lateness":{"1":99999999}}}`,
		`{"profiling":{"requests":1}}`,
		`{"profiling":{"requests":-1,"distributions":[{},` + many + `]}}`,
		`{"profiling":{"errors":{"timeout":-1},"distributions":[{},` + many + `]}}`,
		`{"warmup":{"distributions":[{"bounds":{"28":1}},` + many + `]}}`,
		`{"warmup":{"distributions":[{"bounds":{"-1":1}},` + many + `]}}`,
		`{"profiling":{"distributions":[{"cells":{"9000":1}},` + many + `]}}`,
	} {
		g := new(Gain)
		err := json.Unmarshal([]byte(text), g)
		if err == nil {
			err = host.AddGain(1, g)
		}
		require.Error(t, err, text)
	}
	require.Equal(t, asJSON(t, before), asJSON(t, host.Status()))
}
