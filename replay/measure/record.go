// Package measure holds what a replay records per request, and the statistics over it: a [Writer] appends records
// as JSON lines, an [Aggregate] keeps the few numbers of each that percentiles need, and a [Summary] is what a run
// reports. It knows nothing of how requests are chosen or sent.
//
// All times are seconds since the start of the phase.
package measure

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Record is one request of the profiling phase, as one line of the record file. There is a record for every
// request that was sent, whatever became of it.
type Record struct {
	Phase string `json:"phase"`
	Lane  int    `json:"lane"`
	Tree  int    `json:"tree"` // ordinal of the tree in the run
	Pass  int    `json:"pass"` // how often the trace was begun before, over all lanes
	Trace string `json:"trace"`

	Session string `json:"session"`          // the session of the trace
	Parent  string `json:"parent,omitempty"` // its parent session, empty for a root
	Turn    int    `json:"turn"`

	// Where the request stands in the recording. SourceInner is set for requests of subagents only.
	SourceOuter int    `json:"source_outer"`
	SourceInner *int   `json:"source_inner,omitempty"`
	SourceKind  string `json:"source_kind"`

	RequestID     string `json:"request_id"`
	CorrelationID string `json:"correlation_id"`

	Due        float64 `json:"due"`                   // the turn could go
	Admitted   float64 `json:"admitted"`              // the order to send it was given: later than Due where it had to wait for a slot
	Sent       float64 `json:"sent"`                  // immediately before it was handed to the transport; the first time, if resent
	FirstToken float64 `json:"first_token,omitempty"` // first content; 0 when there was none
	LastToken  float64 `json:"last_token,omitempty"`  // last content; 0 when there was none
	End        float64 `json:"end"`                   // the request was over for the client

	Status           int   `json:"status"`                 // HTTP status, 0 when no answer came
	RecordedISL      int64 `json:"recorded_in"`            // prompt tokens that the turn was to have
	MaxTokens        int64 `json:"max_tokens"`             // output tokens that were asked for
	FirstChunkTokens int64 `json:"first_tokens,omitempty"` // completion tokens of the first chunk, when asked for and told

	// From the server's usage; nil when it did not say. OutputTokens is without reasoning.
	PromptTokens    *int64 `json:"prompt_tokens,omitempty"`
	CachedTokens    *int64 `json:"cached_tokens,omitempty"`
	OutputTokens    *int64 `json:"output_tokens,omitempty"`
	ReasoningTokens *int64 `json:"reasoning_tokens,omitempty"`

	Chunks        int   `json:"chunks"` // content messages
	BytesSent     int64 `json:"bytes_sent"`
	BytesReceived int64 `json:"bytes_received"`
	Reused        bool  `json:"reused"`               // on a kept connection
	Resent        bool  `json:"resent,omitempty"`     // a kept connection broke before any byte of an answer came, and it went out again
	Redirected    bool  `json:"redirected,omitempty"` // it went out again to where a redirect pointed
	SingleBody    bool  `json:"whole,omitempty"`      // the answer was one body, not a stream

	BackOff float64 `json:"back_off,omitempty"` // how long its lane then sent nothing, for want of a connection

	Bucket Bucket `json:"bucket"`
	Error  *Error `json:"error,omitempty"` // nil when the request ended well
}

// ProfilingPhase is the phase of what is measured.
const ProfilingPhase = "profiling"

// Error says why a request failed.
type Error struct {
	Category wire.Category `json:"category"`
	Message  string        `json:"message"`
}

// Tokens turns a count into a field of a Record: nil when it is negative, which means that the server did not say.
func Tokens(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Seconds turns an instant since the epoch of a clock into seconds since the start of the phase on the same clock;
// a negative instant, one that never came, becomes 0.
func Seconds(at, phase time.Duration) float64 {
	if at < 0 {
		return 0
	}
	return (at - phase).Seconds()
}

// OSL is the output sequence length, reasoning included; false when the server did not say.
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

// TTFT is the time to the first token, in seconds; false without a token.
func (r *Record) TTFT() (float64, bool) {
	return r.FirstToken - r.Sent, r.FirstToken > 0
}

// Latency is the time from Sent to the last token, in seconds; false without a token.
func (r *Record) Latency() (float64, bool) {
	return r.LastToken - r.Sent, r.LastToken > 0
}

// ITL is the inter-token latency in seconds: the time from the first to the last token over the tokens that came
// after the first chunk. That chunk counts as one token unless the server said what was in it. False when fewer
// than two tokens are known of.
func (r *Record) ITL() (float64, bool) {
	n, ok := r.OSL()
	if !ok || n < 2 || r.FirstToken <= 0 {
		return 0, false
	}
	first := int64(1)
	if r.FirstChunkTokens >= 1 && r.FirstChunkTokens < n {
		first = r.FirstChunkTokens
	}
	return (r.LastToken - r.FirstToken) / float64(n-first), true
}

// Lateness is the time from Due to Sent, in seconds: the cost of limits and of the client itself.
func (r *Record) Lateness() float64 { return r.Sent - r.Due }

// AppendJSON appends the record as one JSON object, the same that encoding/json makes of it, and returns the
// extended buffer.
func (r *Record) AppendJSON(b []byte) []byte {
	b = appendString(append(b, '{'), "phase", r.Phase)
	b = appendInt(b, "lane", int64(r.Lane))
	b = appendInt(b, "tree", int64(r.Tree))
	b = appendInt(b, "pass", int64(r.Pass))
	b = appendString(b, "trace", r.Trace)
	b = appendString(b, "session", r.Session)
	if r.Parent != "" {
		b = appendString(b, "parent", r.Parent)
	}
	b = appendInt(b, "turn", int64(r.Turn))
	b = appendInt(b, "source_outer", int64(r.SourceOuter))
	if r.SourceInner != nil {
		b = appendInt(b, "source_inner", int64(*r.SourceInner))
	}
	b = appendString(b, "source_kind", r.SourceKind)
	b = appendString(b, "request_id", r.RequestID)
	b = appendString(b, "correlation_id", r.CorrelationID)
	b = appendFloat(b, "due", r.Due)
	b = appendFloat(b, "admitted", r.Admitted)
	b = appendFloat(b, "sent", r.Sent)
	if r.FirstToken != 0 {
		b = appendFloat(b, "first_token", r.FirstToken)
	}
	if r.LastToken != 0 {
		b = appendFloat(b, "last_token", r.LastToken)
	}
	b = appendFloat(b, "end", r.End)
	b = appendInt(b, "status", int64(r.Status))
	b = appendInt(b, "recorded_in", r.RecordedISL)
	b = appendInt(b, "max_tokens", r.MaxTokens)
	if r.FirstChunkTokens != 0 {
		b = appendInt(b, "first_tokens", r.FirstChunkTokens)
	}
	b = appendTokens(b, "prompt_tokens", r.PromptTokens)
	b = appendTokens(b, "cached_tokens", r.CachedTokens)
	b = appendTokens(b, "output_tokens", r.OutputTokens)
	b = appendTokens(b, "reasoning_tokens", r.ReasoningTokens)
	b = appendInt(b, "chunks", int64(r.Chunks))
	b = appendInt(b, "bytes_sent", r.BytesSent)
	b = appendInt(b, "bytes_received", r.BytesReceived)
	b = strconv.AppendBool(appendKey(b, "reused"), r.Reused)
	if r.Resent {
		b = strconv.AppendBool(appendKey(b, "resent"), true)
	}
	if r.Redirected {
		b = strconv.AppendBool(appendKey(b, "redirected"), true)
	}
	if r.SingleBody {
		b = strconv.AppendBool(appendKey(b, "whole"), true)
	}
	if r.BackOff != 0 {
		b = appendFloat(b, "back_off", r.BackOff)
	}
	b = appendString(b, "bucket", string(r.Bucket))
	if r.Error != nil {
		b = append(appendKey(b, "error"), '{')
		b = appendString(b, "category", string(r.Error.Category))
		b = appendString(b, "message", r.Error.Message)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendInt(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, key), n, 10)
}

func appendTokens(b []byte, key string, n *int64) []byte {
	if n == nil {
		return b
	}
	return appendInt(b, key, *n)
}

// appendFloat writes the shortest form that reads back as the same number. Times are neither so large nor so
// small that encoding/json would choose an exponent, except below a microsecond.
func appendFloat(b []byte, key string, f float64) []byte {
	if a := math.Abs(f); a == 0 || (a >= 1e-6 && a < 1e21) {
		return strconv.AppendFloat(appendKey(b, key), f, 'f', -1, 64)
	}
	return appendAny(b, key, f)
}

// appendString writes plain ASCII as it is and leaves everything else to encoding/json.
func appendString(b []byte, key, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendAny(b, key, s)
		}
	}
	b = append(appendKey(b, key), '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendAny(b []byte, key string, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil { // a number that is none
		j = []byte("null")
	}
	return append(appendKey(b, key), j...)
}
