package preset

import (
	"reflect"
	"strings"
)

// defaultTreeIdleCap is the TreeIdleCap of the preset default, in seconds.
var defaultTreeIdleCap Seconds = 300

// table has the value of every switch under every preset.
var table = map[string]Switches{
	Default: {
		SpawnOffset: SpawnRecorded, JoinTiming: JoinTimed, Anchor: AnchorPhase, TreeIdleCap: &defaultTreeIdleCap, TraceCap: TraceCapRun,
		WarmupLeadCap: LeadCapSystem, WarmupStage: StageAny, HandoffOffset: HandoffRecorded,
		HandoffOrder: OrderSeed, WarmupOverflow: OverflowRedraws, AnswerForms: FormsOfServers, TokenSigns: SignsOfAll, OverflowWords: WordsOfServers, FailedShare: ShareOfEnded, MarkerPermitsWrap: true,
		NegativeDuration: NegativeZero, CountGrace: true, LenientStreams: false, ThroughputWindow: WindowDelivered,
		ITLDivisor: DivisorFirstChunk, FlowCurve: FlowChunks, Curves: CurvesOwn, CoverageGate: true, AffinityHeader: true, SchemaVersion: Schema15,
		CoverageBy: CoverByContents,
	},
	AIPerf: {
		SpawnOffset: SpawnBranch, JoinTiming: JoinImmediate, Anchor: AnchorZero, TreeIdleCap: nil, TraceCap: TraceCapLoad,
		WarmupLeadCap: LeadCapTrace, WarmupStage: StageDuration, HandoffOffset: HandoffSinceReturn,
		HandoffOrder: OrderArrival, WarmupOverflow: OverflowRedraws, AnswerForms: FormsOfAIPerf, TokenSigns: SignsOfText, OverflowWords: WordsOfAIPerf, FailedShare: ShareOfEnded, MarkerPermitsWrap: true,
		NegativeDuration: NegativeSubtract, CountGrace: true, LenientStreams: true, ThroughputWindow: WindowPhase,
		ITLDivisor: DivisorFirstChunk, FlowCurve: FlowChunks, Curves: CurvesAIPerf, CoverageGate: false, AffinityHeader: true, SchemaVersion: Schema14,
		CoverageBy: CoverByLatencies,
	},
	AgentX: {
		SpawnOffset: SpawnBranch, JoinTiming: JoinTimed, Anchor: AnchorPhase, TreeIdleCap: nil, TraceCap: TraceCapRun,
		WarmupLeadCap: LeadCapSystem, WarmupStage: StageAny, HandoffOffset: HandoffRecorded,
		HandoffOrder: OrderArrival, WarmupOverflow: OverflowFails, AnswerForms: FormsOfAIPerf, TokenSigns: SignsOfText, OverflowWords: WordsOfAIPerf, FailedShare: ShareOfRecords, MarkerPermitsWrap: true,
		NegativeDuration: NegativeSubtract, CountGrace: true, LenientStreams: true, ThroughputWindow: WindowPhase,
		ITLDivisor: DivisorOSL, FlowCurve: FlowChunks, Curves: CurvesAIPerf, CoverageGate: true, AffinityHeader: false, SchemaVersion: Schema14,
		CoverageBy: CoverByLatencies,
	},
}

// Named returns the switches of a preset. ok is false for an unknown name.
func Named(name string) (s Switches, ok bool) {
	name, _ = Canonical(name)
	s, ok = table[name]
	if s.TreeIdleCap != nil { // a copy: the caller may change it
		seconds := *s.TreeIdleCap
		s.TreeIdleCap = &seconds
	}
	return s, ok
}

// Choices are the values of the switches that are words, by the name of the switch.
var Choices = func() map[string][]string {
	all := map[string][]string{}
	for field := range reflect.TypeFor[Switches]().Fields() {
		if words := field.Tag.Get("words"); words != "" {
			all[field.Tag.Get("json")] = strings.Fields(words)
		}
	}
	return all
}()
