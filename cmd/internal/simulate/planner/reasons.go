package planner

import "slices"

// Reason says why a decision is what it is: doc/spec/simulate.md 11.9. "" where nothing was decided.
type Reason string

// The reasons of load decisions. Disabled is one of both kinds.
const (
	ScaleUp             Reason = "scale_up"
	ScaleDown           Reason = "scale_down"
	ScaleDownCapped     Reason = "scale_down_capped_by_throughput"
	ScaleDownRefused    Reason = "scale_down_refused_consolidation"
	NoChange            Reason = "no_change"
	Disabled            Reason = "disabled"
	NoPassData          Reason = "no_fpm_data"
	ScalingInProgress   Reason = "scaling_in_progress"
	WorkerCountMismatch Reason = "worker_count_mismatch"
	InsufficientData    Reason = "insufficient_data"
)

// The reasons of throughput decisions.
const (
	Scale           Reason = "scale"
	SetLowerBound   Reason = "set_lower_bound"
	NoTrafficData   Reason = "no_traffic_data"
	PredictFailed   Reason = "predict_failed"
	ModelNotReady   Reason = "model_not_ready"
	PartnerNotReady Reason = "partner_not_ready"
)

// LoadReasons and ThroughputReasons are all reasons of their kind.
var (
	LoadReasons = []Reason{
		ScaleUp, ScaleDown, ScaleDownCapped, ScaleDownRefused, NoChange, Disabled, NoPassData, ScalingInProgress,
		WorkerCountMismatch, InsufficientData,
	}
	ThroughputReasons = []Reason{Scale, SetLowerBound, Disabled, NoTrafficData, PredictFailed, ModelNotReady, PartnerNotReady}
)

// moves are the reasons that an aggregate prefers, the first before the others.
var moves = []Reason{ScaleUp, ScaleDownCapped, ScaleDown}

// aggregate returns the reason of all pools: the first move that one has, else one that tells more than no_change.
func aggregate(pools []Reason) Reason {
	for _, move := range moves {
		if slices.Contains(pools, move) {
			return move
		}
	}
	for _, r := range pools {
		if r != NoChange {
			return r
		}
	}
	return NoChange
}
