package report

import (
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// row has the numbers of one record. Instants are nanoseconds since the start of the phase; never is one that did not happen.
type row struct {
	due, queued, admitted, sent, end int64
	rowEnd                           int64 // when it ends in a row of the harness, of a run that was played as that plays
	done                             int64 // when the client was done with it; end is when its last message came, of such a run

	firstToken, secondToken, firstOutput, lastToken int64

	waitEnd, connectStart, connectEnd, sendStart, sendEnd, firstByte, lastByte int64

	prompt, cached, output, reasoning, total, cacheWrite, cacheMiss int64 // tokens; unknown where the server did not tell
	firstChunk                                                      int64 // tokens, or unknown
	asked, recorded, blocks, hits                                   int64

	deadline int64   // of its phase, of a request that ended after it; else never
	part     float64 // of its output tokens, that came by then

	bytesSent, bytesReceived, bodySent, bodyReceived, bodyReads int64

	contents int64 // where the packed instants of the content messages begin in their file
	packed   int32 // bytes of these; 0: there are none

	reused bool
	failed bool
	good   bool // it meets the service levels
	apart  bool // it failed, and is counted apart: cancelled, or it did not fit the context

	noContent bool // it failed because its answer was complete and had no content
}

const (
	never   int64 = 0 // instants of a record are 0 where they did not happen
	unknown int64 = -1
)

// newRow returns the numbers of a record.
func newRow(r *measure.Record) row {
	at := measure.Nanos
	apart := r.Error != nil && (r.Error.Category == wire.Cancelled || r.Error.Category == wire.ContextOverflow)
	return row{
		apart: apart,
		due:   at(r.Due), queued: at(r.Queued), admitted: at(r.Admitted), sent: at(r.Sent), end: at(r.End), done: at(r.End),
		firstToken: at(r.FirstToken), secondToken: at(r.SecondToken), firstOutput: at(r.FirstOutput), lastToken: at(r.LastToken),
		waitEnd: at(r.WaitEnd), connectStart: at(r.ConnectStart), connectEnd: at(r.ConnectEnd),
		sendStart: at(r.SendStart), sendEnd: at(r.SendEnd), firstByte: at(r.FirstByte), lastByte: at(r.LastByte),
		prompt: count(r.PromptTokens), cached: count(r.CachedTokens), output: count(r.OutputTokens), reasoning: count(r.ReasoningTokens),
		total: count(r.TotalTokens), cacheWrite: count(r.CacheWriteTokens), cacheMiss: count(r.CacheMissTokens),
		firstChunk: count(r.FirstChunkTokens), asked: r.MaxTokens, recorded: r.RecordedISL, blocks: r.RecordedBlocks, hits: r.RecordedHits,
		bytesSent: r.BytesSent, bytesReceived: r.BytesReceived, reused: r.Reused, failed: r.Error != nil,
		bodySent: r.BodySent, bodyReceived: r.BodyReceived, bodyReads: int64(r.BodyReads),
		deadline: at(r.Deadline), part: r.OutputByDeadline, noContent: r.Error != nil && r.Error.Category == wire.NoContent,
	}
}

// count returns a number of tokens of a record.
func count(n *int64) int64 {
	if n == nil {
		return unknown
	}
	return *n
}

// osl returns the output sequence length, or unknown.
func (r *row) osl() int64 {
	if r.output == unknown {
		return unknown
	}
	return r.output + max(r.reasoning, 0)
}
