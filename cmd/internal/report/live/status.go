package live

import (
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// States of a run that are not the name of a phase.
const (
	preparing = "preparing"
	ended     = "ended"
)

// Status is what a run is like: the object of /status. Counts are those of the phase that is played. Keys that the summary of a run
// has mean the same here.
type Status struct {
	State        string                `json:"state"`         // Preparing, a phase, or Ended
	Elapsed      float64               `json:"elapsed"`       // seconds since the start of the phase
	Remaining    measure.Number        `json:"remaining"`     // seconds until the nearest bound, at the pace so far
	Lanes        int                   `json:"lanes"`         // 0: trees arrive, without a cap
	OpenTrees    int                   `json:"open_trees"`    // that are played: one on each busy lane
	WaitingTrees *int                  `json:"waiting_trees"` // nil: trees do not arrive on their own
	InFlight     int                   `json:"in_flight"`
	Silent       float64               `json:"silent"`          // seconds for which nothing was received although requests are in flight; 0: none is
	Parts        *Parts                `json:"parts,omitempty"` // nil: the load has one part, or this is another than part 0
	Sent         int                   `json:"sent"`
	Completed    int                   `json:"completed"`
	Errors       map[wire.Category]int `json:"errors"` // without overflows and cancellations
	ErrorRate    measure.Number        `json:"error_rate"`
	Overflows    int                   `json:"overflows"`
	Cancelled    int                   `json:"cancelled"`
	Recent       Recent                `json:"recent"`
	ClientBound  bool                  `json:"client_bound"`    // the lateness of Recent says that the client, or a limit set on it, holds up requests
	Standstills  *measure.Standstills  `json:"standstills"`     // of the client in the measured phase; nil: none
	Error        string                `json:"error,omitempty"` // why the records were not followed to the end
}

// Parts are those of a load whose numbers are in the status of part 0.
type Parts struct {
	Of      int `json:"of"`
	Playing int `json:"playing"` // not over, and not lost
}

// Recent are the requests of the last 30 seconds that ended well. Latencies are good to 1 %.
type Recent struct {
	Seconds         float64        `json:"seconds"`
	RequestRate     measure.Number `json:"request_rate"` // 1/s
	PromptTokenRate measure.Number `json:"prompt_token_rate"`
	OutputTokenRate measure.Number `json:"output_token_rate"`
	TokenHitRate    measure.Number `json:"token_hit_rate"`
	TTFT            Stat           `json:"ttft"`
	ITL             Stat           `json:"itl"`
	RequestLatency  Stat           `json:"request_latency"`
	Lateness        Stat           `json:"lateness"`

	Others map[string]Stat `json:"other_metrics,omitempty"` // those of measure.MetricList that have no key of their own, by name
}

// Stat are percentiles, in the unit of their metric. Without samples they are Missing.
type Stat struct {
	N   int64          `json:"n"`
	P50 measure.Number `json:"p50"`
	P75 measure.Number `json:"p75"`
	P90 measure.Number `json:"p90"`
	P95 measure.Number `json:"p95"`
	P99 measure.Number `json:"p99"`
}

// failed returns how many requests failed.
func (s *Status) failed() int { return measure.ErrorCounts(s.Errors).Failed() }

// judge adds what follows from the other fields.
func (s *Status) judge() {
	s.ErrorRate = 0
	if failed := s.failed(); failed > 0 {
		s.ErrorRate = ratio(float64(failed), float64(s.Completed+failed))
	}
	late, latency := s.Recent.Lateness, s.Recent.RequestLatency
	s.ClientBound = measure.ClientBound(int(late.N), [2]measure.Number{late.P50, late.P95}, [2]measure.Number{latency.P50, latency.P95}) || s.Errors[wire.Internal] > 0
}
