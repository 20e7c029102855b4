package html

import (
	"github.com/agentx/agentx/replay/measure"
)

// unknown is a count that the server did not tell, and a time that did not pass.
const unknown int64 = -1

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

	sent   int64 // since the start of the phase
	late   int64 // from due to sent
	queued int64
	ttft   int64 // unknown without a token
	decode int64 // from the first to the last token
	tail   int64 // from the last token, or sent without one, to the end

	prompt, cached, output, reasoning, firstChunk int64
	asked, recorded, blocks, hits                 int64
}

// buckets are the values of the column bucket.
var buckets = []measure.Bucket{measure.Profiling, measure.Cooldown, measure.CancelledAtEnd, measure.ContextOverflow, measure.WarmupBucket}

// newRequest returns the numbers of a record. The caller sets session and failure.
func newRequest(r *measure.Record) request {
	at := measure.Nanos
	x := request{
		credit: r.Credit, turn: clip(r.Turn), outer: clip(r.SourceOuter), inner: -1,
		sent: at(r.Sent), late: at(r.Sent) - at(r.Due), queued: at(r.Queued), ttft: unknown, decode: unknown,
		prompt: count(r.PromptTokens), cached: count(r.CachedTokens), output: count(r.OutputTokens), reasoning: count(r.ReasoningTokens),
		firstChunk: count(r.FirstChunkTokens), asked: r.MaxTokens, recorded: r.RecordedISL,
		blocks: r.RecordedBlocks, hits: min(r.RecordedHits, r.RecordedBlocks),
	}
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
	last := x.sent
	if r.FirstToken > 0 {
		x.ttft, x.decode = at(r.FirstToken)-x.sent, at(r.LastToken)-at(r.FirstToken)
		last = at(r.LastToken)
	}
	x.tail = at(r.End) - last
	return x
}

// end returns when the request was over.
func (x *request) end() int64 { return x.sent + max(0, x.ttft) + max(0, x.decode) + x.tail }

// warmup reports whether the request is of the warmup.
func (x *request) warmup() bool { return buckets[x.bucket] == measure.WarmupBucket }

// clip returns a number of a record as a column of small numbers has it.
func clip(n int) int32 { return int32(min(n, 1<<31-1)) }

// count returns a number of tokens of a record.
func count(n *int64) int64 {
	if n == nil {
		return unknown
	}
	return *n
}
