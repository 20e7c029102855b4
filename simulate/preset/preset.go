// Package preset names the switches in which two dated states of Dynamo's offline replay, and what is right, differ:
// doc/spec/simulate.md 0.3.
//
// A preset is a name for one value of all [Switches]. A run starts from a preset and may then set any switch by itself:
//
//	s, ok := preset.Named("dynamo-2026-04")
//	err := s.Set("admission", "gate")
//
// No other package knows the name of a preset.
package preset

// Names are the presets, the default first.
var Names = []string{Default, Dynamo16, August, April}

// The names of the presets.
const (
	Default  = "default"        // the rules that are right
	Dynamo16 = "dynamo-1.6"     // Dynamo 1.6.1
	August   = "dynamo-2026-08" // Dynamo of August 2026
	April    = "dynamo-2026-04" // Dynamo of April 2026, at its PR 8280
)

// Choice is a value of a switch.
type Choice string

// Switches are all switches. Their names as JSON, and their values, are those of doc/spec/simulate.md 0.3. A value that no preset has is
// in the tag also.
type Switches struct {
	Admission         Choice `json:"admission"`
	FullHit           Choice `json:"full_hit"`
	Alloc             Choice `json:"alloc"`
	BlockVisible      Choice `json:"block_visible"`
	Duplicates        Choice `json:"duplicates"`
	SampledBlock      Choice `json:"sampled_block"`
	FirstToken        Choice `json:"first_token"`
	DecodeKV          Choice `json:"decode_kv"`
	KVEvents          Choice `json:"kv_events"`
	ConcurrencyUnit   Choice `json:"concurrency_unit"`
	Impossible        Choice `json:"impossible"`
	IDWidth           Choice `json:"id_width"`
	RouterCost        Choice `json:"router_cost"`
	RouterTie         Choice `json:"router_tie"`
	TrafficNumReq     Choice `json:"traffic_num_req"`
	TickTime          Choice `json:"tick_time"`
	Balance           Choice `json:"balance"`
	Consolidation     Choice `json:"consolidation"`       // a step down needs survivors that can carry the load
	ScaleWhileScaling Choice `json:"scale_while_scaling"` // load may scale a disaggregated fleet that is still scaling
	HitDiscount       Choice `json:"hit_discount"`        // a cached prefix is no prefill work to the planner
	Predictor         Choice `json:"predictor" also:"constant"`
}

// Admission says what a waiting request may do to running ones.
const (
	AdmitGate    Choice = "gate"    // it waits until its blocks fit beside theirs
	AdmitPreempt Choice = "preempt" // it preempts them
)

// FullHit says what a prompt costs whose blocks are all cached.
const (
	FullHitRecomputeLast Choice = "recompute_last" // the block with the last token is computed
	FullHitFree          Choice = "free"
)

// Alloc says what becomes of a reservation that the pool cannot meet.
const (
	AllocAllOrNothing Choice = "all_or_nothing"
	AllocPartial      Choice = "partial" // what there is, is kept
)

// BlockVisible says from when on other requests find a block.
const (
	VisibleScheduled Choice = "scheduled" // when its last token is scheduled
	VisibleAllocated Choice = "allocated"
)

// Duplicates says what becomes of two blocks with the same content.
const (
	DuplicatesCopies Choice = "copies" // both stay until they are evicted
	DuplicatesMerge  Choice = "merge"
)

// SampledBlock says when a generated token needs its block.
const (
	SampledNextSchedule Choice = "next_schedule" // when it is scheduled, which the last one never is
	SampledAtEmission   Choice = "at_emission"
)

// FirstToken says what the first token of a request needs besides its prefill.
const (
	FirstWithDecode Choice = "with_decode" // a place in the decode part of the pass
	FirstAtPrefill  Choice = "at_prefill"  // nothing
)

// DecodeKV says which tokens a decode step reads.
const (
	KVLogical      Choice = "logical"       // the known lengths of the requests that emit
	KVUniqueBlocks Choice = "unique_blocks" // the active blocks, shared ones once
)

// KVEvents says when the router learns which blocks a pass stores and evicts.
const (
	EventsPassEnd   Choice = "pass_end"
	EventsPassStart Choice = "pass_start"
)

// ConcurrencyUnit is what a concurrency counts.
const (
	UnitSessions Choice = "sessions" // open ones, thinking or not
	UnitRequests Choice = "requests" // those in flight
)

// Impossible says what becomes of a request that the pool can never hold.
const (
	ImpossibleReject  Choice = "reject"
	ImpossibleDeadEnd Choice = "dead_end" // the run ends with an error
)

// IDWidth is how many low bits of a hash id count.
const (
	Width64 Choice = "64"
	Width32 Choice = "32"
)

// RouterCost is the cost function of the KV router.
const (
	CostCredit Choice = "credit" // overlap reduces the prefill load of the worker
	CostWeight Choice = "weight" // overlap reduces the prompt of the request
)

// RouterTie says which of several workers of the same cost is taken.
const (
	TieLeastDispatched Choice = "least_dispatched"
	TieRandom          Choice = "random" // from the seeded stream
)

// TrafficNumReq says which requests a traffic window counts.
const (
	CountOffered   Choice = "offered"   // those that arrive in it
	CountCompleted Choice = "completed" // those that complete in it
)

// TickTime says where the deadlines of the planner lie.
const (
	TickNominal         Choice = "nominal"           // at multiples of the interval
	TickLastEventShared Choice = "last_event_shared" // one interval after the last event before the tick, one clock for both intervals
	TickLastEvent       Choice = "last_event"        // the same, a clock for each interval
)

// Balance says when an aggregated engine keeps up with its own prefill.
const (
	BalanceSteady Choice = "steady" // a step admits what it finishes
	BalancePR8280 Choice = "pr8280" // a factor of the derivation is missing
)

// Predictor says how the next traffic window is foretold.
const (
	PredictKalman   Choice = "kalman"
	PredictConstant Choice = "constant"
	PredictARIMA    Choice = "arima" // a planner refuses it: agentx has none
)

// The others are on or off.
const (
	On  Choice = "on"
	Off Choice = "off"
)
