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

// Switches are all switches. Their names and values as JSON are those of doc/spec/replay.md 0.3; words are the values of one, about its help. A switch of
// duration is off where it is nil, and one that is true or false says what is so.
type Switches struct {
	SpawnOffset       Choice   `json:"spawn-offset" words:"recorded branch" about:"when a child starts: recorded offset, or return of its parent"`
	JoinTiming        Choice   `json:"join-timing" words:"timed immediate" about:"when a turn joins: not early, or with its last child"`
	Anchor            Choice   `json:"anchor" words:"phase zero" about:"start of a spread phase: its first request, or t*"`
	TreeIdleCap       *Seconds `json:"tree-idle-cap" about:"longest time of a tree without a request in flight"`
	TraceCap          Choice   `json:"trace-cap" words:"run load" about:"when trace-idle-cap acts: in the run, or on the recording"`
	WarmupLeadCap     Choice   `json:"warmup-lead-cap" words:"system trace" about:"what caps leads: system-idle-cap, or trace-idle-cap"`
	WarmupStage       Choice   `json:"warmup-stage" words:"requests-or-duration duration" about:"bounds that the pressure stage may have"`
	HandoffOffset     Choice   `json:"handoff-offset" words:"recorded since-return" about:"how sessions go on after the pressure stage"`
	HandoffOrder      Choice   `json:"handoff-order" words:"seed arrival" about:"what orders the pressure stage: the seed alone, or answers"`
	WarmupOverflow    Choice   `json:"warmup-overflow" words:"redraw fail" about:"a primer that overflows: another trace, or a failed warmup"`
	MarkerPermitsWrap bool     `json:"marker-permits-wrap" about:"a marker permits more lanes than traces"`
	NegativeDuration  Choice   `json:"negative-duration" words:"zero subtract" about:"only shown: fixed when the cache is built"`
	CountGrace        bool     `json:"count-grace" about:"requests that end in the grace are headline"`
	LenientStreams    bool     `json:"lenient-streams" about:"status 200 with any content is a success"`
	AnswerForms       Choice   `json:"answer-forms" words:"servers aiperf" about:"forms of an answer that are read: those of all servers, or AIPerf's"`
	TokenSigns        Choice   `json:"token-signs" words:"all text" about:"messages that tell of tokens: all that do, or those with text"`
	OverflowWords     Choice   `json:"overflow-words" words:"servers aiperf none" about:"texts of a context overflow: of all servers, or AIPerf's"`
	FailedShare       Choice   `json:"failed-share" words:"ended records" about:"what failures are a share of: ended requests, or records"`
	ThroughputWindow  Choice   `json:"throughput-window" words:"benchmark phase delivered" about:"denominator of throughputs, time of effective curves"`
	ITLDivisor        Choice   `json:"itl-divisor" words:"first-chunk osl-1" about:"tokens that an ITL divides by"`
	FlowCurve         Choice   `json:"flow-curve" words:"chunks" about:"how tokens spread over time"`
	Curves            Choice   `json:"curves" words:"own aiperf" about:"curves of tokens over time, and failed requests in them"`
	CoverageGate      bool     `json:"coverage-gate" about:"a valid run has tokens in 95 % of its duration"`
	CoverageBy        Choice   `json:"coverage-by" words:"contents latencies" about:"which tokens: of any request, or of those with a latency"`
	AffinityHeader    bool     `json:"affinity-header" about:"requests have the header X-Session-Affinity"`
	SchemaVersion     Choice   `json:"schema-version" words:"1.4 1.5" about:"of the files for readers of AIPerf's"`
}

// Choice is a value of a switch that is a word.
type Choice string

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
const (
	SpawnRecorded Choice = "recorded" // at its recorded offset from its spawning turn
	SpawnBranch   Choice = "branch"   // its branch starts when the spawning turn returns
)

// JoinTiming says when a turn that joins branches is sent.
const (
	JoinTimed     Choice = "timed"     // after its last child, and not before its recorded delay
	JoinImmediate Choice = "immediate" // after its last child
)

// Anchor says which instant of the lanes is the start of a phase that is spread.
const (
	AnchorPhase Choice = "phase" // the first request of all lanes
	AnchorZero  Choice = "zero"  // t*
)

// TraceCap says how the option trace-idle-cap acts.
const (
	TraceCapRun  Choice = "run"  // it is the TreeIdleCap
	TraceCapLoad Choice = "load" // the recorded clock is compressed when the plan is read
)

// WarmupLeadCap says which cap limits how long before the end of the ramp a primer is sent.
const (
	LeadCapSystem Choice = "system" // system-idle-cap and primer-lead-max
	LeadCapTrace  Choice = "trace"  // trace-idle-cap alone
)

// WarmupStage says how the pressure stage of a warmup can be bounded.
const (
	StageAny      Choice = "requests-or-duration"
	StageDuration Choice = "duration"
)

// HandoffOffset says when a session goes on after the pressure stage.
const (
	HandoffRecorded    Choice = "recorded"     // at its recorded time from the origin of its tree
	HandoffSinceReturn Choice = "since-return" // after its recorded delay, less the time since its last return
)

// HandoffOrder says what decides which request of a lane the pressure stage sends next, where several are due at one instant.
const (
	OrderSeed    Choice = "seed"    // recorded starts, and recycled traces in the order of lanes: the seed alone
	OrderArrival Choice = "arrival" // which answer came first
)

// WarmupOverflow says what a root request of the warmup does that does not fit the context.
const (
	OverflowRedraws Choice = "redraw" // its lane draws another trace
	OverflowFails   Choice = "fail"   // the warmup fails, as after any other failure
)

// AnswerForms says which forms of an answer are read.
const (
	FormsOfServers Choice = "servers" // those that servers are known to write
	FormsOfAIPerf  Choice = "aiperf"  // those that AIPerf reads
)

// TokenSigns says which messages of an answer tell when its tokens came.
const (
	SignsOfAll  Choice = "all"  // those with text, and others that tell of a token
	SignsOfText Choice = "text" // those with text
)

// OverflowWords says by which texts an error is an overflow of the context.
const (
	WordsOfServers Choice = "servers" // those of all servers that are known
	WordsOfAIPerf  Choice = "aiperf"  // the four of AIPerf
	NoWords        Choice = "none"    // only those of Options.OverflowPatterns, in package replay
)

// FailedShare says of what FailedRequestThreshold is a share.
const (
	ShareOfEnded   Choice = "ended"   // of requests that ended well or failed
	ShareOfRecords Choice = "records" // of these and of overflows
)

// CoverageBy says which tokens cover the duration of a run.
const (
	CoverByContents  Choice = "contents"  // of any request, also of one that failed
	CoverByLatencies Choice = "latencies" // of requests that have a latency
)

// NegativeDuration says what a negative recorded duration does to the delay after it.
const (
	NegativeZero     Choice = "zero"
	NegativeSubtract Choice = "subtract"
)

// ThroughputWindow says what every throughput is of and divides by, and the time of the effective curves.
const (
	WindowBenchmark Choice = "benchmark" // from the first request sent to the last token
	WindowPhase     Choice = "phase"     // from the start to the end of the phase
	WindowDelivered Choice = "delivered" // from the start to the deadline: what came in that time
)

// ITLDivisor says by how many tokens an inter-token latency divides when the tokens of the first chunk are known.
const (
	DivisorFirstChunk Choice = "first-chunk" // the tokens after the first chunk
	DivisorOSL        Choice = "osl-1"       // all tokens but one
)

// FlowCurve says how the tokens of a request are spread over time.
const FlowChunks Choice = "chunks"

// Curves says how the curves over time are made.
const (
	CurvesOwn    Choice = "own"    // the total flows as its parts do; a failed request is in prefill until its first token
	CurvesAIPerf Choice = "aiperf" // in the total output flows evenly; a failed request is in the concurrency alone
)

// SchemaVersion is the version that the files for AIPerf's readers name.
const (
	Schema14 Choice = "1.4"
	Schema15 Choice = "1.5"
)
