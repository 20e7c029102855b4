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
	Reused        bool  `json:"reused"`                  // the connection had served a request before; one that Open has made had not
	Resent        bool  `json:"resent,omitempty"`        // a kept connection broke before the first byte of an answer, and the request was sent again on a new one
	Redirected    bool  `json:"redirected,omitempty"`    // the answer came from the location of a redirect
	SingleBody    bool  `json:"whole,omitempty"`         // the answer was one JSON body, not a stream of events
}

// newResult returns the result of a request that is about to be sent.
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

// The Messages API reports usage twice: message_start has the counts of the prompt, message_delta those of the answer, and
// either may repeat the others; Dynamo has usage in every content_block_delta. The last value of each count holds, but a 0 does not
// replace more, unless AIPerf is imitated. Its input_tokens leaves out what was read from and written to the prefix cache.

// readUsage reads any usage object. A count that is no whole number is Unknown.
func readUsage(raw []byte, api API) Usage {
	var r reading
	if !r.read(raw, usageShapes[api]) {
		return NoUsage
	}
	at := func(i int) int64 { return r.counts[i] - 1 }
	u := Usage{Prompt: at(countPrompt), Completion: at(countCompletion), Reasoning: at(countReasoning), Cached: Unknown, CacheWrite: at(countCacheWrite), CacheMiss: at(countCacheMiss), Total: at(countTotal)}
	for i := countCached; i < numCounts && u.Cached < 0; i++ {
		u.Cached = at(i)
	}
	return u
}

// readUsage reads the usage object of an event. Unless AIPerf is imitated, Completion counts reasoning, as all but a few servers report
// it. Of those few the total shows it.
func (d *decoder) readUsage(raw []byte) Usage {
	u := readUsage(raw, d.api)
	if !d.aiperf && u.Reasoning > 0 && u.Prompt >= 0 && u.Completion >= 0 && u.Total == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
	return u
}

// addBilled adds a usage object of the Messages API. Prompt is then without the cached tokens.
func (u *Usage) addBilled(raw []byte, aiperf bool) {
	more := readUsage(raw, MessagesAPI)
	for _, count := range []struct{ to, from *int64 }{
		{&u.Prompt, &more.Prompt}, {&u.Completion, &more.Completion}, {&u.Cached, &more.Cached}, {&u.CacheWrite, &more.CacheWrite},
	} {
		if *count.from > 0 || *count.from == 0 && (aiperf || *count.to == Unknown) {
			*count.to = *count.from
		}
	}
}

// withCached returns the usage with a Prompt that counts all of the prompt: what was read from and written to the cache, too.
func (u Usage) withCached() Usage {
	if u.Prompt != Unknown {
		u.Prompt += max(0, u.Cached) + max(0, u.CacheWrite)
	}
	return u
}

// isZero reports whether a usage object has no digit above 0 outside its texts.
func isZero(usage []byte) bool {
	inText := false
	for i := 0; i < len(usage); i++ {
		switch c := usage[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && c >= '1' && c <= '9':
			return false
		}
	}
	return true
}

// Exchange has the instants of a request on its connection; [Never] where a step did not happen. A kept connection was not
// connected. Between Result.Sent and WaitEnd the request waited for a connection of the pool.
type Exchange struct {
	WaitEnd      time.Duration // a kept connection was taken, or a new one may be made
	ConnectStart time.Duration
	ConnectEnd   time.Duration // TLS included
	SendStart    time.Duration // of the first byte of the request
	SendEnd      time.Duration // of its last byte
	FirstByte    time.Duration // of the answer
	LastByte     time.Duration
}

// NoExchange is the exchange of a request that got no connection.
var NoExchange = Exchange{Never, Never, Never, Never, Never, Never, Never}
