package capture

import (
	"cmp"
	"net/http"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/capture/reply"
)

func (x *exchange) Head(_ int64, status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
	if status == http.StatusOK && x.lost == "" {
		x.reader = reply.New(reply.Options{
			Format: x.format, Type: header.Get("Content-Type"), Encoding: header.Get("Content-Encoding"), Limit: x.c.options.Limits.ReplyCopy,
		})
	}
}

func (x *exchange) ReplyChunk(chunk *carry.Chunk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" || x.reader == nil {
		chunk.Release()
		return x.lost == ""
	}
	if !x.c.pool.hold(x.share, int64(chunk.Size()+overhead)) {
		x.lose(journal.HoleQueue)
		chunk.Release()
		return false
	}
	x.replies = append(x.replies, chunk)
	if !x.reading {
		x.reading = true
		x.c.pool.run(nil, x.read)
	}
	return true
}

// read reads the pieces of the reply that have come, and what they say when it is over. One worker at a time runs it.
func (x *exchange) read() {
	for {
		x.mu.Lock()
		chunks, end := x.replies, x.ended
		x.replies = nil
		if len(chunks) == 0 {
			x.reading = false
			x.mu.Unlock()
			if end != nil {
				x.conclude(end)
			}
			return
		}
		x.mu.Unlock()
		for _, c := range chunks {
			x.c.metrics.timed(stageReply, func() { x.piece(c) })
		}
	}
}

// piece reads a piece of the reply. A panic of an observer ends its exchange alone.
func (x *exchange) piece(c *carry.Chunk) {
	defer func() {
		failed := recover() != nil
		x.c.pool.release(x.share, int64(c.Size()+overhead))
		c.Release()
		if failed {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.lose(journal.HoleInternal)
		}
	}()
	x.reader.Write(c.Bytes(), c.At)
	if more := x.reader.Held() - x.kept; more <= 0 || x.c.pool.hold(x.share, more) {
		x.c.pool.release(x.share, max(0, -more))
		x.kept += more
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose(journal.HoleQueue)
}

// End ends the exchange. What it came to is known at once where no reply has to be read for it, and no worker does.
func (x *exchange) End(e carry.End) {
	x.c.carried(e)
	x.mu.Lock()
	if e.Panicked {
		x.lose(journal.HoleInternal)
	} else if e.ReplyLost != nil && x.reader != nil && x.lost == "" {
		x.lose(holes[e.ReplyLost])
	}
	x.ended = &e
	joined, known := x.joined, !x.waits
	if joined {
		x.ticket.session.recorder.ending(x.ticket.q) // before anybody can tell how
	}
	busy := x.reading
	if !busy && x.reader != nil && x.lost == "" {
		busy, x.reading = true, true
		x.c.pool.run(nil, x.read)
	}
	x.mu.Unlock()
	if !busy {
		x.conclude(&e)
	}
	if joined {
		x.c.sessions.leave(x.ticket.session, e.At)
	} else if known { // nothing will make it join any more
		why := cmp.Or(unjoined[e.Outcome], journal.ReasonTransport)
		if e.Panicked {
			why = journal.HoleInternal
		}
		x.leave(why)
	}
}

// unjoined has why a request is not recorded that ended so before it could join a session. Any other one is ReasonTransport.
var unjoined = map[carry.Outcome]journal.Reason{carry.Refused: journal.ReasonStatus, carry.Aborted: journal.HoleAborted}

// conclude finds out what the exchange came to. Nobody reads its reply any more.
func (x *exchange) conclude(end *carry.End) {
	x.mu.Lock()
	lost := x.lost
	x.mu.Unlock()
	var r *replied
	x.c.metrics.timed(stageOutcome, func() { r = x.outcome(end, lost) })
	x.c.pool.release(x.share, x.kept)
	x.mu.Lock()
	x.reply, x.reader, x.kept = r, nil, 0
	x.mu.Unlock()
	x.replied()
}

// replied takes to the recorder what the exchange came to, when both are known.
func (x *exchange) replied() {
	x.mu.Lock()
	r := x.reply
	if !x.joined || x.told || r == nil {
		x.mu.Unlock()
		return
	}
	x.told = true
	rec, q := x.ticket.session.recorder, x.ticket.q
	x.mu.Unlock()
	rec.tell(func() { rec.replied(q, r) })
}
