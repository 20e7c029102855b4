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
		AllButOne:     s.ITLOverAllButOne,
		AIPerfCurves:  s.AIPerfCurves,
		CoverageGate:  s.CoverageGate,
		LatenciesOnly: s.CoverByLatencies,
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

// Add counts a request that ended well.
func (d *ITLDivisor) Add(n *Numbers, rules Rules) {
	switch _, ok := rules.ITL(n); {
	case !ok:
	case n.FirstChunk() != Unknown:
		d.Known++
	case n.FirstChunkTokens != 0:
		d.Unusable++
	}
}

// ITL returns the inter-token latency of a request, in seconds: the time from the first to the last token over its Divisor.
func (l Rules) ITL(n *Numbers) (float64, bool) {
	divisor, known := l.Divisor(n)
	decode, ok := n.Decode()
	if !ok || !known {
		return 0, false
	}
	return decode.Seconds() / float64(divisor), true
}

// Divisor returns how many of the tokens of a request came after its first chunk. That counts as one token unless its tokens are known,
// and always with AllButOne. It is false with fewer than two tokens, or when their number is not known.
func (l Rules) Divisor(n *Numbers) (int64, bool) {
	tokens, first := n.OSL(), n.FirstChunk()
	switch {
	case tokens < 2:
		return 1, false
	case first != Unknown && !l.AllButOne:
		return tokens - first, true
	}
	return tokens - 1, true
}

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
