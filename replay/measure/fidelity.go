package measure

import (
	"fmt"
	"slices"
	"strings"
)

// Fidelity is what a run delivered beside what was recorded and asked for (doc/spec/results.md 17). All but Lanes and
// RequestsInFlight is over the requests of the headline.
type Fidelity struct {
	PromptTokens     PromptFidelity `json:"prompt_tokens"`
	OutputTokens     OutputFidelity `json:"output_tokens"`
	PrefixReuse      PrefixReuse    `json:"prefix_reuse"`
	Lanes            LaneUse        `json:"lanes"`
	RequestsInFlight InFlight       `json:"requests_in_flight"`
	Gaps             Gaps           `json:"gaps"`
	Client           ClientShare    `json:"client"`
}

// PromptFidelity compares prompts, over the requests whose prompt the server counted.
type PromptFidelity struct {
	Recorded Number `json:"recorded"` // tokens
	Sent     Number `json:"sent"`     // tokens, as the server counted them
	Ratio    Number `json:"ratio"`    // Sent over Recorded
}

// OutputFidelity compares answers, over the requests whose output the server counted.
type OutputFidelity struct {
	Asked Number `json:"asked"` // tokens
	Got   Number `json:"got"`   // tokens
	Ratio Number `json:"ratio"` // Got over Asked
}

// PrefixReuse are shares of the prompts that a prefix cache can hold, 0 to 1.
type PrefixReuse struct {
	Recorded Number `json:"recorded"` // blocks that a cache without a limit holds, of the recorded blocks
	Sent     Number `json:"sent"`     // tokens behind which an earlier request of the run had sent the same prompt so far, markers included; of the tokens sent
	Reported Number `json:"reported"` // cached tokens of the prompt tokens, as the server counted both
}

// LaneUse compares the lanes with those asked for. The others are means over the time of Load.
type LaneUse struct {
	Configured int    `json:"configured"`
	Playing    Number `json:"playing"`   // lanes with an open tree
	InFlight   Number `json:"in_flight"` // lanes with a request in flight
}

// InFlight is how many requests were in flight, over the time of Load.
type InFlight struct {
	Mean Number `json:"mean"`
	Max  Number `json:"max"`
}

// Gaps say how well the times at which turns could go were kept: lateness, in seconds.
type Gaps struct {
	Kept Number `json:"kept"` // share of requests that were sent within 10 ms
	P50  Number `json:"p50"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
}

// ClientShare is the part of the client in what was measured, 0 to 1.
type ClientShare struct {
	Time Number `json:"time"` // lateness, of the time from due to the last token, all requests together
	CPU  Number `json:"cpu"`  // of all cores that the process may use
}

// Load is how busy the lanes of a phase were from its start to its last send. After that the load can only fall. The figures
// but Seconds and MaxRequests are means over that time.
type Load struct {
	Seconds     float64 `json:"seconds"`
	Playing     Number  `json:"lanes_playing"`          // lanes with an open tree
	InFlight    Number  `json:"lanes_in_flight"`        // lanes with a request in flight
	Requests    Number  `json:"requests_in_flight"`     // requests in flight
	MaxRequests int     `json:"max_requests_in_flight"` // the most at a time
}

// Prompts counts the prompt tokens of the headline's requests as the cache has them, markers included.
type Prompts struct {
	Tokens int64 `json:"tokens"`
	Reused int64 `json:"reused"` // of these, in prefixes that an earlier request of the run had sent
}

// newFidelity computes the block of a summary that has its metrics. facts is nil if the run has not ended.
func newFidelity(s *Summary, o *observations, facts *Facts) Fidelity {
	f := Fidelity{
		PromptTokens:     PromptFidelity{Number(o.recordedCounted), s.PromptTokens, ratio(s.PromptTokens, Number(o.recordedCounted))},
		OutputTokens:     OutputFidelity{s.RequestedOutputTokens, s.OutputTokens, ratio(s.OutputTokens, s.RequestedOutputTokens)},
		PrefixReuse:      PrefixReuse{ratio(Number(o.recordedHits), Number(o.recordedBlocks)), Missing, s.TokenHitRate},
		Lanes:            LaneUse{s.Concurrency, Missing, Missing},
		RequestsInFlight: InFlight{Missing, Missing},
		Gaps:             Gaps{ratio(Number(o.inTime), Number(o.n)), s.Lateness.P50, s.Lateness.P99, s.Lateness.Max},
		Client:           ClientShare{timeShare(s), ratio(s.Client.CPUShare, s.Client.Cores)},
	}
	if facts == nil {
		return f
	}
	if l := facts.Load; l != nil {
		f.Lanes.Playing, f.Lanes.InFlight = l.Playing, l.InFlight
		f.RequestsInFlight = InFlight{l.Requests, Number(l.MaxRequests)}
	}
	if p := facts.Prompts; p != nil {
		f.PrefixReuse.Sent = ratio(Number(p.Reused), Number(p.Tokens))
	}
	return f
}

// timeShare returns the part that lateness has in the time from due to the last token, over all requests.
func timeShare(s *Summary) Number {
	late, answered := s.Lateness.Mean*Number(s.Lateness.N), s.RequestLatency.Mean*Number(s.RequestLatency.N)
	return ratio(late, late+answered)
}

// fidelity writes the block, without what is not known.
func (s *Summary) fidelity(b *strings.Builder) {
	f, label := &s.Fidelity, "fidelity"
	write := func(parts ...string) {
		parts = slices.DeleteFunc(parts, isEmpty)
		if len(parts) > 0 {
			row(b, label, "%s", strings.Join(parts, "; "))
			label = ""
		}
	}
	part := func(n Number, format string) string {
		if n.IsMissing() {
			return ""
		}
		return fmt.Sprintf(format, 100*n)
	}
	write(part(f.PromptTokens.Ratio, "prompts %.1f %% of the recorded tokens"), part(f.OutputTokens.Ratio, "output %.1f %% of what was asked"))
	reuse := slices.DeleteFunc([]string{
		part(f.PrefixReuse.Recorded, "%.1f %% recorded"), part(f.PrefixReuse.Sent, "%.1f %% sent"), part(f.PrefixReuse.Reported, "%.1f %% reported by the server"),
	}, isEmpty)
	if len(reuse) > 0 {
		write("prefix reuse " + strings.Join(reuse, ", "))
	}
	if !f.Lanes.Playing.IsMissing() {
		of := ""
		if f.Lanes.Configured > 0 {
			of = fmt.Sprintf(", of %d", f.Lanes.Configured)
		}
		write(fmt.Sprintf("lanes %.1f playing, %.1f with a request in flight%s; requests in flight %.1f%s, at most %.0f",
			f.Lanes.Playing, f.Lanes.InFlight, of, f.RequestsInFlight.Mean, s.ClockMargin(true), f.RequestsInFlight.Max))
	}
	write(part(f.Gaps.Kept, "%.1f %% of requests sent within 10 ms of their time"), part(f.Client.Time, "client %.2f %% of the time"), part(f.Client.CPU, "%.0f %% of the CPU"))
}
