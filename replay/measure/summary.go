package measure

import (
	"encoding/json"
	"io"

	"github.com/agentx/agentx/replay/wire"
)

// Summary is what a run reports of its profiling phase: the object of summary.json and of replay --json. Durations
// are in seconds, sizes in bytes. A figure that cannot be had is null, as what only a run knows that came to its end. The headline numbers, those of the embedded
// Metrics, are over the requests of the profiling bucket that ended well.
type Summary struct {
	Requests     int                   `json:"requests"`  // all sent: the sum of the buckets
	Completed    int                   `json:"completed"` // ended well, in profiling or cooldown
	Errors       map[wire.Category]int `json:"errors"`    // by category; neither cancellations nor overflows
	ErrorSamples ErrorSamples          `json:"error_samples"`
	Buckets      Buckets               `json:"buckets"`
	BackOff      BackOff               `json:"back_off"`
	Resent       int                   `json:"resent"` // requests that went out twice: a kept connection broke before any byte of an answer came

	Deviations map[string]Deviation `json:"deviations"` // requests that ended well, but otherwise than asked, by kind

	Metrics

	Lanes   Lanes    `json:"lanes"`
	Client  Client   `json:"client"`
	Valid   *bool    `json:"valid"`   // nil without a scenario
	Reasons []string `json:"reasons"` // why the run is not valid; nil without a scenario and a reason
	Out     string   `json:"out"`     // directory with the results, empty when none was asked for

	Concurrency     int              `json:"concurrency"`
	Trees           int              `json:"trees"` // trees that sent a request
	DeadlockedTrees Number           `json:"wedged_trees"`
	Branches        *BranchCounts    `json:"branches"`
	Deadlocks       []DeadlockReport `json:"wedged,omitempty"`  // at most MaxDeadlocks of them
	PhaseDuration   Number           `json:"phase_duration"`    // from its start to its last response
	Records         string           `json:"records,omitempty"` // name of the record file in Out
	Cooldown        Metrics          `json:"cooldown"`          // the same numbers over the cooldown bucket
	Preflight       *Preflight       `json:"preflight"`         // nil: the run began without a look at the server
	Run             Run              `json:"run"`               // what was run
}

// WriteJSON writes the summary as one line.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// wedgedTree is the reason that a run with wedged trees has in any case.
const wedgedTree = "wedged_tree"

// BackOff says how often lanes sent nothing for a while because there was no connection, and for how long in sum.
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

// Metrics are the numbers over the successful requests of one bucket. Rates divide by Duration, the time from the
// first start to the last content of these requests.
type Metrics struct {
	Measured              int    `json:"measured"` // requests that the numbers are over
	Duration              Number `json:"duration"`
	RequestRate           Number `json:"request_rate"`
	PromptTokens          Number `json:"prompt_tokens"`           // as the server counted
	OutputTokens          Number `json:"output_tokens"`           // as the server counted, reasoning included
	RequestedOutputTokens Number `json:"requested_output_tokens"` // that the same requests asked for
	PromptTokenRate       Number `json:"prompt_token_rate"`
	OutputTokenRate       Number `json:"output_token_rate"`

	TTFT           Stat `json:"ttft"`            // time to the first token
	ITL            Stat `json:"itl"`             // inter-token latency
	RequestLatency Stat `json:"request_latency"` // to the last token
	Lateness       Stat `json:"lateness"`        // due to sent

	CachedTokens         Number `json:"cached_tokens"`          // prompt tokens that the server had in its cache
	TokenHitRate         Number `json:"token_hit_rate"`         // of the prompt tokens, those that were cached
	RecordedPromptTokens Number `json:"recorded_prompt_tokens"` // prompt tokens that were to be sent
	UsageMissing         int    `json:"usage_missing"`          // measured requests without token counts
}

// Lanes says how the load started.
type Lanes struct {
	N            int          `json:"n"`       // asked for
	Started      int          `json:"started"` // that sent a request
	FirstRequest FirstRequest `json:"first_request"`
}

// FirstRequest is when the earliest and the latest lane sent its first request, from the start of the phase.
type FirstRequest struct {
	First Number `json:"first"`
	Last  Number `json:"last"`
}

// Client is what the measurement itself cost.
type Client struct {
	CPU           Number `json:"cpu"`
	PeakRSS       Number `json:"peak_rss"`
	BytesSent     int64  `json:"bytes_sent"`
	BytesReceived int64  `json:"bytes_received"`
	Bound         bool   `json:"bound"` // the client, or a limit set on it, was part of the measurement
}
