package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// More than a tenth of buffered answers puts a remark on ttft and itl, in the summary and in its table; a tenth does not.
//
// Covers T-202.
func TestBufferedAnswersAreARemark(t *testing.T) {
	for _, buffered := range []int{0, 1, 2} {
		a := NewAggregate(Rules{})
		for k := range 10 {
			r := good(0, 0, 0, 1, 2, 200)
			if k < buffered {
				r.Burst = 24 + 3*k
			}
			a.Add(r)
		}
		s := a.Summary(RunInfo{})
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		if buffered < 2 {
			require.NotContains(t, kindsOf(&s), "buffered")
			require.NotContains(t, b.String(), "buffered: ")
			continue
		}
		require.Equal(t, Number(25.5), s.Deviations["buffered"].Typical)
		require.Contains(t, s.Remarks, Remark{"buffered", Warning, []string{"ttft", "itl"},
			"buffered: ttft and itl tell when a buffer was emptied, for 2 of 10 answers, typically 26 messages at once", nil})
		require.Contains(t, b.String(), " buffered: ttft and itl")
	}
}

func kindsOf(s *Summary) (kinds []string) {
	for _, r := range s.Remarks {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func detailOf(s *Summary, kind string) []string {
	for _, r := range s.Remarks {
		if r.Kind == kind {
			return r.Detail
		}
	}
	return nil
}

// A run that was short says by which clock it was. Where nothing completed, no tree has a length that says anything.
func TestShortRun(t *testing.T) {
	s := aggregated(good(0, 1, 0, 0.1, 0.4, 5)).Summary(RunInfo{})
	require.Contains(t, s.RemarksOf(Warning), "short: it took 500 ms from its first request to the end of its last, less than three of its median trees (500 ms)")
	s = aggregated(bad(Profiling, wire.Timeout)).Summary(RunInfo{})
	require.NotContains(t, kindsOf(&s), "short")
}

func aggregated(list ...*Record) *Aggregate {
	a := NewAggregate(Rules{})
	for _, r := range list {
		a.Add(r)
	}
	return a
}

// TestRemarks makes each remark, and takes it away again by one step. What broke a run stands first.
//
// Covers T-207.
func TestRemarks(t *testing.T) {
	first, second, no := 0, 1, false
	// healthy is a run of 200 requests in four lanes, a tree each of five requests, over 100 s.
	healthy := func() (list []*Record, info RunInfo) {
		for k := range 200 {
			r := good(k%4, float64(k)/2, 0, 0.1, 0.4, 5)
			r.Tree, r.RecordedISL, r.MaxTokens, r.FirstByte, r.LastByte, r.URL = k/5, 98, 5, At(r.Sent.Seconds()+0.1), At(r.Sent.Seconds()+0.4), &first
			list = append(list, r)
		}
		return list, RunInfo{Run: Run{URL: "http://a", URLs: []string{"http://a", "http://b"}, Servers: []Server{{URL: "http://a"}, {URL: "http://b"}}}, Lanes: 4, Facts: &Facts{
			PhaseDuration: 100, Deadline: 100, CPU: 1, Cores: 2, Prompts: &Prompts{Tokens: 100, Reused: 90}, Load: &Load{Seconds: 100, Playing: 4, InFlight: 1},
		}}
	}
	type change func(list []*Record, info *RunInfo)
	fail := func(r *Record, category wire.Category) {
		r.Error, r.FirstByte, r.LastByte, r.FirstToken, r.LastToken = &Error{Category: category, Message: "m"}, 0, 0, 0, 0
	}
	failures := func(n int) change {
		return func(list []*Record, _ *RunInfo) {
			for k := range n {
				fail(list[2*k], wire.HTTPStatus)
			}
		}
	}
	death := func(n, at int) change { // the second server leaves n requests without an answer, the last of them number at
		return func(list []*Record, _ *RunInfo) {
			for k := range list {
				if k%2 == 1 {
					list[k].URL = &second
				}
			}
			for k := range n {
				fail(list[at-2*k], wire.Connection)
			}
		}
	}
	stall := func(after float64) change { // three answers stop midway; the last request, sent so long after the second of them failed, gets none
		return func(list []*Record, _ *RunInfo) {
			for k := range list[:4] {
				r := list[199-k]
				r.Sent = At(99 + float64(k)/10)
				r.FirstByte, r.LastByte, r.End = At(r.Sent.Seconds()+0.1), At(r.Sent.Seconds()+0.2), At(r.Sent.Seconds()+3)
				fail(r, wire.Stalled)
				r.FirstByte, r.LastByte = At(r.Sent.Seconds()+0.1), At(r.Sent.Seconds()+0.2)
			}
			list[199].Sent = At(102.2 + after)
			list[199].FirstByte, list[199].LastByte, list[199].End = 0, 0, At(list[199].Sent.Seconds()+3)
		}
	}
	silence := func(last, waiting int) change { // nothing came after a record; the others were cancelled from one on
		return func(list []*Record, _ *RunInfo) {
			for k := last + 1; k < len(list); k++ {
				*list[k] = *list[last]
				if k >= waiting {
					list[k].Bucket, list[k].Sent, list[k].End = CancelledAtEnd, At(float64(k)/2), At(100)
					fail(list[k], wire.Cancelled)
				}
			}
		}
	}
	cut := func(n int) change {
		return func(list []*Record, _ *RunInfo) {
			for _, r := range list[:n] {
				fail(r, wire.Cancelled)
				r.Bucket = CancelledAtEnd
			}
		}
	}
	burst := func(lanes int, ttft float64) change { // all requests but for the first of each of 12 lanes, and 6 others, are quick
		return func(list []*Record, _ *RunInfo) {
			for k, r := range list {
				if r.Lane = k % 12; k < 12 {
					r.Sent = At(0)
				}
				if k < 12 || k > 196 {
					r.FirstToken = At(r.Sent.Seconds() + ttft)
				}
			}
		}
	}
	cases := []struct {
		kind      string
		made, not change
	}{
		{"failed", failures(21), failures(20)},
		{"gone", death(3, 199), death(2, 199)},
		{"gone", death(3, 199), death(3, 197)},
		{"gone", stall(0.1), stall(-0.05)},
		{"silent_end", silence(79, 80), silence(81, 82)},
		{"killed", func(_ []*Record, i *RunInfo) { i.Facts = nil }, func([]*Record, *RunInfo) {}},
		{"interrupted", func(_ []*Record, i *RunInfo) { i.Facts.Cancelled = true }, func([]*Record, *RunInfo) {}},
		{"invalid", func(_ []*Record, i *RunInfo) { i.Scenario = &Scenario{Overridden: []string{"x"}} }, func(_ []*Record, i *RunInfo) { i.Scenario = &Scenario{} }},
		{"deadlocked", func(_ []*Record, i *RunInfo) { i.Facts.Branches.TreesDeadlocked = 1 }, func([]*Record, *RunInfo) {}},
		{"partial", func(_ []*Record, i *RunInfo) { i.Parts = &Parts{Of: 2, Used: 1, List: []PartReport{{LeftOut: "no"}}} }, func(_ []*Record, i *RunInfo) { i.Parts = &Parts{Of: 1, Used: 1} }},
		{"empty", failures(0), nil},
		{"errors", failures(3), failures(2)},
		{"overflow", func(list []*Record, _ *RunInfo) {
			for _, r := range list[:3] {
				fail(r, wire.ContextOverflow)
				r.Bucket = ContextOverflow
			}
		}, func(list []*Record, _ *RunInfo) {
			fail(list[0], wire.ContextOverflow)
			list[0].Bucket = ContextOverflow
		}},
		{"left_out", cut(11), cut(10)},
		{"short", func(list []*Record, _ *RunInfo) {
			for _, r := range list {
				r.Tree = r.Tree % 4
			}
		}, func(list []*Record, _ *RunInfo) {
			for k, r := range list {
				r.Tree = k / 66 // 33.4 s of 99.9
			}
		}},
		{"standstill", func(_ []*Record, i *RunInfo) {
			i.Facts.Standstills = &Standstills{N: 1, Seconds: 1.1, Longest: Standstill{1, 1.1, 1}}
		}, func(_ []*Record, i *RunInfo) {
			i.Facts.Standstills = &Standstills{N: 1, Seconds: 1, Longest: Standstill{1, 1, 1}}
		}},
		{"standstill", func(_ []*Record, i *RunInfo) {
			i.Parts = &Parts{Of: 1, Used: 1, List: []PartReport{{Standstills: &Standstills{N: 1, Seconds: 1.1, Longest: Standstill{1, 1.1, 1}}}}}
		}, func([]*Record, *RunInfo) {}},
		{"content_filter", func(list []*Record, _ *RunInfo) {
			for _, r := range list {
				r.FinishReason = "content_filter"
			}
		}, func(list []*Record, _ *RunInfo) { list[0].FinishReason = "content_filter" }},
		{"client_bound", func(list []*Record, _ *RunInfo) { fail(list[0], wire.Internal) }, func(list []*Record, _ *RunInfo) { fail(list[0], wire.Timeout) }},
		{"long_traces", func(_ []*Record, i *RunInfo) { i.Context = &Context{Traces: 2, Server: 9, Above: 1} }, func(_ []*Record, i *RunInfo) { i.Context = &Context{Traces: 2, Server: 9} }},
		{"left_out_traces", func(_ []*Record, i *RunInfo) { i.Context = &Context{Traces: 2, Tokens: 9, LeftOut: 1} }, func(_ []*Record, i *RunInfo) { i.Context = &Context{Traces: 2, Tokens: 9} }},
		{"calibration", func(_ []*Record, i *RunInfo) {
			i.Calibration = &Calibration{RequestRate: 3, TTFT: Quantiles{0.01, 0.01}}
		}, func(_ []*Record, i *RunInfo) {
			i.Calibration = &Calibration{RequestRate: 30, TTFT: Quantiles{0.01, 0.01}}
		}},
		{"lanes", func(_ []*Record, i *RunInfo) { i.Lanes = 5 }, func([]*Record, *RunInfo) {}},
		{"lanes", func(_ []*Record, i *RunInfo) { i.Facts.Load.Playing = 3.1 }, func(_ []*Record, i *RunInfo) { i.Facts.Load.Playing = 3.3 }},
		{"prompts", func(list []*Record, _ *RunInfo) { each(list, func(r *Record) { r.RecordedISL = 104 }) }, func(list []*Record, _ *RunInfo) { each(list, func(r *Record) { r.RecordedISL = 103 }) }},
		{"output", func(list []*Record, _ *RunInfo) { each(list, func(r *Record) { r.MaxTokens = 6 }) }, func(list []*Record, _ *RunInfo) { list[0].MaxTokens = 6 }},
		{"reuse", func(list []*Record, i *RunInfo) {
			each(list, func(r *Record) { r.RecordedBlocks, r.RecordedHits = 10, 9 })
			i.Facts.Prompts.Reused = 79
		}, func(list []*Record, i *RunInfo) {
			each(list, func(r *Record) { r.RecordedBlocks, r.RecordedHits = 10, 9 })
			i.Facts.Prompts.Reused = 81
		}},
		{"cached", func(list []*Record, i *RunInfo) { i.Facts.Prompts.Reused = 35 }, func(list []*Record, i *RunInfo) { i.Facts.Prompts.Reused = 36 }},
		{"filler", func(_ []*Record, i *RunInfo) { i.Dataset.Texts = &Texts{Formats: []string{"claude"}, Filler: 0.2} }, func(_ []*Record, i *RunInfo) { i.Dataset.Texts = &Texts{Formats: []string{"messages"}} }},
		{"prefix_caching", func(_ []*Record, i *RunInfo) { i.Servers[1].PrefixCaching = &no }, func(_ []*Record, i *RunInfo) { i.Servers[1].PrefixCaching, i.Facts.Prompts.Reused = &no, 10 }},
		{"prefix_caching", func(list []*Record, _ *RunInfo) { each(list, func(r *Record) { r.CachedTokens = Tokens(0) }) }, func(list []*Record, _ *RunInfo) { each(list[1:], func(r *Record) { r.CachedTokens = Tokens(0) }) }},
		{"start_burst", burst(4, 2.05), burst(4, 0.195)},
		{"start_burst", func(list []*Record, _ *RunInfo) {
			for k, r := range list[:12] {
				r.Sent, r.FirstToken = At(0), At(9)
				r.Lane = k
			}
		}, func(list []*Record, _ *RunInfo) { // others are as slow
			for k, r := range list[:40] {
				r.Sent, r.FirstToken = At(float64(k/12)), At(float64(k/12)+9)
				r.Lane = k % 12
			}
		}},
		{"few", func(list []*Record, _ *RunInfo) {
			for _, r := range list[99:] {
				r.Bucket = Cooldown
			}
		}, func(list []*Record, _ *RunInfo) {
			for _, r := range list[100:] {
				r.Bucket = Cooldown
			}
		}},
		{"insecure", func(_ []*Record, i *RunInfo) {
			i.Options = []Option{{Name: "insecure", Value: json.RawMessage("true")}}
		}, func(_ []*Record, i *RunInfo) {
			i.Options = []Option{{Name: "insecure", Value: json.RawMessage("false")}}
		}},
	}
	seen := map[string]bool{"silent_tokens": true, "buffered": true} // have tests of their own
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			seen[c.kind] = true
			for _, change := range []struct {
				by   change
				want bool
			}{{c.made, true}, {c.not, false}} {
				if change.by == nil {
					continue
				}
				list, info := healthy()
				change.by(list, &info)
				if c.kind == "empty" {
					list = nil
				}
				forth, back := NewAggregate(Rules{}, info.SLO...), NewAggregate(Rules{}, info.SLO...)
				for k := range list {
					forth.Add(list[k])
					back.Add(list[len(list)-1-k])
				}
				s, reversed := forth.Summary(info), back.Summary(info)
				require.Equal(t, change.want, slices.Contains(kindsOf(&s), c.kind), "%v: %v", change.want, s.Remarks)
				require.Equal(t, kindsOf(&s), kindsOf(&reversed), "whatever the order of the records")
				broke := len(s.RemarksOf(Broken))
				require.Equal(t, broke, len(s.Remarks[:broke]), "first")
				for _, r := range s.Remarks {
					require.True(t, strings.HasPrefix(r.Text, r.Kind+": "), r.Text)
				}
			}
		})
	}
	for _, rule := range remarkRules {
		require.True(t, seen[rule.kind], "%s has no case", rule.kind)
	}
	list, info := healthy()
	a := NewAggregate(Rules{})
	for k, r := range list {
		r.Credit = k
		a.Add(r)
	}
	s := a.Summary(info)
	require.Empty(t, s.Remarks, "of a healthy run")
	info.Facts = nil
	s = a.Summary(info)
	require.NotContains(t, s.RemarksOf(Warning)[0], "without at least")
	list[0].Credit = 202 // a record again, of a request behind three that have none
	a.Add(list[0])
	s = a.Summary(info)
	require.Contains(t, s.RemarksOf(Warning)[0], ", without at least 2 requests")
	require.Contains(t, s.outcomes()[1].Note, "at least 2 more have no record")
	info.Options = append(info.Options, Option{Name: "duration", Value: []byte("3600")})
	s = a.Summary(info)
	require.Regexp(t, `is not over, after [\d.]+ s of 3600 s: its figures`, s.RemarksOf(Warning)[0])
}

// An interrupt is the deadline of a phase, which then goes on to its last answer.
//
// Covers T-207.
func TestInterruptedWhen(t *testing.T) {
	for deadline, want := range map[float64]string{0: "12.0 s", 9: "9.00 s", 60: "12.0 s"} {
		e := evidence{info: &RunInfo{Facts: &Facts{Cancelled: true, PhaseDuration: 12, Deadline: deadline}}}
		text, _ := e.interrupted()
		require.Equal(t, "the run was stopped before its bound, "+want+" after the start of the phase", text)
		e.info.Options = []Option{{Name: "duration", Value: []byte("60")}}
		text, _ = e.interrupted()
		require.Contains(t, text, " after the start of the phase, which was to last 60.0 s")
	}
}

func each(list []*Record, change func(*Record)) {
	for _, r := range list {
		change(r)
	}
}

// TestDeviations checks each kind of deviation within and beyond its tolerance.
func TestDeviations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *Record)
		kind   string
		what   string
	}{
		"as asked":             {func(*Record) {}, "", ""},
		"one percent short":    {func(r *Record) { r.OutputTokens = Tokens(198) }, "", ""},
		"more than that":       {func(r *Record) { r.OutputTokens = Tokens(197) }, "short_output", "197 tokens for 200"},
		"at the context's end": {func(r *Record) { r.MaxTokens, r.OutputTokens = 139, Tokens(131) }, "short_output", "131 tokens for 139"},
		"reasoning counts":     {func(r *Record) { r.OutputTokens, r.ReasoningTokens = Tokens(150), Tokens(50) }, "", ""},
		"one percent long":     {func(r *Record) { r.OutputTokens = Tokens(202) }, "", ""},
		"much longer":          {func(r *Record) { r.MaxTokens, r.OutputTokens = 48, Tokens(6144) }, "long_output", "6144 tokens for 48"},
		"one for none":         {func(r *Record) { r.MaxTokens = 0 }, "", ""},
		"one body":             {func(r *Record) { r.SingleBody, r.Chunks, r.MaxTokens, r.OutputTokens = true, 1, 5, Tokens(5) }, "not_streamed", "one body"},
		"one message":          {func(r *Record) { r.Chunks = 1 }, "not_streamed", "one message of 200 tokens"},
		"one message for few":  {func(r *Record) { r.Chunks, r.MaxTokens, r.OutputTokens = 1, 16, Tokens(16) }, "", ""},
		"in bursts":            {func(r *Record) { r.Burst = 24 }, "buffered", "24 messages at once"},
		"silent":               {func(r *Record) { r.Silent = 70 }, "silent_tokens", "70 % of them"},
		"events as JSON":       {func(r *Record) { r.EventsAs = "application/json" }, "events_as", "Content-Type application/json"},
		"filtered":             {func(r *Record) { r.FinishReason = "content_filter" }, "content_filter", "after 200 tokens"},
		"no usage":             {func(r *Record) { r.OutputTokens, r.PromptTokens = 0, 0 }, "no_usage", "no usage"},
		"half a usage":         {func(r *Record) { r.PromptTokens = 0 }, "no_usage", "no usage"},
		"a template's tokens":  {func(r *Record) { r.PromptTokens = Tokens(1000 + 100 + 128) }, "", ""},
		"other vocabulary":     {func(r *Record) { r.PromptTokens = Tokens(1000 + 100 + 129) }, "prompt_count", "1229 tokens for 1000 recorded"},
		"prompt cut":           {func(r *Record) { r.PromptTokens = Tokens(1000 - 100 - 129) }, "prompt_count", "771 tokens for 1000 recorded"},
		"all cached":           {func(r *Record) { r.CachedTokens = Tokens(1000) }, "", ""},
		"more than all":        {func(r *Record) { r.CachedTokens = Tokens(1001) }, "cached_count", "1001 cached of 1000 tokens"},
		"first tokens":         {func(r *Record) { r.FirstChunkTokens = Tokens(4) }, "", ""},
		"lagging first tokens": {func(r *Record) { r.FirstChunkTokens = Tokens(0) }, "first_tokens", "0 of 200 tokens in the first of 200 messages"},
		"all in the first":     {func(r *Record) { r.FirstChunkTokens = Tokens(200) }, "first_tokens", "200 of 200 tokens in the first of 200 messages"},
		"one message of all": {func(r *Record) {
			r.Chunks, r.MaxTokens, r.OutputTokens, r.FirstChunkTokens = 1, 16, Tokens(16), Tokens(16)
		}, "", ""},
		"redirected":            {func(r *Record) { r.Redirected = true }, "redirected", "redirected by the server"},
		"failed":                {func(r *Record) { r.Error, r.Redirected = &Error{Category: "timeout"}, true }, "", ""},
		"cancelled at the end":  {func(r *Record) { r.Bucket, r.OutputTokens = CancelledAtEnd, 0 }, "", ""},
		"in cooldown it counts": {func(r *Record) { r.Bucket, r.OutputTokens = Cooldown, Tokens(1) }, "short_output", "1 tokens for 200"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good(0, 0, 0, 1, 2, 200)
			r.Trace, r.Session, r.Turn, r.RecordedISL, r.PromptTokens = "t", "s", 3, 1000, Tokens(1000)
			c.change(r)
			a := NewAggregate(Rules{})
			first, again := a.Add(r), a.Add(r)
			require.Empty(t, again, "it is said once")
			got := a.Summary(RunInfo{}).Deviations
			require.Len(t, got, len(deviations))
			for kind, d := range got {
				if kind != c.kind {
					require.Equal(t, Deviation{}, d, kind)
				}
			}
			if c.kind == "" {
				require.Empty(t, first)
				return
			}
			example := `trace "t", session "s", turn 3: ` + c.what
			require.Equal(t, example, got[c.kind].Example)
			require.Equal(t, 2, got[c.kind].Requests)
			require.Len(t, first, 1)
			require.Equal(t, c.kind, first[0].Kind)
			require.Contains(t, first[0].Message, ": "+example)
		})
	}
}

// What was delivered stands beside what was recorded and asked for. Requests that failed, or ended late, are not in it.
func TestFidelity(t *testing.T) {
	a := NewAggregate(Rules{})
	a.Add(good(0, 1, 0, 0.5, 2, 5)) // 98 prompt tokens for 100, 40 of them cached
	late := good(1, 2, 0.5, 0.5, 2, 3)
	late.RecordedBlocks, late.RecordedHits, late.MaxTokens = 10, 8, 5
	uncounted := good(1, 4, 0, 0.5, 2, 7)
	uncounted.PromptTokens, uncounted.CachedTokens, uncounted.OutputTokens = 0, 0, 0
	uncounted.RecordedBlocks, uncounted.RecordedHits = 10, 1
	cooled := good(1, 4, 9, 0.5, 2, 7)
	cooled.Bucket = Cooldown
	for _, r := range []*Record{late, uncounted, cooled, bad(Profiling, "timeout")} {
		a.Add(r)
	}
	facts := &Facts{
		PhaseDuration: 10, CPU: 5, Cores: 2, Prompts: &Prompts{Tokens: 400, Reused: 100},
		Load: &Load{Seconds: 8, Playing: 3.5, InFlight: 2.5, Requests: 4.5, MaxRequests: 9},
	}
	f := a.Summary(RunInfo{Lanes: 4, Facts: facts}).Fidelity
	require.Equal(t, Fidelity{
		PromptTokens:     PromptFidelity{Recorded: 200, Sent: 196, Ratio: 0.98},
		OutputTokens:     OutputFidelity{Asked: 10, Got: 8, Ratio: 0.8},
		PrefixReuse:      PrefixReuse{Recorded: 0.45, Sent: 0.25, Reported: 80.0 / 196},
		Lanes:            LaneUse{Configured: 4, Playing: 3.5, InFlight: 2.5},
		RequestsInFlight: InFlight{Mean: 4.5, Max: 9},
		Gaps:             Gaps{Kept: Number(2) / 3, P50: 0, P99: f.Gaps.P99, Max: 0.5},
		Client:           ClientShare{Time: 0.5 / 6.5, CPU: 0.25},
	}, f)
	require.InDelta(t, 0.49, float64(f.Gaps.P99), 1e-9)

	f = a.Summary(RunInfo{Lanes: 4}).Fidelity // of a run that was killed
	for _, n := range []Number{f.PrefixReuse.Sent, f.Lanes.Playing, f.Lanes.InFlight, f.RequestsInFlight.Mean, f.RequestsInFlight.Max, f.Client.CPU} {
		require.True(t, n.IsMissing())
	}
	require.EqualValues(t, 0.98, f.PromptTokens.Ratio)
}

// Figures of a run are compared with those of the machine alone, and named where they are near.
func TestCalibrationCompared(t *testing.T) {
	calibrated := func(rate, ttft Number) []string {
		a := NewAggregate(Rules{})
		a.Add(good(0, 0, 0, 0.5, 2, 5)) // one request in two seconds
		s := a.Summary(RunInfo{Calibration: &Calibration{RequestRate: rate, TTFT: Quantiles{ttft, ttft}}})
		require.Equal(t, s.Calibration.Near, detailOf(&s, "calibration"))
		return s.Calibration.Near
	}
	require.Nil(t, calibrated(1, 0.25))
	require.Equal(t, []string{"0.50 requests/s are 56 % of the 0.90 that this machine reaches alone"}, calibrated(0.9, 0.25))
	require.Equal(t, []string{"the median ttft 500 ms is 1.9 times the 260 ms that this machine needs alone"}, calibrated(1, 0.26))
	require.Len(t, calibrated(0.1, 3), 2)
	require.Nil(t, calibrated(Missing, Missing))
	s := NewAggregate(Rules{}).Summary(RunInfo{})
	require.Nil(t, s.Calibration)
	require.Nil(t, detailOf(&s, "calibration"))
}

// The summary counts the finish reasons of requests that ended well, and the table says when a filter ended all of them.
//
// Covers T-112.
func TestFinishReasons(t *testing.T) {
	a := NewAggregate(Rules{})
	add := func(reason string, failed bool) {
		r := good(0, 0, 0, 1, 2, 200)
		r.FinishReason = reason
		if failed {
			r.Error = &Error{Category: "stream_error_payload"}
		}
		a.Add(r)
	}
	table := func() string {
		var b strings.Builder
		s := a.Summary(RunInfo{})
		require.NoError(t, s.WriteTable(&b, 0))
		return b.String()
	}
	require.NotContains(t, table(), "finished ")
	add("content_filter", false)
	add("abort", true)
	require.Contains(t, table(), "content_filter: a content filter of the server ended every answer")
	add("stop", false)
	add("stop", false)
	add("", false)
	require.Equal(t, FinishReasons{"stop": 2, "none": 1, "content_filter": 1}, a.Summary(RunInfo{}).FinishReasons)
	require.Contains(t, table(), "finished    2 stop, 1 content_filter, 1 none\n")
	require.NotContains(t, table(), "ended every answer")
	for k := range 2 * maxReasons {
		add(fmt.Sprintf("%d%s", k, strings.Repeat("é", 100)), false)
	}
	got := a.Summary(RunInfo{}).FinishReasons
	require.Len(t, got, maxReasons+1)
	require.Equal(t, maxReasons+3, got["other"])
	for reason := range got {
		require.LessOrEqual(t, len(reason), maxReason)
	}
}

// The table says where certificates were not looked at.
//
// Covers T-141.
func TestInsecureIsSaid(t *testing.T) {
	for value, said := range map[string]bool{"true": true, "false": false} {
		s := NewAggregate(Rules{}).Summary(RunInfo{Run: Run{Options: []Option{{Name: "insecure", Value: []byte(value)}}}})
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		require.Equal(t, said, strings.Contains(b.String(), "insecure: the certificates of the servers were not looked at"), value)
	}
}

// The warning about a lane that sent nothing says where it began, and whether its first request was still to come.
func TestDescribeSilence(t *testing.T) {
	l := LaneReport{Lane: 7, Trace: "a", TStar: Missing}
	require.Equal(t, `lane 7 sent nothing: it played trace "a"`, l.DescribeSilence())
	l.TStar, l.FirstDue = 12.5, 214.25
	require.Equal(t, `lane 7 sent nothing: it played trace "a" from t* = 12.500 s, and its first request is due after 214 s (--lane-start-cap bounds that)`, l.DescribeSilence())
}

// The servers of a run are named with what they tell, those that tell the same together. A server that tells nothing has no words.
func TestServerText(t *testing.T) {
	on, off := true, false
	for _, test := range []struct {
		want string
		list []Server
	}{
		{"", nil},
		{"", []Server{{URL: "http://a"}, {URL: "http://b"}}},
		{"http://a: vllm 0.11.0, prefix caching on", []Server{{URL: "http://a", Software: "vllm", Version: "0.11.0", PrefixCaching: &on}}},
		{"http://a: 0.11.0, prefix caching unknown", []Server{{URL: "http://a", Version: "0.11.0"}}},
		{"http://a, http://c: prefix caching off; http://b", []Server{{URL: "http://a", PrefixCaching: &off}, {URL: "http://b"}, {URL: "http://c", PrefixCaching: &off}}},
		{"a, b, c, d, and 1 more: prefix caching on", []Server{{URL: "a", PrefixCaching: &on}, {URL: "b", PrefixCaching: &on}, {URL: "c", PrefixCaching: &on}, {URL: "d", PrefixCaching: &on}, {URL: "e", PrefixCaching: &on}}},
	} {
		require.Equal(t, test.want, (&Run{Servers: test.list}).ServerText())
	}
}

// Covers T-222.
func TestUnseenRequests(t *testing.T) {
	run := func(seen, cut, over, cooled int) Summary {
		a := NewAggregate(Rules{})
		for k, n := range []int{seen, cut, over, cooled} {
			for range n {
				r := good(0, 1, 0, 0.5, 2.5, 5)
				switch k {
				case 1:
					r = bad(CancelledAtEnd, wire.Cancelled)
				case 2:
					r = bad(ContextOverflow, wire.ContextOverflow)
				case 3:
					r.Bucket = Cooldown
				}
				a.Add(r)
			}
		}
		return a.Summary(RunInfo{Run: Run{Scenario: &Scenario{Name: "s"}}, Facts: &Facts{PhaseDuration: 10}})
	}
	table := func(s Summary) string {
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		return b.String()
	}
	s := run(95, 5, 0, 0)
	require.Equal(t, Unseen{5, 0.05}, s.Unseen)
	require.NotContains(t, kindsOf(&s), "left_out")
	require.Contains(t, table(s), ".\nrequests    100 sent: 5 cut off at the end (5.00 % in no figure); 95 completed, 0 failed (0 %)\n")
	require.Contains(t, table(s), "valid       yes\n")

	s = run(80, 12, 1, 7)
	require.Equal(t, Unseen{20, 0.2}, s.Unseen)
	causes := "1 overflowed the context, 12 cut off at the end, 7 ended after the deadline"
	text := causes + " (20.0 % in no figure)"
	require.Contains(t, s.Remarks, Remark{"left_out", Warning, []string{}, "left_out: 20 of 100 requests are in no figure (" + causes + "), so tails are cut", nil})
	require.Contains(t, table(s), ".\nrequests    100 sent: "+text+"; 87 completed, 0 failed (0 % with the cooldown)\n")
	s.Valid = new(true) // so many overflows are a reason under every scenario
	require.Contains(t, table(s), "valid       yes, but of 100 requests "+text+"\n")

	s = run(7, 0, 0, 0)
	require.Equal(t, Unseen{}, s.Unseen)
	require.Contains(t, table(s), ".\nrequests    7 sent: 7 completed, 0 failed (0 %)\n")
}

// Covers T-223.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "p95 p99", 19: "p95 p99", 20: "p99", 99: "p99", 100: ""} {
		s := NewStat(make([]float64, n))
		var few []string
		for _, f := range figures {
			if s.few(f.name) {
				few = append(few, f.name)
			}
		}
		require.Equal(t, want, strings.Join(few, " "), "%d samples", n)
	}
	f, err := ParseFigure("itl.p95")
	require.NoError(t, err)
	require.True(t, (&Summary{Metrics: Metrics{ITL: Stat{N: 19}}}).Few(f))
	require.False(t, (&Summary{Metrics: Metrics{ITL: Stat{N: 20}, TTFT: Stat{N: 1}}}).Few(f))
	a := NewAggregate(Rules{})
	for range 20 {
		a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	}
	var b strings.Builder
	require.NoError(t, a.Summary(RunInfo{}).WriteTable(&b, 0))
	require.Contains(t, b.String(), "ttft            500 ms    500 ms    500 ms    500 ms    500 ms   500 ms?    500 ms\n")
	require.Contains(t, b.String(), FewNote)
}

// A window that a preset prescribes stands beside what was delivered where the two differ by more than a tenth.
//
// Covers T-222.
func TestBothWindowsAreSaid(t *testing.T) {
	for phase, said := range map[float64]bool{10: false, 10.9: false, 12: true} {
		a := NewAggregate(Rules{PhaseWindow: true})
		for range 4 {
			a.Add(good(0, 1, 0, 0.5, 2.5, 5))
		}
		var b strings.Builder
		s := a.Summary(RunInfo{Run: Run{Preset: preset.AIPerf, Counting: Counting}, Facts: &Facts{PhaseDuration: phase, Deadline: 10}})
		require.NoError(t, s.WriteTable(&b, 0))
		require.Equal(t, said, strings.Contains(b.String(), "delivered   0.40 requests/s, 39.2 prompt tokens/s, 2 output tokens/s over 10.0 s, from the start to the deadline: the throughput above is by the window phase\n"), b.String())
	}
}

// Covers T-69.
func TestBacklogThatGrew(t *testing.T) {
	even := Quarters{5, 5, 5, 5}
	for _, c := range []struct {
		of, sent Quarters
		want     bool
	}{
		{nil, nil, false},
		{Quarters{0, 0, 0, 0}, even, false},
		{Quarters{1, 2, 3, 4}, even, true}, // twice the second, and 2 more
		{Quarters{1, 2, 3, 3.99}, even, false},
		{Quarters{10, 20, 25, 30}, even, true}, // half as much again
		{Quarters{10, 20, 24, 29.9}, even, false},
		{Quarters{10, 20, 25.1, 30}, even, false}, // no more growth at the end: the first are answered
		{Quarters{10, 20, 20, 40}, even, false},   // not from each quarter to the next
		{Quarters{20, 20, 30, 40}, even, false},
		{Quarters{10, 20, 41, 40}, even, false},
		{Quarters{50, 40, 30, 20}, even, false},
		{Quarters{0, 0.5, 1, 1.5}, even, false}, // three times the second, of next to nothing
		{Quarters{math.NaN(), 2, 3, 4}, even, false},
		{Quarters{10, 20, 30, 40}, Quarters{1, 2, 3, 4}, false}, // as many more were sent
		{Quarters{10, 20, 30, 40}, Quarters{3, 3, 3, 4.01}, false},
		{Quarters{10, 20, 30, 40}, Quarters{3, 3, 3, 4}, true}, // each waits half as long again
		{Quarters{10, 20, 30, 40}, Quarters{3, 0, 0, 0}, true}, // nothing is answered, so nothing is sent
	} {
		require.Equal(t, c.want, backlogGrew(c.of, c.sent), "%v, %v", c.of, c.sent)
		s := NewAggregate(Rules{}).Summary(RunInfo{Arrivals: &ArrivalPlan{Mode: RateArrivals}, Facts: &Facts{Arrivals: &ArrivalFacts{Backlog: c.of, SentRate: c.sent}}})
		require.Equal(t, c.want, s.Valid != nil && !*s.Valid)
		require.Equal(t, c.want, len(s.Reasons) == 1 && s.Reasons[0] == BacklogGrew)
		if c.want {
			require.Len(t, detailOf(&s, "invalid"), 1, "pages show what the last line of the console says")
			require.Contains(t, detailOf(&s, "invalid")[0], "try: a lower --rate: trees arrived faster than they were served")
		}
	}
}

// Waits are counted of first turns of trees that arrived, however they ended, and lateness is without them.
func TestQueuedTrees(t *testing.T) {
	a := NewAggregate(Rules{})
	add := func(r *Record, change func(*Record)) {
		change(r)
		a.Add(r)
	}
	add(good(0, 1, 0, 0.5, 2, 3), func(r *Record) { r.Due, r.Queued, r.OpenTrees = At(0.25), At(0.5), 1 })
	add(bad(CancelledAtEnd, "cancelled"), func(r *Record) { r.Queued, r.OpenTrees = At(1.5), 2 })
	add(good(0, 1, 0, 0.5, 2, 3), func(r *Record) { r.Turn, r.OpenTrees = 1, 2 })
	s := a.Summary(RunInfo{Arrivals: &ArrivalPlan{Mode: RateArrivals, Rate: 2.5, Draw: "poisson"}})
	require.Equal(t, 2, s.Arrivals.Queued.N)
	require.EqualValues(t, 1, s.Arrivals.Queued.Mean)
	require.EqualValues(t, 0.25, s.Lateness.Max)
	require.True(t, s.Arrivals.Arrived.IsMissing(), "of a run that was killed")
	text, err := json.Marshal(s.Arrivals)
	require.NoError(t, err)
	require.Contains(t, string(text), `"arrived":null`)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "arrivals    2.50 trees/s, poisson\n")
	require.Regexp(t, `(?m)^queued +1\.00+ s`, b.String())
	require.NotContains(t, b.String(), "queued leaves out")

	b.Reset()
	s = a.Summary(RunInfo{Arrivals: &ArrivalPlan{}, Facts: &Facts{Arrivals: &ArrivalFacts{Arrived: 4, Opened: 2, Waiting: 2}}})
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "\n            queued leaves out trees that never opened: 2\n")
}
