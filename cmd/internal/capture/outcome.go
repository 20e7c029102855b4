package capture

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/capture/reply"
)

// replied is how an exchange ended, and what its reply says.
type replied struct {
	end   journal.End // without Q; T and First are nanoseconds of the monotonic clock
	calls []reply.Call
	id    string // of a response to go on from
	items []byte
}

// suspended is how far wall clock and monotonic clock may part before an exchange is marked.
const suspended = int64(5 * time.Second)

// outcome reads what an exchange came to. A worker calls it when everything has passed.
func (x *exchange) outcome(e *carry.End, lost journal.Reason) (r *replied) {
	r = &replied{end: journal.End{T: e.At, First: -1, X: journal.Transport, Status: x.status}}
	defer func() {
		if recover() != nil {
			r.end = journal.End{T: e.At, First: -1, X: journal.Aborted, Status: x.status, Lost: journal.HoleInternal}
			r.calls, r.id, r.items = nil, "", nil
		}
	}()
	if x.reader != nil {
		defer x.reader.Close()
	}
	if drift := x.c.suspense() - x.suspense; drift > suspended || drift < -suspended {
		r.end.Marks |= journal.MarkClock
	}
	switch {
	case e.Outcome == carry.Aborted:
		r.end.X = journal.Aborted
		return r
	case x.status == 0:
		return r
	case x.status != http.StatusOK:
		r.end.X = journal.BadStatus
		return r
	case lost != "" || x.reader == nil:
		r.end.X, r.end.Lost = journal.Aborted, lost
		return r
	}
	f := x.reader.End(e.Outcome != carry.Whole)
	if f.Lost != "" {
		r.end.X, r.end.Lost = journal.Aborted, f.Lost
		return r
	}
	x.judge(r, e, f)
	return r
}

// judge completes the end of an exchange by what its reply says.
func (x *exchange) judge(r *replied, e *carry.End, f *reply.Facts) {
	end := &r.end
	switch {
	case f.Whole && !(f.Failed && !f.HasOutput):
		end.X = journal.Complete
		if e.ClientGone {
			end.X = journal.ClientGone
			end.Marks |= journal.MarkClientGone
		}
	case f.HasOutput:
		end.X = journal.Partial
		end.Marks |= journal.MarkPartial
	default:
		end.X = journal.NoOutput
		return
	}
	end.First, end.Output, end.Stop, end.Word = f.First, f.Output, f.Stop, f.Word
	end.Marks |= f.Marks
	end.Calls = len(f.Calls)
	if f.Prompt > 0 && f.Prompt <= math.MaxInt32 {
		end.API = int(f.Prompt)
	}
	if end.Out = int(f.Out); f.Out < 0 || f.Out > journal.MaxTokens { // no answer is that long
		end.Out = x.c.count(f.Texts)
		end.Marks |= journal.MarkOutCounted
	}
	if f.HasOutput {
		end.Out = max(1, end.Out)
	}
	r.calls, r.id, r.items = f.Calls, f.ID, f.Items
}

// count returns how many tokens the output has.
func (c *Capture) count(texts []string) (n int) {
	var ids []uint32
	for _, text := range texts {
		ids = c.options.Tokenizer.AppendIDs(ids[:0], text)
		n += len(ids)
	}
	return n
}

// reasonOf returns why a prompt has no blocks.
func reasonOf(err error) journal.Reason {
	var why *canon.Error
	if errors.As(err, &why) {
		return why.Reason
	}
	return journal.HoleInvariant
}
