package carry

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// watch is the observed side of one exchange: it copies, counts, and keeps what the observer does from what is carried.
type watch struct {
	x      Exchange // nil: no observer
	budget *budget
	limits *Options
	deaf   atomic.Bool // no more copies
	failed atomic.Bool // the observer panicked: no more calls but End

	upload struct { // the server's goroutine and that of the transport meet here
		sync.Mutex
		ended  bool
		bytes  int64
		copied int64
	}
	replyBytes, replyCopied int64
	replyLimit              int64
	replyLost               error
}

// begin makes the watch of an exchange that arrived.
func (w *watch) begin(course Course, ample bool) {
	w.x = course.Exchange
	w.replyLimit = w.limits.ReplyCopy
	w.deaf.Store(w.x == nil || !course.Copy)
	if w.x != nil && course.Copy && !ample {
		w.deaf.Store(true)
		w.replyLost = ErrBudget
		w.endUpload(ErrBudget)
	}
}

// tell calls the observer, if there is one that has not panicked.
func (w *watch) tell(call func()) {
	if w.x == nil || w.failed.Load() {
		return
	}
	defer w.caught()
	call()
}

// caught is deferred around every call of an observer.
func (w *watch) caught() {
	if recover() != nil {
		w.failed.Store(true)
		w.deaf.Store(true)
	}
}

// uploaded takes bytes of the request's body, and what ended it. After the exchange's end it does nothing.
func (w *watch) uploaded(p []byte, at int64, err error) {
	w.upload.Lock()
	defer w.upload.Unlock()
	w.upload.bytes += int64(len(p))
	if len(p) > 0 && !w.deaf.Load() && !w.upload.ended {
		if w.upload.copied += int64(len(p)); w.upload.copied > w.limits.RequestCopy {
			w.ended(ErrOversize)
		} else if lost := w.give(p, at, false); lost != nil {
			w.ended(lost)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		w.ended(nil)
	default:
		w.ended(errUpload)
	}
}

// endUpload tells the observer once that the request's body ended.
func (w *watch) endUpload(err error) {
	w.upload.Lock()
	defer w.upload.Unlock()
	w.ended(err)
}

// ended is endUpload under its lock.
func (w *watch) ended(err error) {
	if w.upload.ended {
		return
	}
	w.upload.ended = true
	w.tell(func() { w.x.RequestEnd(err) })
}

// give hands copies of p to the observer; the error says why not.
func (w *watch) give(p []byte, at int64, reply bool) error {
	for len(p) > 0 && !w.deaf.Load() {
		c := w.budget.copy(p, at)
		if c == nil {
			return ErrBudget
		}
		p = p[c.n:]
		w.hand(c, reply)
	}
	return nil
}

func (w *watch) hand(c *Chunk, reply bool) {
	defer w.caught()
	taken := false
	defer func() {
		if !taken {
			c.abandon()
		}
	}()
	more := false
	if reply {
		more = w.x.ReplyChunk(c)
	} else {
		more = w.x.RequestChunk(c)
	}
	taken = true
	if !more {
		w.deaf.Store(true)
	}
}

// dispatch asks the observer whether the upstream may be contacted.
func (w *watch) dispatch(at int64) (refusal *Refusal) {
	w.tell(func() { refusal = w.x.Dispatch(at) })
	return refusal
}

// head tells the observer of a reply. The copy of a stream has no limit of its own: it is read as it comes.
func (w *watch) head(at int64, status int, header http.Header) {
	if isStream(header) {
		w.replyLimit = 1 << 62
	}
	w.tell(func() { w.x.Head(at, status, header) })
}

// replied takes bytes of the reply's body.
func (w *watch) replied(p []byte, at int64) {
	w.replyBytes += int64(len(p))
	if w.deaf.Load() || w.replyLost != nil {
		return
	}
	if w.replyCopied += int64(len(p)); w.replyCopied > w.replyLimit {
		w.replyLost = ErrOversize
		return
	}
	w.replyLost = w.give(p, at, true)
}

// end tells the observer of the end, after that of the upload.
func (w *watch) end(e End) {
	w.endUpload(errUpload)
	if w.x == nil {
		return
	}
	e.Panicked, e.ReplyLost, e.ReplyBytes = w.failed.Load(), w.replyLost, w.replyBytes
	w.upload.Lock()
	e.RequestBytes = w.upload.bytes
	w.upload.Unlock()
	defer w.caught()
	w.x.End(e)
}
