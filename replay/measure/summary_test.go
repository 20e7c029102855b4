package measure

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// good is a request that was due at t, sent late, and answered with n tokens.
func good(lane int, t, late, ttft, latency float64, n int64) *Record {
	return &Record{
		Phase: ProfilingPhase, Lane: lane, Tree: lane, Numbers: Numbers{Due: At(t), Sent: At(t + late), FirstToken: At(t + late + ttft), LastToken: At(t + late + latency), End: At(t + late + latency + 0.1),
			Status: 200, RecordedISL: 100, PromptTokens: Tokens(98), CachedTokens: Tokens(40), OutputTokens: Tokens(n), MaxTokens: n}, Transfer: Transfer{Chunks: int(n),
			BytesSent: 1000, BytesReceived: 50}, Bucket: Profiling,
	}
}

func bad(bucket Bucket, category wire.Category) *Record {
	return &Record{Phase: ProfilingPhase, Lane: 7, Tree: 9, Numbers: Numbers{Due: At(0.25), Sent: At(0.25), FirstToken: At(3), LastToken: At(4), End: At(50)}, Transfer: Transfer{BytesSent: 10}, Bucket: bucket, Error: &Error{Category: category}}
}

// Covers T-56.
func TestSummary(t *testing.T) {
	a := NewAggregate(Rules{})
	// Sent at 1 and 2; first tokens after 0.5 and 0.25 s; last ones after 2.5 and 1.25 s, at 3.5 and 3.25.
	first, second := good(0, 1, 0, 0.5, 2.5, 5), good(1, 2, 0, 0.25, 1.25, 3)
	first.RecordedBlocks, first.RecordedHits, second.RecordedBlocks, second.RecordedHits = 4, 2, 4, 5
	a.Add(first)
	a.Add(second)
	late := good(1, 20, 0, 1, 2, 2)
	late.Bucket, late.Resent = Cooldown, true
	a.Add(late)
	a.Add(bad(Profiling, "http_status"))
	a.Add(bad(Profiling, "http_status"))
	a.Add(bad(Cooldown, "timeout"))
	a.Add(bad(CancelledAtEnd, "cancelled"))
	a.Add(bad(ContextOverflow, "context_overflow"))
	s := a.Summary(RunInfo{
		Lanes: 8, Facts: &Facts{PhaseDuration: 30, CPU: 1.5, PeakRSS: 1 << 20, Cores: 4}, Out: "runs/1", Records: "records.jsonl",
	})
	require.Equal(t, 8, s.Requests)
	require.Equal(t, 3, s.Completed)
	require.Equal(t, map[wire.Category]int{"http_status": 2, "timeout": 1}, s.Errors)
	require.Equal(t, Buckets{Profiling: 4, Cooldown: 2, CancelledAtEnd: 1, ContextOverflow: 1}, s.Buckets)
	require.Equal(t, 1, s.Resent)
	require.Equal(t, 2, s.Measured)
	require.EqualValues(t, 2.5, s.Duration) // from 1 to 3.5
	require.EqualValues(t, 2/2.5, s.RequestRate)
	require.EqualValues(t, 196, s.PromptTokens)
	require.EqualValues(t, 8, s.OutputTokens)
	require.EqualValues(t, 8, s.RequestedOutputTokens)
	require.EqualValues(t, 80, s.CachedTokens)
	require.EqualValues(t, 80.0/196, s.TokenHitRate)
	require.EqualValues(t, 200, s.RecordedPromptTokens)
	require.EqualValues(t, 8, s.RecordedBlocks)
	require.EqualValues(t, 6, s.RecordedHits, "2, and 4 of the 5 that one of 4 blocks claims")
	require.EqualValues(t, 0.75, s.TheoreticalHitRate)
	require.EqualValues(t, 196/2.5, s.PromptTokenRate)
	require.EqualValues(t, 8/2.5, s.OutputTokenRate)
	require.EqualValues(t, 0.375, s.TTFT.P50)
	require.EqualValues(t, 0.5, s.ITL.Mean) // (2.5-0.5)/4 and (1.25-0.25)/2
	require.EqualValues(t, 2.5, s.RequestLatency.Max)
	require.EqualValues(t, 0, s.Lateness.P99)
	require.Equal(t, Lanes{N: 8, Started: 3, FirstRequest: FirstRequest{0.25, 2}}, s.Lanes)
	require.Equal(t, Client{CPU: 1.5, CPUShare: 0.05, Cores: 4, PeakRSS: 1 << 20, BytesSent: 3050, BytesReceived: 150}, s.Client)
	require.Equal(t, 3, s.Trees)
	require.Nil(t, s.Valid)
	require.Nil(t, s.Reasons)
	require.Equal(t, 1, s.Cooldown.Measured)
	require.EqualValues(t, 1, s.Cooldown.TTFT.P50)
	require.EqualValues(t, 2, s.Cooldown.Duration)
}

func TestSummaryKeys(t *testing.T) {
	b, err := json.Marshal(NewAggregate(Rules{}).Summary(RunInfo{}))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	for _, key := range []string{
		"requests", "completed", "errors", "buckets", "duration", "request_rate", "prompt_tokens", "output_tokens",
		"prompt_token_rate", "output_token_rate", "ttft", "itl", "request_latency", "lateness", "lanes", "client", "valid", "reasons", "out", "headline", "throughput_window", "itl_divisor",
	} {
		require.Contains(t, got, key)
	}
	require.Nil(t, got["duration"])
	require.Nil(t, got["request_rate"])
	require.Nil(t, got["valid"])
	require.Nil(t, got["reasons"])
	require.Equal(t, map[string]any{}, got["errors"])
	require.EqualValues(t, 0, got["prompt_tokens"])
	require.Equal(t, map[string]any{"n": 0.0, "started": 0.0, "first_request": map[string]any{"first": nil, "last": nil}}, got["lanes"])
	require.Contains(t, got["ttft"], "p99")
	var back Summary
	require.NoError(t, json.Unmarshal(b, &back))
	require.True(t, back.Duration.IsMissing())
}

// Every request is in exactly one bucket and ends in exactly one way.
//
// Covers INV-15.
func TestSummaryAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAggregate(Rules{})
		n := rapid.IntRange(0, 50).Draw(t, "n")
		for range n {
			r := good(rapid.IntRange(0, 5).Draw(t, "lane"), rapid.Float64Range(0, 100).Draw(t, "t"), 0, 1, 2, 3)
			switch r.Bucket = rapid.SampledFrom([]Bucket{Profiling, Cooldown, CancelledAtEnd, ContextOverflow}).Draw(t, "bucket"); {
			case r.Bucket == CancelledAtEnd:
				r.Error = &Error{Category: "cancelled"}
			case r.Bucket == ContextOverflow:
				r.Error = &Error{Category: "context_overflow"}
			case rapid.Bool().Draw(t, "failed"):
				r.Error = &Error{Category: rapid.SampledFrom([]wire.Category{"timeout", "connection"}).Draw(t, "category")}
			}
			a.Add(r)
		}
		s := a.Summary(RunInfo{})
		b := s.Buckets
		errors := 0
		for _, k := range s.Errors {
			errors += k
		}
		require.Equal(t, n, s.Requests)
		require.Equal(t, n, b.Profiling+b.Cooldown+b.CancelledAtEnd+b.ContextOverflow)
		require.Equal(t, n, s.Completed+errors+b.CancelledAtEnd+b.ContextOverflow)
		require.Equal(t, s.Completed, s.Measured+s.Cooldown.Measured)
		first, err := json.Marshal(s)
		require.NoError(t, err)
		again, err := json.Marshal(a.Summary(RunInfo{}))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	})
}

// The switch of the preset decides by what the rates divide.
//
// Covers T-55.
func TestThroughputWindow(t *testing.T) {
	type in struct {
		First     int64  `json:"first_start_ns"`
		Last      *int64 `json:"last_content_ns"`
		Complete  int64  `json:"phase_complete_ns"`
		Deadline  int64  `json:"deadline_ns"`
		LastEnd   int64  `json:"last_end_ns"`
		Cancelled bool
		Count     int
	}
	type want struct {
		Window         string
		Seconds, Value *float64
	}
	fixtures.EachCase(t, "throughput_window", fixtures.Counts{4, 2, 2}, func(t *testing.T, c fixtures.Case, in in, want want) {
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		a := NewAggregate(RulesOf(&switches))
		o := &a.headline
		o.n, o.first = in.Count, float64(in.First)/1e9
		if in.Last != nil {
			o.last = float64(*in.Last) / 1e9
		}
		a.delivered.Requests, a.last = in.Count, float64(in.LastEnd)/1e9
		s := a.Summary(RunInfo{Facts: &Facts{PhaseDuration: float64(in.Complete) / 1e9, Deadline: float64(in.Deadline) / 1e9, Cancelled: in.Cancelled}})
		require.Equal(t, want.Window, s.ThroughputWindow.Kind)
		if want.Seconds == nil {
			require.True(t, s.ThroughputWindow.Seconds.IsMissing())
			require.True(t, s.Duration.IsMissing())
			require.True(t, s.RequestRate.IsMissing())
			return
		}
		require.InDelta(t, *want.Seconds, float64(s.ThroughputWindow.Seconds), 1e-12)
		require.InDelta(t, *want.Seconds, float64(s.ThroughputWindow.End-s.ThroughputWindow.Start), 1e-12)
		require.InDelta(t, *want.Value, float64(s.RequestRate), 1e-12)
		require.EqualValues(t, 900, s.Duration, "from the first request to the last token, whatever divides the rates")
	})
}

// Under the window of the phase all rates divide by it, those of the cooldown too. One that did not come to its end has none.
//
// Covers T-55.
func TestPhaseWindow(t *testing.T) {
	a := NewAggregate(Rules{PhaseWindow: true})
	a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	a.Add(good(0, 2, 0, 0.5, 2.5, 5))
	late := good(0, 3, 0, 0.5, 2.5, 5)
	late.Bucket = Cooldown
	a.Add(late)
	s := a.Summary(RunInfo{Facts: &Facts{PhaseDuration: 10}})
	require.Equal(t, ThroughputWindow{"phase", 0, 10, 10, Amount{2, 196, 10}}, s.ThroughputWindow)
	require.EqualValues(t, 0.2, s.RequestRate)
	require.EqualValues(t, 19.6, s.PromptTokenRate)
	require.EqualValues(t, 1, s.OutputTokenRate)
	require.EqualValues(t, 0.1, s.Cooldown.RequestRate)
	require.EqualValues(t, 3.5, s.Duration)
	for _, f := range []*Facts{nil, {PhaseDuration: 10, Cancelled: true}} { // killed, cancelled
		s = a.Summary(RunInfo{Facts: f})
		require.Equal(t, ThroughputWindow{"benchmark", 1, 4.5, 3.5, Amount{2, 196, 10}}, s.ThroughputWindow)
		require.Equal(t, 2/Number(3.5), s.RequestRate)
		require.Equal(t, 1/s.Cooldown.Duration, s.Cooldown.RequestRate)
		require.EqualValues(t, 3.5, s.Duration)
	}
}

// Under the window of the requests the cooldown divides by that of its own.
//
// Covers T-55.
func TestWindowOfTheCooldown(t *testing.T) {
	a := NewAggregate(Rules{})
	a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	late := good(0, 2, 0, 3, 3.5, 5)
	late.Bucket = Cooldown
	a.Add(late)
	s := a.Summary(RunInfo{Facts: &Facts{PhaseDuration: 10}})
	require.Equal(t, s.RequestRate, 1/s.Duration)
	require.Equal(t, s.Cooldown.RequestRate, 1/s.Cooldown.Duration)
	require.NotEqual(t, s.Duration, s.Cooldown.Duration)
}

func TestUsageUnknown(t *testing.T) {
	a := NewAggregate(Rules{})
	r := good(0, 0, 0, 1, 2, -1)
	r.PromptTokens, r.CachedTokens = 0, 0
	a.Add(r)
	s := a.Summary(RunInfo{})
	require.True(t, s.PromptTokens.IsMissing())
	require.True(t, s.OutputTokens.IsMissing())
	require.True(t, s.OutputTokenRate.IsMissing())
	require.True(t, s.TokenHitRate.IsMissing())
	require.Equal(t, 1, s.UsageMissing)
	require.Zero(t, s.ITL.N)
	a.Add(good(0, 0, 0, 1, 2, 3))
	s = a.Summary(RunInfo{})
	require.EqualValues(t, 98, s.PromptTokens)
	require.EqualValues(t, 40, s.CachedTokens)
	require.Equal(t, 1, s.UsageMissing)
}

// A run is valid or not under a scenario alone. A deadlocked tree is a reason without one too.
func TestVerdict(t *testing.T) {
	deadlocked := BranchCounts{Branches: conductor.Branches{TreesDeadlocked: 1}}
	plain, overridden := &Scenario{Name: "s"}, &Scenario{Name: "s", Overridden: []string{"a conflict"}}
	for _, c := range []struct {
		scenario *Scenario
		facts    *Facts
		valid    *bool
		reasons  []string
	}{
		{nil, &Facts{}, nil, nil},
		{nil, &Facts{Cancelled: true}, nil, nil},
		{nil, &Facts{Cancelled: true, Branches: deadlocked}, nil, []string{"wedged_tree"}},
		{nil, &Facts{Deadlocks: []DeadlockReport{{}}}, nil, []string{"wedged_tree"}}, // of the warmup
		{plain, nil, nil, nil},
		{plain, &Facts{}, new(true), nil},
		{plain, &Facts{Cancelled: true}, new(false), []string{"run_cancelled"}},
		{plain, &Facts{Branches: deadlocked}, new(false), []string{"wedged_tree"}},
		{overridden, &Facts{}, new(false), []string{"unsafe_override"}},
		{overridden, &Facts{Cancelled: true, Branches: deadlocked}, new(false), []string{"unsafe_override", "run_cancelled", "wedged_tree"}},
	} {
		for range 2 {
			s := NewAggregate(Rules{}).Summary(RunInfo{Run: Run{Scenario: c.scenario}, Facts: c.facts})
			require.Equal(t, c.valid, s.Valid, "%+v", c)
			require.Equal(t, c.reasons, s.Reasons, "%+v", c)
		}
	}
}

func TestTable(t *testing.T) {
	a := NewAggregate(Rules{})
	for i := range 1000 {
		a.Add(good(i%64, float64(i)/10, 0.0002, 0.1+float64(i%100)/1000+float64(i/999)*1e-5, 2, 100)) // the last by a little more, so that the mean is no tie
	}
	short := good(0, 101, 0.0002, 0.1, 2, 100)
	short.Trace, short.Session, short.Turn, short.MaxTokens, short.Bucket, short.Resent = "t", "t::sa:a", 3, 139, Cooldown, true
	a.Add(short)
	a.Add(bad(Profiling, "http_status"))
	a.Add(bad(Profiling, "connection"))
	a.Add(bad(Profiling, "connection"))
	a.Add(bad(ContextOverflow, "context_overflow"))
	info := RunInfo{
		Run:   Run{Preset: "aiperf-0.13", Switches: map[string]json.RawMessage{"tree-idle-cap": json.RawMessage("300"), "spawn-offset": json.RawMessage(`"recorded"`)}, Scenario: &Scenario{Name: "inferencex-agentx-mvp", Overridden: []string{"duration 60s: want 900s or more"}}},
		Lanes: 72, Out: "runs/c0072", Context: &Context{Tokens: 200000, Traces: 600, LeftOut: 31, Server: 131072, From: "max_model_len", Above: 40},
		Calibration: &Calibration{RequestRate: 12, SendRate: 3 << 20, TTFT: Quantiles{P50: 0.0012, P99: 0.003}},
		Facts: &Facts{
			Branches: BranchCounts{Branches: conductor.Branches{TreesDeadlocked: 1}}, CPU: 0.75, PeakRSS: 90 << 20, Cancelled: true, PhaseDuration: 103, Cores: 2,
			Load: &Load{Seconds: 100, Playing: 63.9, InFlight: 19.6, Requests: 19.9, MaxRequests: 41}, Prompts: &Prompts{Tokens: 1000, Reused: 417},
		},
	}
	s := a.Summary(info)
	s.Client.Bound, s.Client.BoundBy, s.Lateness.P99 = true, []string{"prefill-limit: requests waited for a slot"}, 0.0988
	s.AddRemarks(&a.ending, &info)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	golden(t, "testdata/table.txt", b.String())

	b.Reset()
	require.NoError(t, NewAggregate(Rules{}).Summary(RunInfo{Lanes: 2}).WriteTable(&b, 0))
	golden(t, "testdata/empty.txt", b.String())

	b.Reset()
	s.ErrorSamples["connection"] = []ErrorSample{{"dial tcp [2001:db8:85a3::8a2e:370:7334]:8000: connect: connection refused", 2}, {strings.Repeat("x", 100), 1}}
	require.NoError(t, s.WriteTable(&b, 60))
	golden(t, "testdata/narrow.txt", b.String())
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len(line), 61, line)
	}
}

// golden compares with a file, or writes it when AGENTX_GOLDEN is set.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("AGENTX_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"0 s": duration(0), "12.3 us": duration(12.34e-6), "999 us": duration(999.4e-6), "1.00 ms": duration(999.6e-6),
		"999 ms": duration(0.9994), "1.00 s": duration(0.9996), "100 s": duration(99.97), "1234 s": duration(1234), "-5.00 ms": duration(-0.005),
		"7": FormatQuantity(7), "0.80": FormatQuantity(0.8), "9999": FormatQuantity(9999), "10.0k": FormatQuantity(10000), "1000k": FormatQuantity(1e6), "12.3M": FormatQuantity(12.3e6),
		"15.0G": FormatQuantity(15e9), "-": FormatQuantity(Missing), "- ": FormatSeconds(Missing) + " ",
	} {
		require.Equal(t, want, got)
	}
}

func TestProcess(t *testing.T) {
	before := ReadProcessUsage()
	for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
	}
	used := ReadProcessUsage().Since(before)
	if before.PeakRSS == 0 {
		t.Skip("the system does not tell")
	}
	require.Positive(t, used.CPU)
	require.Greater(t, used.PeakRSS, int64(1<<20))
}

// Records of the warmup change no number of a summary but those of its block. Of a run that was killed the block has what
// records say.
func TestSummaryLeavesTheWarmupOut(t *testing.T) {
	var records []*Record
	with, without := NewAggregate(Rules{}), NewAggregate(Rules{})
	for k, bucket := range []Bucket{WarmupBucket, Profiling, WarmupBucket, ContextOverflow, Cooldown} {
		r := good(k, 1, float64(k), 0.5, 2.5, 5)
		if bucket == WarmupBucket {
			r.Phase = WarmupPhase
		}
		if k == 2 || k == 3 {
			r.Error = &Error{Category: wire.ContextOverflow, Message: "too long"}
		}
		r.Bucket, r.Credit = bucket, k
		records = append(records, r)
		with.Add(r)
		if bucket != WarmupBucket {
			without.Add(r)
		}
	}
	info := RunInfo{Lanes: 5, Facts: &Facts{Warmup: &WarmupFacts{Duration: 2.5, Primers: 2, PrimersFailed: 1, ReplacedLanes: 1}}}
	s := with.Summary(info)
	require.Equal(t, &Warmup{Requests: 2, Errors: map[wire.Category]int{wire.ContextOverflow: 1}, WarmupFacts: *info.Facts.Warmup}, s.Warmup)
	rebuilt := NewAggregate(Rules{})
	require.NoError(t, rebuilt.Rebuild(openRecords(t, writeRecords(t, records...))))
	requireSame(t, s, rebuilt.Summary(info))

	var table strings.Builder
	require.NoError(t, s.WriteTable(&table, 0))
	require.Contains(t, table.String(), "\nwarmup      2 requests in 2.50 s before the measured phase: 2 primers, 1 of them failed, 1 lane took another trace\n")

	info.Facts.Warmup = nil
	alone := without.Summary(info)
	require.Nil(t, alone.Warmup)
	s.Warmup = nil
	requireSame(t, alone, s)

	killed := with.Summary(RunInfo{}).Warmup
	require.Equal(t, 2, killed.Requests)
	require.True(t, killed.Primers.IsMissing())
}

// requireSame compares what is written of two summaries.
func requireSame(t *testing.T, want, got Summary) {
	t.Helper()
	var w, g strings.Builder
	require.NoError(t, want.WriteJSON(&w))
	require.NoError(t, got.WriteJSON(&g))
	require.JSONEq(t, w.String(), g.String())
}

// answerOf returns a request that was sent after 2 s, and had messages at instants since, each with a number of tokens; -1: not told.
func answerOf(output int64, messages ...[2]float64) *Record {
	r := &Record{Phase: ProfilingPhase, Bucket: Profiling, Numbers: Numbers{Sent: At(2), End: At(20), OutputTokens: Tokens(output), PromptTokens: Tokens(100)}}
	for _, m := range messages {
		r.Contents.Add(time.Duration(m[0]*1e9), int64(m[1]))
		if r.LastToken = At(r.Sent.Seconds() + m[0]); r.FirstToken == 0 {
			r.FirstToken = r.LastToken
		}
	}
	return r
}

// What had come by the deadline is counted to the token.
//
// Covers T-221.
func TestOutputByTheDeadline(t *testing.T) {
	cutoff := Cutoff{Deadline: 5 * time.Second, CountGrace: true}
	even := [][2]float64{{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}
	three := answerOf(9, even...)
	three.FirstChunkTokens = Tokens(3)
	failed := answerOf(9, even...)
	failed.Error = &Error{Category: wire.Timeout}
	unknown := answerOf(10, [2]float64{1, -1}, [2]float64{5, -1})
	unknown.Contents = wire.Contents{}
	for name, c := range map[string]struct {
		r    *Record
		want float64
	}{
		"a token each": {answerOf(5, even...), 3}, "two and more each": {answerOf(9, even...), 5}, "three in the first": {three, 6},
		"a fraction":              {answerOf(4, even...), 1 + 3*2/4.0},
		"told of each":            {answerOf(9, [2]float64{1, 4}, [2]float64{2, 3}, [2]float64{4, 2}), 7},
		"told, but not all":       {answerOf(11, [2]float64{1, 4}, [2]float64{2, 3}, [2]float64{4, 2}), 6},
		"at the deadline":         {answerOf(7, [2]float64{1, -1}, [2]float64{3, -1}), 7},
		"a nanosecond later":      {answerOf(7, [2]float64{1, -1}, [2]float64{3.000000001, -1}), 1},
		"the first token is late": {answerOf(7, [2]float64{3.5, -1}, [2]float64{4, -1}), 0},
		"no count":                {answerOf(-1, even...), 0}, "failed": {failed, 0}, "instants not known": {unknown, 5},
	} {
		cutoff.Deliver(c.r)
		require.Equal(t, 5.0, c.r.Deadline.Seconds(), name)
		require.InDelta(t, c.want, c.r.OutputByDeadline, 1e-12, name)
	}
	inTime := answerOf(5, even...)
	inTime.End = At(5)
	cutoff.Deliver(inTime)
	Cutoff{}.Deliver(inTime)
	require.Zero(t, inTime.Deadline.Seconds())
	require.Zero(t, testing.AllocsPerRun(10, func() { cutoff.Deliver(three) }))
}

// The rates under DeliveredOnly are of what had come by the deadline; everything else is over all requests.
//
// Covers T-221.
func TestDeliveredRates(t *testing.T) {
	cutoff := Cutoff{Deadline: 5 * time.Second, CountGrace: true}
	even := [][2]float64{{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}
	a := NewAggregate(Rules{GraceIncluded: true, DeliveredOnly: true})
	late, later, failed := answerOf(10, even...), answerOf(7, [2]float64{3.5, -1}, [2]float64{4, -1}), bad(Profiling, wire.Timeout)
	for _, r := range []*Record{good(0, 0, 0, 0.5, 2.5, 5), late, later, failed} {
		cutoff.Deliver(r)
		a.Add(r)
	}
	facts := &Facts{PhaseDuration: 20, Deadline: 5}
	s := a.Summary(RunInfo{Run: Run{Counting: Counting}, Facts: facts})
	want := ThroughputWindow{"delivered", 0, 5, 5, Amount{1, 198, 5 + 1 + 9*2/4.0}}
	require.Equal(t, want, s.ThroughputWindow)
	require.Equal(t, want, s.Delivered)
	require.Equal(t, 3, s.Measured)
	require.EqualValues(t, 0.2, s.RequestRate)
	require.EqualValues(t, 198/5.0, s.PromptTokenRate)
	require.EqualValues(t, 10.5/5, s.OutputTokenRate)
	require.EqualValues(t, 22, s.OutputTokens)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "over 5.00 s up to the deadline, by which 1 of the 3 had completed\n")

	facts.Deadline = 0
	require.EqualValues(t, 50, a.Summary(RunInfo{Facts: facts}).ThroughputWindow.Seconds, "the last end, which is that of a failure")
	require.EqualValues(t, 5, a.Summary(RunInfo{}).ThroughputWindow.Seconds, "killed in the grace: records tell the deadline")
	facts.Deadline, facts.PhaseDuration = 30, 20
	require.EqualValues(t, 20, a.Summary(RunInfo{Facts: facts}).ThroughputWindow.Seconds, "everything was played before the deadline")
	require.True(t, a.Summary(RunInfo{Facts: facts}).Delivered.Seconds.IsMissing(), "records of an earlier version do not tell")
}

// A run in which nothing completed has no rates, and says so in words.
func TestThroughputOfNothing(t *testing.T) {
	var b strings.Builder
	require.NoError(t, aggregated(bad(Profiling, wire.Timeout)).Summary(RunInfo{}).WriteTable(&b, 0))
	require.Contains(t, b.String(), "\nthroughput  none: no request completed\n")
}

// Results without a version of the counting are read as they were meant.
//
// Covers T-221.
func TestSwitchesOfEarlierResults(t *testing.T) {
	now, err := SwitchesOfRun(Run{Preset: preset.Default, Counting: Counting})
	require.NoError(t, err)
	require.True(t, now.CountGrace)
	require.Equal(t, preset.WindowDelivered, now.ThroughputWindow)
	for _, name := range []string{"", preset.Default} {
		then, err := SwitchesOfRun(Run{Preset: name})
		require.NoError(t, err)
		require.False(t, then.CountGrace)
		require.Equal(t, preset.WindowBenchmark, then.ThroughputWindow)
	}
	set, err := SwitchesOfRun(Run{Preset: preset.Default, Switches: map[string]json.RawMessage{"count-grace": json.RawMessage("true"), "throughput-window": json.RawMessage(`"phase"`)}})
	require.NoError(t, err)
	require.True(t, set.CountGrace)
	require.Equal(t, preset.WindowPhase, set.ThroughputWindow)
	same, err := SwitchesOfRun(Run{Preset: preset.AIPerf})
	require.NoError(t, err)
	require.True(t, same.CountGrace)
}
