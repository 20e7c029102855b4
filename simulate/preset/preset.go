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

// Switches are all switches. Their names as JSON, and their values, are those of doc/spec/simulate.md 0.3.
type Switches struct {
	Admission         Admission        `json:"admission"`
	FullHit           FullHit          `json:"full_hit"`
	Alloc             Alloc            `json:"alloc"`
	BlockVisible      BlockVisible     `json:"block_visible"`
	Duplicates        Duplicates       `json:"duplicates"`
	SampledBlock      SampledBlock     `json:"sampled_block"`
	FirstToken        FirstToken       `json:"first_token"`
	DecodeKV          DecodeKV         `json:"decode_kv"`
	KVEvents          KVEvents         `json:"kv_events"`
	ConcurrencyUnit   ConcurrencyUnit  `json:"concurrency_unit"`
	Impossible        Impossible       `json:"impossible"`
	IDWidth           IDWidth          `json:"id_width"`
	RouterCost        RouterCost       `json:"router_cost"`
	RouterTie         RouterTie        `json:"router_tie"`
	TrafficNumReq     TrafficNumReq    `json:"traffic_num_req"`
	TickTime          TickTime         `json:"tick_time"`
	Balance           Balance          `json:"balance"`
	Consolidation     Toggle           `json:"consolidation"`       // a step down needs survivors that can carry the load
	ScaleWhileScaling Toggle           `json:"scale_while_scaling"` // load may scale a disaggregated fleet that is still scaling
	HitDiscount       Toggle           `json:"hit_discount"`        // a cached prefix is no prefill work to the planner
	Predictor         TrafficPredictor `json:"predictor"`
}

// Admission says what a waiting request may do to running ones.
type Admission string

// The admissions.
const (
	AdmitGate    Admission = "gate"    // it waits until its blocks fit beside theirs
	AdmitPreempt Admission = "preempt" // it preempts them
)

// FullHit says what a prompt costs whose blocks are all cached.
type FullHit string

// The costs of a full hit.
const (
	FullHitRecomputeLast FullHit = "recompute_last" // the block with the last token is computed
	FullHitFree          FullHit = "free"
)

// Alloc says what becomes of a reservation that the pool cannot meet.
type Alloc string

// The ways of allocation.
const (
	AllocAllOrNothing Alloc = "all_or_nothing"
	AllocPartial      Alloc = "partial" // what there is, is kept
)

// BlockVisible says from when on other requests find a block.
type BlockVisible string

// The instants at which a block becomes visible.
const (
	VisibleScheduled BlockVisible = "scheduled" // when its last token is scheduled
	VisibleAllocated BlockVisible = "allocated"
)

// Duplicates says what becomes of two blocks with the same content.
type Duplicates string

// The ways of duplicates.
const (
	DuplicatesCopies Duplicates = "copies" // both stay until they are evicted
	DuplicatesMerge  Duplicates = "merge"
)

// SampledBlock says when a generated token needs its block.
type SampledBlock string

// The instants of the block of a generated token.
const (
	SampledNextSchedule SampledBlock = "next_schedule" // when it is scheduled, which the last one never is
	SampledAtEmission   SampledBlock = "at_emission"
)

// FirstToken says what the first token of a request needs besides its prefill.
type FirstToken string

// The first tokens.
const (
	FirstWithDecode FirstToken = "with_decode" // a place in the decode part of the pass
	FirstAtPrefill  FirstToken = "at_prefill"  // nothing
)

// DecodeKV says which tokens a decode step reads.
type DecodeKV string

// The readings of a decode step.
const (
	KVLogical      DecodeKV = "logical"       // the known lengths of the requests that emit
	KVUniqueBlocks DecodeKV = "unique_blocks" // the active blocks, shared ones once
)

// KVEvents says when the router learns which blocks a pass stores and evicts.
type KVEvents string

// The instants of KV events.
const (
	EventsPassEnd   KVEvents = "pass_end"
	EventsPassStart KVEvents = "pass_start"
)

// ConcurrencyUnit is what a concurrency counts.
type ConcurrencyUnit string

// The units of concurrency.
const (
	UnitSessions ConcurrencyUnit = "sessions" // open ones, thinking or not
	UnitRequests ConcurrencyUnit = "requests" // those in flight
)

// Impossible says what becomes of a request that the pool can never hold.
type Impossible string

// The fates of an impossible request.
const (
	ImpossibleReject  Impossible = "reject"
	ImpossibleDeadEnd Impossible = "dead_end" // the run ends with an error
)

// IDWidth is how many low bits of a hash id count.
type IDWidth string

// The widths of ids.
const (
	Width64 IDWidth = "64"
	Width32 IDWidth = "32"
)

// RouterCost is the cost function of the KV router.
type RouterCost string

// The cost functions.
const (
	CostCredit RouterCost = "credit" // overlap reduces the prefill load of the worker
	CostWeight RouterCost = "weight" // overlap reduces the prompt of the request
)

// RouterTie says which of several workers of the same cost is taken.
type RouterTie string

// The ways of ties.
const (
	TieLeastDispatched RouterTie = "least_dispatched"
	TieRandom          RouterTie = "random" // from the seeded stream
)

// TrafficNumReq says which requests a traffic window counts.
type TrafficNumReq string

// The counts of a traffic window.
const (
	CountOffered   TrafficNumReq = "offered"   // those that arrive in it
	CountCompleted TrafficNumReq = "completed" // those that complete in it
)

// TickTime says where the deadlines of the planner lie.
type TickTime string

// The times of ticks.
const (
	TickNominal         TickTime = "nominal"           // at multiples of the interval
	TickLastEventShared TickTime = "last_event_shared" // one interval after the last event before the tick, one clock for both intervals
	TickLastEvent       TickTime = "last_event"        // the same, a clock for each interval
)

// Balance says when an aggregated engine keeps up with its own prefill.
type Balance string

// The conditions of balance.
const (
	BalanceSteady Balance = "steady" // a step admits what it finishes
	BalancePR8280 Balance = "pr8280" // a factor of the derivation is missing
)

// TrafficPredictor says how the next traffic window is foretold.
type TrafficPredictor string

// The predictors.
const (
	PredictKalman   TrafficPredictor = "kalman"
	PredictConstant TrafficPredictor = "constant"
	PredictARIMA    TrafficPredictor = "arima" // a planner refuses it: agentx has none
)

// Toggle is on or off.
type Toggle string

// The toggles.
const (
	On  Toggle = "on"
	Off Toggle = "off"
)
