package measure

import (
	"encoding/json"
	"io"
	"maps"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// Summary is what a run reports of its profiling phase: the object of summary.json and of replay --json. The headline numbers,
// those of the embedded Metrics, are over the requests of the profiling bucket that ended well. A figure that is not known is
// null; of a run that was killed, so are the figures that are known only at its end.
type Summary struct {
	Requests     int                      `json:"requests"`  // sent: the sum of the buckets
	Completed    int                      `json:"completed"` // that ended well, in profiling or cooldown
	Errors       map[wire.Category]int    `json:"errors"`    // failures by category, without cancellations and overflows
	ErrorSamples ErrorSamples             `json:"error_samples"`
	ErrorRate    Number                   `json:"error_rate"`    // failures over these and Completed
	ErrorRates   map[wire.Category]Number `json:"error_rates"`   // by category
	OverflowRate Number                   `json:"overflow_rate"` // overflows of the context over these, failures and Completed
	Buckets      Buckets                  `json:"buckets"`
	Unseen       Unseen                   `json:"unseen"` // requests that no headline number is over
	BackOff      BackOff                  `json:"back_off"`
	Throttled    Throttled                `json:"throttled"`
	Resent       int                      `json:"resent"` // requests that were sent twice: a kept connection broke before the first byte of an answer

	Deviations map[string]Deviation `json:"deviations"` // requests that ended well, but not as asked for, by kind

	Remarks       []Remark      `json:"remarks"`        // on metrics that do not show what they seem to
	FinishReasons FinishReasons `json:"finish_reasons"` // of requests that ended well

	Metrics

	Goodput *Goodput `json:"goodput"` // nil: the run has no service levels

	Headline         string           `json:"headline"` // deadline: requests that ended by then; grace_included: also those of the grace
	ThroughputWindow ThroughputWindow `json:"throughput_window"`
	Delivered        ThroughputWindow `json:"delivered"`   // from the start of the phase to its deadline, whatever the rates are of
	ITLDivisor       ITLDivisor       `json:"itl_divisor"` // of the headline

	Addresses []AddressCount `json:"addresses"` // nil: no name of a server had several addresses

	Lanes  Lanes  `json:"lanes"`
	Client Client `json:"client"`

	Connection  Connection           `json:"connection"`  // of the requests of the headline
	Fidelity    Fidelity             `json:"fidelity"`    // what was delivered beside what was recorded and asked for
	Calibration *CalibrationCompared `json:"calibration"` // nil: the run was not calibrated

	Valid    *bool     `json:"valid"`    // nil: without a scenario
	Reasons  []string  `json:"reasons"`  // why the run is not valid; nil: there is none
	Coverage *Coverage `json:"coverage"` // nil: the gate did not look
	Out      string    `json:"out"`      // directory of the results, empty when none was asked for

	Arrivals *Arrivals `json:"arrivals"` // nil: trees were played in lanes

	Until *Until `json:"until"` // nil: the run was to know no metric, or was killed

	Concurrency     int              `json:"concurrency"` // 0: trees arrived, and any number of them was played at a time
	Trees           int              `json:"trees"`       // with a request
	DeadlockedTrees Number           `json:"wedged_trees"`
	Branches        *BranchCounts    `json:"branches"`
	Deadlocks       []DeadlockReport `json:"wedged,omitempty"`  // at most MaxDeadlocks of them
	PhaseDuration   Number           `json:"phase_duration"`    // from its start to its end
	Records         string           `json:"records,omitempty"` // name of the record file in Out
	Cooldown        Metrics          `json:"cooldown"`          // the same numbers over the cooldown bucket
	Preflight       *Preflight       `json:"preflight"`         // nil: the run had no preflight
	Context         *Context         `json:"context"`           // nil: no traces were looked at for it
	Warmup          *Warmup          `json:"warmup"`            // nil: the run had no warmup
	ServerMetrics   *ServerMetrics   `json:"server_metrics"`    // nil: none were read
	Part            *PartInfo        `json:"part,omitempty"`    // nil: the run plays a load alone
	Parts           *Parts           `json:"parts,omitempty"`   // of which the summary is; nil: it is of one run
	Run             Run              `json:"run"`               // what was run

	burst      startBurst
	unrecorded int // requests of a run that was killed that were certainly sent, and have no record
}

// WriteJSON writes the summary as one line.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// Throttled counts the answers that asked to send a turn later, and adds up how long turns, or lanes, waited for that.
type Throttled struct {
	Answers int     `json:"answers"`
	Seconds float64 `json:"seconds"`
}

// BackOff counts the pauses of lanes whose connections failed, and adds up their lengths.
type BackOff struct {
	Pauses  int     `json:"pauses"`
	Seconds float64 `json:"seconds"`
}

// Buckets counts the requests of each bucket.
type Buckets struct {
	Profiling       int `json:"profiling"`
	Cooldown        int `json:"cooldown"`
	CancelledAtEnd  int `json:"cancelled_at_end"`
	ContextOverflow int `json:"context_overflow"`
}

// Metrics are the numbers over the successful requests of one bucket. Duration is the time from the first Sent to
// the last LastToken of these requests. Rates divide by the window of the summary. MetricList has the short names of the quantities.
type Metrics struct {
	Measured              int    `json:"measured"` // requests that the numbers are over
	Duration              Number `json:"duration"`
	RequestRate           Number `json:"request_rate"`
	PromptTokens          Number `json:"prompt_tokens"`           // as the server counted them
	OutputTokens          Number `json:"output_tokens"`           // as the server counted, reasoning included
	RequestedOutputTokens Number `json:"requested_output_tokens"` // asked for by the same requests
	PromptTokenRate       Number `json:"prompt_token_rate"`
	OutputTokenRate       Number `json:"output_token_rate"`

	TTFT           Stat `json:"ttft"`            // time to the first token
	ITL            Stat `json:"itl"`             // inter-token latency
	RequestLatency Stat `json:"request_latency"` // to the last token
	TPOT           Stat `json:"tpot"`            // time per output token: as ITL, divided by all tokens but one
	Lateness       Stat `json:"lateness"`        // due to sent

	ISL Stat `json:"input_sequence_length"`  // prompt tokens of a request
	OSL Stat `json:"output_sequence_length"` // output tokens of a request, reasoning included

	Others map[string]*Stat `json:"other_metrics,omitempty"` // those of MetricList that have no key of their own, by name

	CachedTokens         Number `json:"cached_tokens"`          // prompt tokens that were in the cache of the server
	TokenHitRate         Number `json:"token_hit_rate"`         // CachedTokens over PromptTokens
	RecordedPromptTokens Number `json:"recorded_prompt_tokens"` // of the same requests
	RecordedBlocks       int64  `json:"recorded_blocks"`        // of the prompts in the recording
	RecordedHits         int64  `json:"recorded_hits"`          // of these, blocks that a prefix cache without a limit holds
	TheoreticalHitRate   Number `json:"theoretical_hit_rate"`   // RecordedHits over RecordedBlocks
	UsageMissing         int    `json:"usage_missing"`          // measured requests without output token counts
}

// Lanes describes how the load started.
type Lanes struct {
	N            int          `json:"n"`       // asked for; 0: as many as there are open trees
	Started      int          `json:"started"` // with a request
	FirstRequest FirstRequest `json:"first_request"`
}

// FirstRequest is when the earliest and the latest lane sent its first request, seconds since the start of the phase.
type FirstRequest struct {
	First Number `json:"first"`
	Last  Number `json:"last"`
}

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
