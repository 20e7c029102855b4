package measure

import (
	"encoding/json"
	"math"
	"strconv"
)

// AppendJSON appends the record as one JSON object and returns the extended buffer. The bytes are those of encoding/json.
func (r *Record) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = r.appendTurn(b)
	b = r.appendTimes(b)
	b = r.appendTokens(b)
	b = r.appendAnswer(b)
	return append(b, '}')
}

// appendTurn appends which turn of which trace the request was.
func (r *Record) appendTurn(b []byte) []byte {
	b = appendString(b, "phase", r.Phase)
	b = appendInt(b, "lane", int64(r.Lane))
	b = appendInt(b, "credit", int64(r.Credit))
	b = appendInt(b, "tree", int64(r.Tree))
	b = appendInt(b, "pass", int64(r.Pass))
	b = appendString(b, "trace", r.Trace)
	b = appendString(b, "session", r.Session)
	b = appendText(b, "parent", r.Parent)
	b = appendInt(b, "turn", int64(r.Turn))
	b = appendPositive(b, "depth", r.Depth)
	b = appendInt(b, "source_outer", int64(r.SourceOuter))
	if r.SourceInner != nil {
		b = appendInt(b, "source_inner", int64(*r.SourceInner))
	}
	b = appendString(b, "source_kind", r.SourceKind)
	if r.URL != nil {
		b = appendInt(b, "url", int64(*r.URL))
	}
	b = appendText(b, "address", r.Address)
	b = appendString(b, "request_id", r.RequestID)
	b = appendString(b, "correlation_id", r.CorrelationID)
	b = appendString(b, "root_id", r.RootID)
	return appendText(b, "parent_id", r.ParentID)
}

func (r *Record) appendTimes(b []byte) []byte {
	b = appendFloat(b, "due", r.Due)
	b = appendFloat(b, "admitted", r.Admitted)
	b = appendInstant(b, "queued", r.Queued)
	b = appendFloat(b, "sent", r.Sent)
	b = appendInstant(b, "acknowledged", r.Acknowledged)
	b = appendInstant(b, "first_token", r.FirstToken)
	b = appendInstant(b, "second_token", r.SecondToken)
	b = appendInstant(b, "first_output", r.FirstOutput)
	b = appendInstant(b, "last_token", r.LastToken)
	b = appendInstant(b, "last_message", r.LastMessage)
	b = appendFloat(b, "end", r.End)
	b = appendInstant(b, "cancelled_at", r.CancelledAt)
	b = appendInstant(b, "deadline", r.Deadline)
	b = appendInstant(b, "output_by_deadline", r.OutputByDeadline)
	b = appendPositive(b, "open_trees", r.OpenTrees)
	b = appendPositive(b, "queued_trees", r.QueuedTrees)
	b = appendInstant(b, "wait_end", r.WaitEnd)
	b = appendInstant(b, "connect_start", r.ConnectStart)
	b = appendInstant(b, "connect_end", r.ConnectEnd)
	b = appendInstant(b, "send_start", r.SendStart)
	b = appendInstant(b, "send_end", r.SendEnd)
	b = appendInstant(b, "first_byte", r.FirstByte)
	return appendInstant(b, "last_byte", r.LastByte)
}

// appendTokens appends the status, which stands before them, and the counts of tokens.
func (r *Record) appendTokens(b []byte) []byte {
	b = appendInt(b, "status", int64(r.Status))
	b = appendInt(b, "recorded_in", r.RecordedISL)
	b = appendInt(b, "recorded_blocks", r.RecordedBlocks)
	b = appendInt(b, "recorded_hits", r.RecordedHits)
	b = appendInt(b, "max_tokens", r.MaxTokens)
	b = appendCount(b, "first_tokens", r.FirstChunkTokens)
	b = appendCount(b, "prompt_tokens", r.PromptTokens)
	b = appendCount(b, "cached_tokens", r.CachedTokens)
	b = appendCount(b, "output_tokens", r.OutputTokens)
	b = appendCount(b, "reasoning_tokens", r.ReasoningTokens)
	b = appendCount(b, "total_tokens", r.TotalTokens)
	b = appendCount(b, "cache_write_tokens", r.CacheWriteTokens)
	return appendCount(b, "cache_miss_tokens", r.CacheMissTokens)
}

// appendAnswer appends how the request was transported and how it ended.
func (r *Record) appendAnswer(b []byte) []byte {
	b = appendText(b, "finish_reason", r.FinishReason)
	b = appendInt(b, "chunks", int64(r.Chunks))
	b = appendInt(b, "bytes_sent", r.BytesSent)
	b = appendInt(b, "bytes_received", r.BytesReceived)
	b = appendPositive(b, "body_sent", int(r.BodySent))
	b = appendPositive(b, "body_received", int(r.BodyReceived))
	b = appendPositive(b, "body_reads", r.BodyReads)
	b = strconv.AppendBool(appendKey(b, "reused"), r.Reused)
	b = appendTrue(b, "resent", r.Resent)
	b = appendTrue(b, "redirected", r.Redirected)
	b = appendTrue(b, "whole", r.SingleBody)
	b = appendPositive(b, "silent", r.Silent)
	b = appendPositive(b, "burst", r.Burst)
	b = appendText(b, "events_as", r.EventsAs)
	b = appendPositive(b, "throttled", r.Throttled)
	b = appendInstant(b, "waited", r.Waited)
	b = appendInstant(b, "back_off", r.BackOff)
	b = appendString(b, "bucket", string(r.Bucket))
	if r.Error != nil {
		b = append(appendKey(b, "error"), '{')
		b = appendString(b, "category", string(r.Error.Category))
		if r.Error.Code != 0 {
			b = appendInt(b, "code", int64(r.Error.Code))
		}
		b = appendString(b, "message", r.Error.Message)
		b = append(b, '}')
	}
	return b
}

// appendPositive appends a member that is left out when it is 0.
func appendPositive(b []byte, key string, n int) []byte {
	if n == 0 {
		return b
	}
	return appendInt(b, key, int64(n))
}

// appendTrue appends a member that is left out when it is false.
func appendTrue(b []byte, key string, v bool) []byte {
	if !v {
		return b
	}
	return append(appendKey(b, key), "true"...)
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

// appendCount appends a count that is left out when it is not known.
func appendCount(b []byte, key string, n *int64) []byte {
	if n == nil {
		return b
	}
	return appendInt(b, key, *n)
}

// appendFloat appends the shortest form that reads back as the same number. It leaves numbers for which encoding/json would
// choose an exponent to it: of times, those below a microsecond.
func appendFloat(b []byte, key string, f float64) []byte {
	if a := math.Abs(f); a == 0 || (a >= 1e-6 && a < 1e21) {
		return strconv.AppendFloat(appendKey(b, key), f, 'f', -1, 64)
	}
	return appendAny(b, key, f)
}

// appendInstant appends a number of seconds that is left out when it is 0.
func appendInstant(b []byte, key string, f float64) []byte {
	if f == 0 {
		return b
	}
	return appendFloat(b, key, f)
}

// appendText appends a string that is left out when it is empty.
func appendText(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(b, key, s)
}

// appendString appends plain ASCII as it is and leaves any other string to encoding/json.
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
	if err != nil { // NaN or infinity
		j = []byte("null")
	}
	return append(appendKey(b, key), j...)
}
