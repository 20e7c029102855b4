package html

import (
	"github.com/agentx/agentx/replay/measure"
)

// request is what the page knows of one record. Instants and times are nanoseconds.
type request struct {
	credit  int
	session int32 // position in Builder.sessions
	turn    int32
	outer   int32 // place in the recording
	inner   int32 // -1: none
	server  int32 // position in the URLs of the run

	bucket  uint8 // position in buckets
	failure int32 // position in Builder.failures plus 1; 0: it ended well
	good    bool  // it meets the service levels

	measure.Numbers
}

// buckets are the values of the column bucket.
var buckets = []measure.Bucket{measure.Profiling, measure.Cooldown, measure.CancelledAtEnd, measure.ContextOverflow, measure.WarmupBucket}

// newRequest returns the numbers of a record. The caller sets session and failure.
func newRequest(r *measure.Record) request {
	x := request{credit: r.Credit, turn: clip(r.Turn), outer: clip(r.SourceOuter), inner: -1, Numbers: r.Numbers}
	for k, b := range buckets {
		if b == r.Bucket {
			x.bucket = uint8(k)
		}
	}
	if r.SourceInner != nil {
		x.inner = clip(*r.SourceInner)
	}
	if r.URL != nil {
		x.server = clip(*r.URL)
	}
	return x
}

// judged reports whether the headline, or its failures, have the request, measured whether the headline is over it, and ended whether the
// error rate is.
func (x *request) judged() bool   { return buckets[x.bucket] == measure.Profiling }
func (x *request) measured() bool { return x.judged() && x.failure == 0 }
func (x *request) ended() bool    { return x.judged() || buckets[x.bucket] == measure.Cooldown }

// uncached returns the prompt tokens that the server did not find in its cache, as far as it tells.
func (x *request) uncached() int64 {
	if x.PromptTokens == 0 {
		return measure.Unknown
	}
	return max(0, x.PromptTokens.N()-max(0, x.CachedTokens.N()))
}

// hits returns the blocks of the recorded prompt that a cache without a limit holds.
func (x *request) hits() int64 { return min(max(0, x.RecordedHits), x.RecordedBlocks) }

// tail returns the time from the last token, or Sent without one, to the end.
func (x *request) tail() int64 { return int64(x.End - max(x.Sent, x.LastToken)) }

// warmup reports whether the request is of the warmup.
func (x *request) warmup() bool { return buckets[x.bucket] == measure.WarmupBucket }

// clip returns a number of a record as a column of small numbers has it.
func clip(n int) int32 { return int32(min(n, 1<<31-1)) }
