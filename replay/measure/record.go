package measure

import (
	"encoding/json"
	"math"
	"strconv"
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

	Numbers

	FinishReason string `json:"finish_reason,omitempty"` // of choice 0

	Transfer

	Silent int `json:"silent,omitempty"` // percent of its tokens that no message shows (wire.Result.Silent); 0: few

	Burst int `json:"burst,omitempty"` // messages of a typical burst, of an answer that came in bursts (wire.Result.Burst); 0: it did not

	EventsAs string `json:"events_as,omitempty"` // content type of a stream of events that is named as something else; "": it is not

	// How often its server asked to send it later (status 429 or 503 with Retry-After), and how long it, or its lane, waited for that, seconds.
	Throttled int  `json:"throttled,omitempty"`
	Waited    Time `json:"waited,omitempty"`

	BackOff Time `json:"back_off,omitempty"` // how long its lane then sent nothing because the connection failed

	Bucket Bucket `json:"bucket"`
	Error  *Error `json:"error,omitempty"` // nil: the request ended well

	PlanTurn int           `json:"-"` // the turn in the plan of its trace
	Contents wire.Contents `json:"-"` // instants of the content messages, which ContentsFile has
}

// Numbers are those of a request, of which its metrics are made. Instants count from the start of its phase; 0: it did not happen.
type Numbers struct {
	Due          Time `json:"due"`                    // the turn could be sent
	Admitted     Time `json:"admitted"`               // the conductor issued it: after Due when it had to wait for a slot
	Queued       Time `json:"queued,omitempty"`       // of the first turn of a tree that arrived: how long the tree waited to be opened, from Due on; 0: it did not
	Sent         Time `json:"sent"`                   // immediately before it was handed to the transport; of the first attempt, if resent
	Acknowledged Time `json:"acknowledged,omitempty"` // the header of the answer was read; 0: never
	FirstToken   Time `json:"first_token,omitempty"`  // first content; 0: none
	SecondToken  Time `json:"second_token,omitempty"` // second content; 0: none
	FirstOutput  Time `json:"first_output,omitempty"` // first content that is not reasoning alone; 0: none
	LastToken    Time `json:"last_token,omitempty"`   // last content; 0: none
	LastMessage  Time `json:"last_message,omitempty"` // last message of any kind; 0: none
	End          Time `json:"end"`                    // the client was done with the request
	CancelledAt  Time `json:"cancelled_at,omitempty"` // the run cancelled it; 0: it did not

	// Of a request that ended after the deadline of its phase: the deadline, and the output tokens that had come by then. 0 elsewhere.
	Deadline         Time    `json:"deadline,omitempty"`
	OutputByDeadline float64 `json:"output_by_deadline,omitempty"`

	// When the turn was ordered, where trees arrive on their own: doc/spec/replay.md 14. 0 elsewhere.
	OpenTrees   int `json:"open_trees,omitempty"`   // trees that were played, that of the turn included
	QueuedTrees int `json:"queued_trees,omitempty"` // trees that had arrived and waited to be opened

	// On the connection; 0: the step did not happen. See wire.Exchange.
	WaitEnd      Time `json:"wait_end,omitempty"`
	ConnectStart Time `json:"connect_start,omitempty"`
	ConnectEnd   Time `json:"connect_end,omitempty"`
	SendStart    Time `json:"send_start,omitempty"`
	SendEnd      Time `json:"send_end,omitempty"`
	FirstByte    Time `json:"first_byte,omitempty"`
	LastByte     Time `json:"last_byte,omitempty"`

	Status           int   `json:"status"`                 // HTTP status; 0: no answer came
	RecordedISL      int64 `json:"recorded_in"`            // prompt tokens in the recording
	RecordedBlocks   int64 `json:"recorded_blocks"`        // blocks of the recorded prompt
	RecordedHits     int64 `json:"recorded_hits"`          // of these, those that a prefix cache without a limit holds
	MaxTokens        int64 `json:"max_tokens"`             // output tokens that the request asked for; 0: none
	FirstChunkTokens Count `json:"first_tokens,omitempty"` // completion tokens of the first chunk; unknown: not asked for, or not reported

	// Of the usage that the server reported. OutputTokens is without reasoning.
	PromptTokens     Count `json:"prompt_tokens,omitempty"`
	CachedTokens     Count `json:"cached_tokens,omitempty"`
	OutputTokens     Count `json:"output_tokens,omitempty"`
	ReasoningTokens  Count `json:"reasoning_tokens,omitempty"`
	TotalTokens      Count `json:"total_tokens,omitempty"`
	CacheWriteTokens Count `json:"cache_write_tokens,omitempty"`
	CacheMissTokens  Count `json:"cache_miss_tokens,omitempty"`
}

// HitBlocks returns the blocks of the recorded prompt that a prefix cache without a limit holds. A record that somebody wrote by hand may
// have more hits than blocks, or fewer than none: then it is all of them, or none.
func (n *Numbers) HitBlocks() int64 { return min(max(0, n.RecordedHits), n.RecordedBlocks) }

// Transfer is what went over the connection.
type Transfer = wire.Transfer

// The phases of a run. Summaries are over ProfilingPhase.
const (
	WarmupPhase    = "warmup"
	ProfilingPhase = "profiling"
)

// Error says why a request failed.
type Error = wire.Failure

// Time is an instant since the start of a phase, or a length of time, in nanoseconds. In files it is a number of seconds.
type Time int64

// At returns a number of seconds as a Time: that of Time.Seconds as it was.
func At(seconds float64) Time { return Time(math.Round(seconds * 1e9)) }

// Since returns an instant since the start of the phase. A negative one, which means never, is 0.
func Since(start time.Duration) Time { return Time(max(0, start)) }

// Seconds returns the time as files have it.
func (t Time) Seconds() float64 { return time.Duration(t).Seconds() }

// MarshalJSON returns the number of seconds.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.Seconds()) }

// UnmarshalJSON reads a number of seconds that a run writes.
func (t *Time) UnmarshalJSON(number []byte) error {
	if string(number) == "null" {
		return nil
	}
	x, err := strconv.ParseFloat(string(number), 64)
	if err == nil {
		err = checkSeconds(x)
	}
	*t = At(x)
	return err
}

// Lapse is the time from one instant to another.
type Lapse struct{ From, To Time }

// Seconds returns the difference of the two instants as files have them.
func (s Lapse) Seconds() float64 { return s.To.Seconds() - s.From.Seconds() }

// Count is a number of tokens plus 1; 0: the server did not tell it.
type Count int64

// Unknown is the number that no server tells.
const Unknown int64 = -1

// Tokens returns a number of tokens, of which a negative one is Unknown.
func Tokens(n int64) Count { return Count(max(Unknown, n) + 1) }

// N returns the number, or Unknown.
func (c Count) N() int64 { return int64(c) - 1 }

// MarshalJSON returns the number.
func (c Count) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, c.N(), 10), nil }

// UnmarshalJSON reads a number that a run writes.
func (c *Count) UnmarshalJSON(number []byte) error {
	if string(number) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err == nil {
		err = checkInt(n, maxCount)
	}
	*c = Tokens(n)
	return err
}

// Nanos returns the exact nanoseconds of a number of seconds that Time.Seconds returned.
func Nanos(seconds float64) int64 { return int64(At(seconds)) }

// OSL returns the output sequence length, output and reasoning tokens; Unknown where the server did not report them.
func (n *Numbers) OSL() int64 {
	if n.OutputTokens == 0 {
		return Unknown
	}
	return n.OutputTokens.N() + max(0, n.ReasoningTokens.N())
}

// TTFT returns the time from Sent to the first token; false without a token.
func (n *Numbers) TTFT() (Lapse, bool) { return Lapse{n.Sent, n.FirstToken}, n.FirstToken > 0 }

// Latency returns the time from Sent to the last token; false without a token.
func (n *Numbers) Latency() (Lapse, bool) { return Lapse{n.Sent, n.LastToken}, n.LastToken > 0 }

// Decode returns the time from the first to the last token; false without a token. Rules.ITL divides it.
func (n *Numbers) Decode() (Lapse, bool) { return Lapse{n.FirstToken, n.LastToken}, n.FirstToken > 0 }

// Lateness returns the time from Due to Sent without Queued: what limits and the client itself cost.
func (n *Numbers) Lateness() Time { return n.Sent - n.Due - n.Queued }

// LatenessSeconds is Lateness of the times as files have them.
func (n *Numbers) LatenessSeconds() float64 {
	return n.Sent.Seconds() - n.Due.Seconds() - n.Queued.Seconds()
}

// FirstChunk returns how many tokens the first chunk has, if the server told a number that leaves others; else Unknown.
func (n *Numbers) FirstChunk() int64 {
	if first := n.FirstChunkTokens.N(); first >= 1 && first < n.OSL() {
		return first
	}
	return Unknown
}

// server returns the position of its server in the URLs of the run.
func (r *Record) server() int {
	if r.URL == nil {
		return 0
	}
	return *r.URL
}

// begins reports whether the request is the first turn of a tree that arrived.
func (r *Record) begins() bool { return r.OpenTrees > 0 && r.Parent == "" && r.Turn == 0 }
