package measure

import "github.com/agentx/agentx/replay/preset"

// Rules say how records become numbers (doc/spec/replay.md 8). A summary and a report share them. RulesOf makes them of switches;
// the zero value has those of runs older than presets.
type Rules struct {
	GraceIncluded bool // the headline has requests that ended within the grace: Cutoff.CountGrace put them into Profiling
	PhaseWindow   bool // rates and effective curves are over the phase, not over the time from the first request to the last token
	DeliveredOnly bool // they are of what came between the start of the phase and its deadline, and over that time
	AllButOne     bool // ITL divides by all tokens but one, also where the tokens of the first chunk are known
	AIPerfCurves  bool // in the curve of the total output flows evenly, and a failed request is in the curve of the concurrency alone
	CoverageGate  bool // a valid run has tokens in 95 % of its duration
	LatenciesOnly bool // which are those of requests with a latency: not those of one that failed

	SchemaVersion string // that the files for AIPerf's readers name
}

// RulesOf returns the rules that switches choose.
func RulesOf(s *preset.Switches) Rules {
	return Rules{
		GraceIncluded: s.CountGrace,
		PhaseWindow:   s.ThroughputWindow == preset.WindowPhase,
		DeliveredOnly: s.ThroughputWindow == preset.WindowDelivered,
		AllButOne:     s.ITLDivisor == preset.DivisorOSL,
		AIPerfCurves:  s.Curves == preset.CurvesAIPerf,
		CoverageGate:  s.CoverageGate,
		LatenciesOnly: s.CoverageBy == preset.CoverByLatencies,
		SchemaVersion: string(s.SchemaVersion),
	}
}

// Counting is the version of what the preset default counts: 0 left the grace out and divided by ThroughputWindow benchmark.
const Counting = 1

// RulesOfRun returns the rules of a run that has written its results. One without a preset is older than presets.
func RulesOfRun(r Run) (Rules, error) {
	s, err := SwitchesOfRun(r)
	return RulesOf(&s), err
}

// SwitchesOfRun returns the switches of a run that has written its results, as its version of agentx understood them.
func SwitchesOfRun(r Run) (preset.Switches, error) {
	s, err := preset.Recorded(r.Preset, r.Switches)
	if r.Counting > 0 || r.Preset != "" && r.Preset != preset.Default {
		return s, err
	}
	if r.Switches["count-grace"] == nil {
		s.CountGrace = false
	}
	if r.Switches["throughput-window"] == nil {
		s.ThroughputWindow = preset.WindowBenchmark
	}
	return s, err
}

// ITLDivisor is what inter-token latencies divide by.
type ITLDivisor struct {
	Rule     string `json:"rule"`     // first-chunk or osl-1
	Known    int    `json:"known"`    // requests with an ITL whose first chunk has a number of tokens that a divisor can leave out
	Unusable int    `json:"unusable"` // requests with an ITL whose server told another number: 0, or all tokens
}

// ITL returns the inter-token latency of a request, in seconds: the time from the first to the last token over its Divisor.
func (l Rules) ITL(r *Record) (float64, bool) {
	n, ok := r.OSL()
	if !ok || r.FirstToken <= 0 {
		return 0, false
	}
	first := int64(-1)
	if r.FirstChunkTokens != nil {
		first = *r.FirstChunkTokens
	}
	divisor, ok := l.Divisor(n, first)
	if !ok {
		return 0, false
	}
	return (r.LastToken - r.FirstToken) / float64(divisor), true
}

// Divisor returns how many of the tokens of a request came after its first chunk, negative numbers being unknown. The first
// chunk counts as one token unless its tokens are usable, and always with AllButOne. It is false with fewer than two tokens, or
// when their number is not known.
func (l Rules) Divisor(tokens, firstChunk int64) (int64, bool) {
	switch {
	case tokens < 2:
		return 1, false
	case UsableFirstChunk(tokens, firstChunk) && !l.AllButOne:
		return tokens - firstChunk, true
	}
	return tokens - 1, true
}

// UsableFirstChunk reports whether the tokens of the first chunk are a number that leaves others.
func UsableFirstChunk(tokens, firstChunk int64) bool { return firstChunk >= 1 && firstChunk < tokens }

// Headline names the requests that the headline numbers are over.
func (l Rules) Headline() string {
	if l.GraceIncluded {
		return "grace_included"
	}
	return "deadline"
}

// DivisorRule names the rule of Divisor.
func (l Rules) DivisorRule() string {
	if l.AllButOne {
		return "osl-1"
	}
	return "first-chunk"
}
