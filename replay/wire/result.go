package wire

import "time"

// Never is the instant of something that did not happen.
const Never time.Duration = -1

// Result is what became of one request. Instants are durations since the client's epoch on the monotonic clock;
// Sent and End are always set, the others are [Never] when they did not happen. Facts stand even beside an error:
// a stream that broke after ten tokens has a first token.
type Result struct {
	Sent        time.Duration // immediately before a connection was taken or dialled; the first one, if resent
	FirstToken  time.Duration // the first message with content, reasoning or a tool call
	SecondToken time.Duration // the second such message
	FirstOutput time.Duration // the first message with content or a tool call: not reasoning alone
	LastToken   time.Duration // the last message with content, reasoning or a tool call
	LastMessage time.Duration // the last message of any kind, usage and [DONE] included
	End         time.Duration // the request was over for the client, whatever happened

	Status           int    // HTTP status, 0 when no answer came
	Chunks           int    // messages with content, reasoning or a tool call
	Usage            Usage  // of the last usage object that was not empty
	FirstChunkTokens int64  // completion tokens of the usage object in the first content message; -1 when it had none, or was not asked for
	FinishReason     string // finish reason of choice 0

	BytesSent     int64 // handed to connections, headers included, a resend counted again
	BytesReceived int64 // read from connections, headers and framing included
	Reused        bool  // the connection had served a request before
	Resent        bool  // a kept connection broke before any byte of an answer came, and the request went out again on a new one
	Redirected    bool  // the answer came from where a redirect had pointed to
	SingleBody    bool  // the answer was one body, not a stream of events

	Err *Failure // nil when the request ended well
}

func newResult(now time.Duration) Result {
	return Result{
		Sent: now, FirstToken: Never, SecondToken: Never,
		FirstOutput: Never, LastToken: Never, LastMessage: Never, End: Never,
		Usage: NoUsage, FirstChunkTokens: Unknown,
	}
}

// Unknown is a token count that the server did not report, which is not the same as 0.
const Unknown int64 = -1

// Usage is the token accounting of one response as the server reported it; every count may be [Unknown].
type Usage struct {
	Prompt     int64 // prompt_tokens
	Completion int64 // completion_tokens, reasoning included
	Reasoning  int64 // completion_tokens_details.reasoning_tokens
	Cached     int64 // prompt_tokens_details.cached_tokens, else input_tokens_details.cached_tokens, else cache_read_input_tokens
	CacheWrite int64 // cache_creation_input_tokens
	CacheMiss  int64 // prompt_cache_miss_tokens
}

// NoUsage is the usage of a response that reported none.
var NoUsage = Usage{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}

// Output is the number of output tokens without reasoning: never negative, [Unknown] without completion tokens.
func (u Usage) Output() int64 {
	if u.Completion < 0 {
		return Unknown
	}
	return max(0, u.Completion-max(0, u.Reasoning))
}

// OSL is the output sequence length: output plus reasoning tokens, [Unknown] without completion tokens.
func (u Usage) OSL() int64 {
	if u.Completion < 0 {
		return Unknown
	}
	return u.Output() + max(0, u.Reasoning)
}
