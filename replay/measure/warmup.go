package measure

import (
	"maps"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// Warmup is what a run sent before its profiling phase. No other number of a summary counts it.
type Warmup struct {
	Requests int                   `json:"requests"`
	Errors   map[wire.Category]int `json:"errors"` // by category; cancellations and overflows included
	WarmupFacts
}

// WarmupFacts are what no record says of a warmup.
type WarmupFacts struct {
	Duration      Number `json:"duration"`       // to its last response
	Primers       Number `json:"primers"`        // sent
	PrimersFailed Number `json:"primers_failed"` // of those: they did not end well
	ReplacedLanes Number `json:"replaced_lanes"` // that took another trace because a primer did not fit the context
	EmptyLanes    Number `json:"empty_lanes"`    // of those: no other trace was left
	StageRequests Number `json:"stage_requests"` // sent by the pressure stage
}

// row writes a line about a warmup, none without one.
func (w *Warmup) row(b *strings.Builder) {
	if w == nil {
		return
	}
	text := Plural(w.Requests, "request", "requests")
	if !w.Duration.IsMissing() {
		text += " in " + duration(float64(w.Duration))
	}
	text += " before the measured phase"
	separator := ": "
	for _, n := range []struct {
		n         Number
		one, many string
	}{
		{w.Primers, "primer", "primers"}, {w.PrimersFailed, "of them failed", "of them failed"},
		{w.StageRequests, "in the pressure stage", "in the pressure stage"}, {w.ReplacedLanes, "lane took another trace", "lanes took another trace"},
	} {
		if n.n > 0 {
			text += separator + Plural(int(n.n), n.one, n.many)
			separator = ", "
		}
	}
	row(b, "warmup", "%s", text)
}

// warmupCounts count the records of the warmup.
type warmupCounts struct {
	requests int
	errors   map[wire.Category]int
}

func (w *warmupCounts) add(r *Record) {
	w.requests++
	if r.Error != nil {
		w.errors[r.Error.Category]++
	}
}

// summary returns nil for a run without a warmup. facts is nil if the run has not ended.
func (w *warmupCounts) summary(facts *WarmupFacts) *Warmup {
	if w.requests == 0 && facts == nil {
		return nil
	}
	s := &Warmup{Requests: w.requests, Errors: maps.Clone(w.errors)}
	s.WarmupFacts = WarmupFacts{Missing, Missing, Missing, Missing, Missing, Missing}
	if facts != nil {
		s.WarmupFacts = *facts
	}
	return s
}
