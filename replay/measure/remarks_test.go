package measure

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.Contains(t, s.RemarksOf(Warning), "short: from its first request to the end of its last it took 500 ms, less than three times its median tree (500 ms)")
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
		{"prefix_caching", func(_ []*Record, i *RunInfo) { i.Servers[1].PrefixCaching = &no }, func(_ []*Record, i *RunInfo) { i.Servers[1].PrefixCaching, i.Facts.Prompts.Reused = &no, 10 }},
		{"prefix_caching", func(list []*Record, _ *RunInfo) { each(list, func(r *Record) { r.CachedTokens = Tokens(0) }) }, func(list []*Record, _ *RunInfo) { each(list[1:], func(r *Record) { r.CachedTokens = Tokens(0) }) }},
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
	require.NotContains(t, s.RemarksOf(Warning)[0], "no figure knows")
	list[0].Credit = 202 // a record again, of a request behind three that have none
	a.Add(list[0])
	s = a.Summary(info)
	require.Contains(t, s.RemarksOf(Warning)[0], ", and at least 2 requests of it no figure knows")
}

// An interrupt is the deadline of a phase, which then goes on to its last answer.
//
// Covers T-207.
func TestInterruptedWhen(t *testing.T) {
	for deadline, want := range map[float64]string{0: "12.0 s", 9: "9.00 s", 60: "12.0 s"} {
		e := evidence{info: &RunInfo{Facts: &Facts{Cancelled: true, PhaseDuration: 12, Deadline: deadline}}}
		text, _ := e.interrupted()
		require.Equal(t, "the run was stopped before its bound, "+want+" after the start of the phase", text)
	}
}

func each(list []*Record, change func(*Record)) {
	for _, r := range list {
		change(r)
	}
}
