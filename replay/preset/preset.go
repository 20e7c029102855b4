// Package preset names the settings in which agentx and AIPerf differ in a way that changes results: doc/spec/replay.md 0.3.
//
// A preset is a name for one value of all [Switches]. A run starts from a preset and may then set any switch by itself:
//
//	s, ok := preset.Named("aiperf-0.13")
//	s.SpawnOffset = preset.SpawnRecorded
//
// Package replay resolves every switch before a run starts. Package replay/conductor cannot name a switch.
package preset

import "time"

// Names are the presets, the default first.
var Names = []string{Default, AIPerf, AgentX}

// The names of the presets.
const (
	Default = "default"       // faithful to the recording
	AIPerf  = "aiperf-0.13"   // AIPerf 0.13.0 as released
	AgentX  = "agentx-1.0.12" // agentx-harness 1.0.12, whose command is `agentx profile`: AgentX results are made with it
)

// aliases are other names of presets, by which nothing is recorded. agentx-v1.0.5 was inferred from documents of the line of AIPerf
// that the harness grew from.
var aliases = map[string]string{"agentx-v1.0.5": AgentX}

// Canonical returns the name of a preset by one of its names, and whether the one given is another.
func Canonical(name string) (canonical string, alias bool) {
	if c, ok := aliases[name]; ok {
		return c, true
	}
	return name, false
}

// Switches are all switches. Their names and values as JSON are those of doc/spec/replay.md 0.3; about is the help. A switch of
// duration is off where it is nil, and one that is true or false says what is so.
type Switches struct {
	SpawnOffset       SpawnOffset      `json:"spawn-offset" about:"when a child starts: recorded offset, or return of its parent"`
	JoinTiming        JoinTiming       `json:"join-timing" about:"when a turn joins: not early, or with its last child"`
	Anchor            Anchor           `json:"anchor" about:"start of a spread phase: its first request, or t*"`
	TreeIdleCap       *Seconds         `json:"tree-idle-cap" about:"longest time of a tree without a request in flight"`
	TraceCap          TraceCap         `json:"trace-cap" about:"when trace-idle-cap acts: in the run, or on the recording"`
	WarmupLeadCap     WarmupLeadCap    `json:"warmup-lead-cap" about:"what caps leads: system-idle-cap, or trace-idle-cap"`
	WarmupStage       WarmupStage      `json:"warmup-stage" about:"bounds that the pressure stage may have"`
	HandoffOffset     HandoffOffset    `json:"handoff-offset" about:"how sessions go on after the pressure stage"`
	HandoffOrder      HandoffOrder     `json:"handoff-order" about:"what orders the pressure stage: the seed alone, or answers"`
	WarmupOverflow    WarmupOverflow   `json:"warmup-overflow" about:"a primer that overflows: another trace, or a failed warmup"`
	MarkerPermitsWrap bool             `json:"marker-permits-wrap" about:"a marker permits more lanes than traces"`
	NegativeDuration  NegativeDuration `json:"negative-duration" about:"only shown: fixed when the cache is built"`
	CountGrace        bool             `json:"count-grace" about:"requests that end in the grace are headline"`
	LenientStreams    bool             `json:"lenient-streams" about:"status 200 with any content is a success"`
	AnswerForms       AnswerForms      `json:"answer-forms" about:"forms of an answer that are read: those of all servers, or AIPerf's"`
	TokenSigns        TokenSigns       `json:"token-signs" about:"messages that tell of tokens: all that do, or those with text"`
	OverflowWords     OverflowWords    `json:"overflow-words" about:"texts of a context overflow: of all servers, or AIPerf's"`
	FailedShare       FailedShare      `json:"failed-share" about:"what failures are a share of: ended requests, or records"`
	ThroughputWindow  ThroughputWindow `json:"throughput-window" about:"denominator of throughputs, time of effective curves"`
	ITLDivisor        ITLDivisor       `json:"itl-divisor" about:"tokens that an ITL divides by"`
	FlowCurve         FlowCurve        `json:"flow-curve" about:"how tokens spread over time"`
	Curves            Curves           `json:"curves" about:"curves of tokens over time, and failed requests in them"`
	CoverageGate      bool             `json:"coverage-gate" about:"a valid run has tokens in 95 % of its duration"`
	CoverageBy        CoverageBy       `json:"coverage-by" about:"which tokens: of any request, or of those with a latency"`
	AffinityHeader    bool             `json:"affinity-header" about:"requests have the header X-Session-Affinity"`
	SchemaVersion     SchemaVersion    `json:"schema-version" about:"of the files for readers of AIPerf's"`
}

// Seconds is a duration; its JSON is a number of seconds.
type Seconds float64

// Duration returns s as a duration; 0 for nil, which is off.
func (s *Seconds) Duration() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(float64(*s) * float64(time.Second))
}

// SpawnOffset says when a child session starts.
type SpawnOffset string

// The spawn offsets.
const (
	SpawnRecorded SpawnOffset = "recorded" // at its recorded offset from its spawning turn
	SpawnBranch   SpawnOffset = "branch"   // its branch starts when the spawning turn returns
)

// JoinTiming says when a turn that joins branches is sent.
type JoinTiming string

// The join timings.
const (
	JoinTimed     JoinTiming = "timed"     // after its last child, and not before its recorded delay
	JoinImmediate JoinTiming = "immediate" // after its last child
)

// Anchor says which instant of the lanes is the start of a phase that is spread.
type Anchor string

// The anchors.
const (
	AnchorPhase Anchor = "phase" // the first request of all lanes
	AnchorZero  Anchor = "zero"  // t*
)

// TraceCap says how the option trace-idle-cap acts.
type TraceCap string

// The ways of a trace cap.
const (
	TraceCapRun  TraceCap = "run"  // it is the TreeIdleCap
	TraceCapLoad TraceCap = "load" // the recorded clock is compressed when the plan is read
)

// WarmupLeadCap says which cap limits how long before the end of the ramp a primer is sent.
type WarmupLeadCap string

// The caps of leads.
const (
	LeadCapSystem WarmupLeadCap = "system" // system-idle-cap and primer-lead-max
	LeadCapTrace  WarmupLeadCap = "trace"  // trace-idle-cap alone
)

// WarmupStage says how the pressure stage of a warmup can be bounded.
type WarmupStage string

// The bounds of the pressure stage.
const (
	StageAny      WarmupStage = "requests-or-duration"
	StageDuration WarmupStage = "duration"
)

// HandoffOffset says when a session goes on after the pressure stage.
type HandoffOffset string

// The offsets of the hand-off.
const (
	HandoffRecorded    HandoffOffset = "recorded"     // at its recorded time from the origin of its tree
	HandoffSinceReturn HandoffOffset = "since-return" // after its recorded delay, less the time since its last return
)

// HandoffOrder says what decides which request of a lane the pressure stage sends next, where several are due at one instant.
type HandoffOrder string

// The orders of the pressure stage.
const (
	OrderSeed    HandoffOrder = "seed"    // recorded starts, and recycled traces in the order of lanes: the seed alone
	OrderArrival HandoffOrder = "arrival" // which answer came first
)

// WarmupOverflow says what a root request of the warmup does that does not fit the context.
type WarmupOverflow string

// The ends of a warmup.
const (
	OverflowRedraws WarmupOverflow = "redraw" // its lane draws another trace
	OverflowFails   WarmupOverflow = "fail"   // the warmup fails, as after any other failure
)

// AnswerForms says which forms of an answer are read.
type AnswerForms string

// The forms.
const (
	FormsOfServers AnswerForms = "servers" // those that servers are known to write
	FormsOfAIPerf  AnswerForms = "aiperf"  // those that AIPerf reads
)

// TokenSigns says which messages of an answer tell when its tokens came.
type TokenSigns string

// The signs.
const (
	SignsOfAll  TokenSigns = "all"  // those with text, and others that tell of a token
	SignsOfText TokenSigns = "text" // those with text
)

// OverflowWords says by which texts an error is an overflow of the context.
type OverflowWords string

// The texts.
const (
	WordsOfServers OverflowWords = "servers" // those of all servers that are known
	WordsOfAIPerf  OverflowWords = "aiperf"  // the four of AIPerf
	NoWords        OverflowWords = "none"    // only those of Options.OverflowPatterns, in package replay
)

// FailedShare says of what FailedRequestThreshold is a share.
type FailedShare string

// The shares.
const (
	ShareOfEnded   FailedShare = "ended"   // of requests that ended well or failed
	ShareOfRecords FailedShare = "records" // of these and of overflows
)

// CoverageBy says which tokens cover the duration of a run.
type CoverageBy string

// The tokens.
const (
	CoverByContents  CoverageBy = "contents"  // of any request, also of one that failed
	CoverByLatencies CoverageBy = "latencies" // of requests that have a latency
)

// NegativeDuration says what a negative recorded duration does to the delay after it.
type NegativeDuration string

// The readings of a negative duration.
const (
	NegativeZero     NegativeDuration = "zero"
	NegativeSubtract NegativeDuration = "subtract"
)

// ThroughputWindow says what every throughput is of and divides by, and the time of the effective curves.
type ThroughputWindow string

// The windows.
const (
	WindowBenchmark ThroughputWindow = "benchmark" // from the first request sent to the last token
	WindowPhase     ThroughputWindow = "phase"     // from the start to the end of the phase
	WindowDelivered ThroughputWindow = "delivered" // from the start to the deadline: what came in that time
)

// ITLDivisor says by how many tokens an inter-token latency divides when the tokens of the first chunk are known.
type ITLDivisor string

// The divisors.
const (
	DivisorFirstChunk ITLDivisor = "first-chunk" // the tokens after the first chunk
	DivisorOSL        ITLDivisor = "osl-1"       // all tokens but one
)

// FlowCurve says how the tokens of a request are spread over time.
type FlowCurve string

// FlowChunks is the only flow curve: over the gaps between the chunks. Results of earlier versions may name another, even.
const FlowChunks FlowCurve = "chunks"

// Curves says how the curves over time are made.
type Curves string

// The ways of curves.
const (
	CurvesOwn    Curves = "own"    // the total flows as its parts do; a failed request is in prefill until its first token
	CurvesAIPerf Curves = "aiperf" // in the total output flows evenly; a failed request is in the concurrency alone
)

// SchemaVersion is the version that the files for AIPerf's readers name.
type SchemaVersion string

// The schema versions.
const (
	Schema14 SchemaVersion = "1.4"
	Schema15 SchemaVersion = "1.5"
)
