package planner

import "slices"

// Reason says why a decision is what it is: doc/spec/simulate.md 11.9. "" where nothing was decided.
type Reason string

// The reasons of load decisions. Disabled is one of both kinds.
const (
	scaleUp             Reason = "scale_up"
	scaleDown           Reason = "scale_down"
	scaleDownCapped     Reason = "scale_down_capped_by_throughput"
	scaleDownRefused    Reason = "scale_down_refused_consolidation"
	noChange            Reason = "no_change"
	disabled            Reason = "disabled"
	noPassData          Reason = "no_fpm_data"
	scalingInProgress   Reason = "scaling_in_progress"
	workerCountMismatch Reason = "worker_count_mismatch"
	insufficientData    Reason = "insufficient_data"
)

// The reasons of throughput decisions.
const (
	scale           Reason = "scale"
	setLowerBound   Reason = "set_lower_bound"
	noTrafficData   Reason = "no_traffic_data"
	predictFailed   Reason = "predict_failed"
	modelNotReady   Reason = "model_not_ready"
	partnerNotReady Reason = "partner_not_ready"
)

// LoadReasons and ThroughputReasons are all reasons of their kind.
var (
	LoadReasons = []Reason{
		scaleUp, scaleDown, scaleDownCapped, scaleDownRefused, noChange, disabled, noPassData, scalingInProgress,
		workerCountMismatch, insufficientData,
	}
	ThroughputReasons = []Reason{scale, setLowerBound, disabled, noTrafficData, predictFailed, modelNotReady, partnerNotReady}
)

// moves are the reasons that an aggregate prefers, the first before the others.
var moves = []Reason{scaleUp, scaleDownCapped, scaleDown}

// aggregate returns the reason of all pools: the first move that one has, else one that tells more than no_change.
func aggregate(pools []Reason) Reason {
	for _, move := range moves {
		if slices.Contains(pools, move) {
			return move
		}
	}
	for _, r := range pools {
		if r != noChange {
			return r
		}
	}
	return noChange
}
