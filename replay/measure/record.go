package measure

import (
	"math"
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Record is one request of a phase, one line of records.jsonl. Every request that was sent has a record, however it ended. Its
// instants count from the start of its phase.
type Record struct {
	Phase  string `json:"phase"`
	Lane   int    `json:"lane"`
	Credit int    `json:"credit"` // number of the request in its phase, in the order in which they were issued
	Tree   int    `json:"tree"`   // ordinal in the run
	Pass   int    `json:"pass"`   // how many times the trace was opened before, on any lane
	Trace  string `json:"trace"`

	Session string `json:"session"`          // its id in the trace
	Parent  string `json:"parent,omitempty"` // id of its parent session, empty for a root
	Turn    int    `json:"turn"`
	Depth   int    `json:"depth,omitempty"` // of the session below its root

	// The place of the request in the recording. SourceInner is set for requests of subagents only.
	SourceOuter int    `json:"source_outer"`
	SourceInner *int   `json:"source_inner,omitempty"`
	SourceKind  string `json:"source_kind"`

	URL           *int   `json:"url,omitempty"`     // position in the URLs of the run; nil: it has one
	Address       string `json:"address,omitempty"` // of the server, whose name has several; "": it has one, or none got the request
	RequestID     string `json:"request_id"`
	CorrelationID string `json:"correlation_id"`
	RootID        string `json:"root_id"`             // correlation id of the root session of the tree
	ParentID      string `json:"parent_id,omitempty"` // correlation id of the parent session, empty for a root

	Due          float64 `json:"due"`                    // the turn could be sent
	Admitted     float64 `json:"admitted"`               // the conductor issued it: after Due when it had to wait for a slot
	Queued       float64 `json:"queued,omitempty"`       // of the first turn of a tree that arrived: how long the tree waited to be opened, from Due on; 0: it did not
	Sent         float64 `json:"sent"`                   // immediately before it was handed to the transport; of the first attempt, if resent
	Acknowledged float64 `json:"acknowledged,omitempty"` // the header of the answer was read; 0: never
	FirstToken   float64 `json:"first_token,omitempty"`  // first content; 0: none
	SecondToken  float64 `json:"second_token,omitempty"` // second content; 0: none
	FirstOutput  float64 `json:"first_output,omitempty"` // first content that is not reasoning alone; 0: none
	LastToken    float64 `json:"last_token,omitempty"`   // last content; 0: none
	LastMessage  float64 `json:"last_message,omitempty"` // last message of any kind; 0: none
	End          float64 `json:"end"`                    // the client was done with the request
	CancelledAt  float64 `json:"cancelled_at,omitempty"` // the run cancelled it; 0: it did not

	// Of a request that ended after the deadline of its phase: the deadline, and the output tokens that had come by then. 0 elsewhere.
	Deadline         float64 `json:"deadline,omitempty"`
	OutputByDeadline float64 `json:"output_by_deadline,omitempty"`

	// When the turn was ordered, where trees arrive on their own: doc/spec/replay.md 14. 0 elsewhere.
	OpenTrees   int `json:"open_trees,omitempty"`   // trees that were played, that of the turn included
	QueuedTrees int `json:"queued_trees,omitempty"` // trees that had arrived and waited to be opened

	// On the connection; 0: the step did not happen. See wire.Exchange.
	WaitEnd      float64 `json:"wait_end,omitempty"`
	ConnectStart float64 `json:"connect_start,omitempty"`
	ConnectEnd   float64 `json:"connect_end,omitempty"`
	SendStart    float64 `json:"send_start,omitempty"`
	SendEnd      float64 `json:"send_end,omitempty"`
	FirstByte    float64 `json:"first_byte,omitempty"`
	LastByte     float64 `json:"last_byte,omitempty"`

	Status           int    `json:"status"`                 // HTTP status; 0: no answer came
	RecordedISL      int64  `json:"recorded_in"`            // prompt tokens in the recording
	RecordedBlocks   int64  `json:"recorded_blocks"`        // blocks of the recorded prompt
	RecordedHits     int64  `json:"recorded_hits"`          // of these, those that a prefix cache without a limit holds
	MaxTokens        int64  `json:"max_tokens"`             // output tokens that the request asked for
	FirstChunkTokens *int64 `json:"first_tokens,omitempty"` // completion tokens of the first chunk; nil: not asked for, or not reported

	// Of the usage that the server reported; nil: it did not. OutputTokens is without reasoning.
	PromptTokens     *int64 `json:"prompt_tokens,omitempty"`
	CachedTokens     *int64 `json:"cached_tokens,omitempty"`
	OutputTokens     *int64 `json:"output_tokens,omitempty"`
	ReasoningTokens  *int64 `json:"reasoning_tokens,omitempty"`
	TotalTokens      *int64 `json:"total_tokens,omitempty"`
	CacheWriteTokens *int64 `json:"cache_write_tokens,omitempty"`
	CacheMissTokens  *int64 `json:"cache_miss_tokens,omitempty"`

	FinishReason string `json:"finish_reason,omitempty"` // of choice 0

	Chunks        int   `json:"chunks"` // messages with content
	BytesSent     int64 `json:"bytes_sent"`
	BytesReceived int64 `json:"bytes_received"`
	BodySent      int64 `json:"body_sent,omitempty"`     // of BytesSent: the body of the last attempt; 0: no answer came
	BodyReceived  int64 `json:"body_received,omitempty"` // of BytesReceived: the body of the answer, without its framing
	BodyReads     int   `json:"body_reads,omitempty"`    // reads of the connection that brought some of it
	Reused        bool  `json:"reused"`                  // on a kept connection
	Resent        bool  `json:"resent,omitempty"`        // a kept connection broke before the first byte of an answer, and the request was sent again
	Redirected    bool  `json:"redirected,omitempty"`    // it was sent again to the location of a redirect
	SingleBody    bool  `json:"whole,omitempty"`         // the answer was one JSON body, not a stream

	Silent int `json:"silent,omitempty"` // percent of its tokens that no message shows (wire.Result.Silent); 0: few

	Burst int `json:"burst,omitempty"` // messages of a typical burst, of an answer that came in bursts (wire.Result.Burst); 0: it did not

	EventsAs string `json:"events_as,omitempty"` // content type of a stream of events that is named as something else; "": it is not

	// How often its server asked to send it later (status 429 or 503 with Retry-After), and how long it, or its lane, waited for that, seconds.
	Throttled int     `json:"throttled,omitempty"`
	Waited    float64 `json:"waited,omitempty"`

	BackOff float64 `json:"back_off,omitempty"` // how long its lane then sent nothing because the connection failed

	Bucket Bucket `json:"bucket"`
	Error  *Error `json:"error,omitempty"` // nil: the request ended well

	PlanTurn int           `json:"-"` // the turn in the plan of its trace
	Contents wire.Contents `json:"-"` // instants of the content messages, which ContentsFile has
}

// The phases of a run. Summaries are over ProfilingPhase.
const (
	WarmupPhase    = "warmup"
	ProfilingPhase = "profiling"
)

// Error says why a request failed.
type Error struct {
	Category wire.Category `json:"category"`
	Code     int           `json:"code,omitempty"` // HTTP status; 502 of an event named error; 0: no answer came
	Message  string        `json:"message"`
}

// Tokens returns a count as a field of a Record: nil when it is negative, which means unknown.
func Tokens(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Nanos returns the exact nanoseconds of a number of seconds that Seconds returned.
func Nanos(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// Seconds returns an instant since the start of the phase as a field of a Record. A negative instant, which means never, is 0.
func Seconds(at time.Duration) float64 { return max(0, at).Seconds() }

// OSL returns the output sequence length: output and reasoning tokens. It is false when the server did not report them.
func (r *Record) OSL() (int64, bool) {
	if r.OutputTokens == nil {
		return 0, false
	}
	n := *r.OutputTokens
	if r.ReasoningTokens != nil {
		n += *r.ReasoningTokens
	}
	return n, true
}

// TTFT returns the time from Sent to the first token, in seconds; false without a token.
func (r *Record) TTFT() (float64, bool) {
	return r.FirstToken - r.Sent, r.FirstToken > 0
}

// Latency returns the time from Sent to the last token, in seconds; false without a token.
func (r *Record) Latency() (float64, bool) {
	return r.LastToken - r.Sent, r.LastToken > 0
}

// hasUsableFirstChunk reports whether the server told how many tokens the first chunk has, and the number leaves others.
func (r *Record) hasUsableFirstChunk() bool {
	n, ok := r.OSL()
	return ok && r.FirstChunkTokens != nil && UsableFirstChunk(n, *r.FirstChunkTokens)
}

// Lateness returns the time from Due to Sent without Queued, in seconds: what limits and the client itself cost.
func (r *Record) Lateness() float64 { return r.Sent - r.Due - r.Queued }

// begins reports whether the request is the first turn of a tree that arrived.
func (r *Record) begins() bool { return r.OpenTrees > 0 && r.Parent == "" && r.Turn == 0 }
