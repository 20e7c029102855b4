package wire

import "time"

// Never is the instant of an event that did not happen.
const Never time.Duration = -1

// Result is the outcome of one request. Instants are durations since Options.Epoch on the monotonic clock; Sent and End are
// always set, the others are [Never] when the event did not happen. What was measured stands beside a failure: a stream that
// broke after ten tokens has a first token.
type Result struct {
	Sent        time.Duration // immediately before a connection was taken or dialled; of the first attempt, if resent
	FirstToken  time.Duration // the first message with content, reasoning or a tool call, or another sign of a token (Options.TextTokens)
	SecondToken time.Duration // the second such message
	FirstOutput time.Duration // the first message with content or a tool call, not with reasoning alone
	LastToken   time.Duration // the last message with content, reasoning or a tool call
	LastMessage time.Duration // the last message of any kind, usage and [DONE] included
	End         time.Duration // the client was done with the request, whatever happened

	Acknowledged time.Duration // the status line and the header of the answer were read, of an error answer too
	Exchange     Exchange      // on the connection; of the last attempt, if resent or redirected

	Contents         Contents // instants of the messages with content, reasoning or a tool call
	Status           int      // HTTP status, 0 when no answer came
	Silent           int      // percent of the tokens of the answer that no message shows, estimated; 0: few
	Burst            int      // messages of a typical burst, where more than half of them came in bursts; else 0
	Usage            Usage    // of the last usage object that was not empty
	FirstChunkTokens int64    // completion tokens of the usage object in the first content message; Unknown without one, or when it was not asked for
	FinishReason     string   // finish reason of choice 0

	Transfer
	Address    string        // of the server that got it, of a request with a Route; "": there was no choice
	RetryAfter time.Duration // for how long the server asks not to be called, with status 429 or 503; 0: it does not
	Limited    bool          // a limit of this machine, as of open files, is why it failed: another request may get through

	EventsAs string // content type of a stream of events that is named as something else; "": it is not

	Err *Failure // nil when the request ended well
}

// Transfer is what went over the connection. Its keys are those of a record.
type Transfer struct {
	Chunks        int   `json:"chunks"`                  // messages with content, reasoning or a tool call
	BytesSent     int64 `json:"bytes_sent"`              // written to connections, headers included; of both attempts, if resent
	BytesReceived int64 `json:"bytes_received"`          // read from connections, headers and framing included
	BodySent      int64 `json:"body_sent,omitempty"`     // of BytesSent: the body of the last attempt; 0: no answer came
	BodyReceived  int64 `json:"body_received,omitempty"` // of BytesReceived: the body of the answer, without its framing, of the last attempt
	BodyReads     int   `json:"body_reads,omitempty"`    // reads of the connection that brought some of it
	Reused        bool  `json:"reused"`                  // the connection had served a request before
	Resent        bool  `json:"resent,omitempty"`        // a kept connection broke before the first byte of an answer, and the request was sent again on a new one
	Redirected    bool  `json:"redirected,omitempty"`    // the answer came from the location of a redirect
	SingleBody    bool  `json:"whole,omitempty"`         // the answer was one JSON body, not a stream of events
}

func newResult(now time.Duration) Result {
	return Result{
		Sent: now, FirstToken: Never, SecondToken: Never,
		FirstOutput: Never, LastToken: Never, LastMessage: Never, End: Never,
		Acknowledged: Never, Exchange: NoExchange,
		Usage: NoUsage, FirstChunkTokens: Unknown,
	}
}

// Unknown is a token count that the server did not report, which is not the same as 0.
const Unknown int64 = -1

// Usage has the token counts of one response as the server reported them. Every count may be [Unknown].
type Usage struct {
	Prompt     int64 // prompt_tokens
	Completion int64 // completion_tokens, reasoning included
	Reasoning  int64 // completion_tokens_details.reasoning_tokens
	Cached     int64 // prompt_tokens_details.cached_tokens, else input_tokens_details.cached_tokens, cache_read_input_tokens, prompt_cache_hit_tokens, cached_tokens
	CacheWrite int64 // cache_creation_input_tokens
	CacheMiss  int64 // prompt_cache_miss_tokens
	Total      int64 // total_tokens
}

// NoUsage is the usage of a response without counts.
var NoUsage = Usage{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}

// Output returns the number of output tokens without reasoning: never negative, [Unknown] without completion tokens.
func (u Usage) Output() int64 {
	if u.Completion < 0 {
		return Unknown
	}
	return max(0, u.Completion-max(0, u.Reasoning))
}

// OSL returns the output sequence length: output and reasoning tokens, [Unknown] without completion tokens.
func (u Usage) OSL() int64 {
	if u.Completion < 0 {
		return Unknown
	}
	return u.Output() + max(0, u.Reasoning)
}
