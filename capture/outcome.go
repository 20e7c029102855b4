package capture

import (
	"errors"
	"net/http"
	"time"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/capture/chain"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/capture/reply"
)

// prompt is what was read of a request, or why it was not.
type prompt struct {
	lost     journal.Reason // "" without a prompt: the client broke off, and none was served
	canon    *canon.Prompt
	body     []byte // that canon refers to
	prepared *chain.Prepared
}

// prepare tokenizes what is new to a session.
func (p *prompt) prepare(t *chain.Tree) {
	defer func() {
		if recover() != nil {
			p.prepared, p.lost = nil, journal.HoleInternal
		}
	}()
	prepared, err := t.Prepare(p.canon)
	if err != nil {
		p.lost = reasonOf(err)
		return
	}
	p.prepared = prepared
}

// erase overwrites what the client sent.
func (p *prompt) erase() {
	clear(p.body)
	p.body, p.canon = nil, nil
}

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
			r.end.X = journal.Aborted
		}
	}()
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
	case x.reader == nil || lost != "":
		r.end.X = journal.Aborted
		return r
	}
	f := x.reader.End(e.Outcome != carry.Whole)
	if f.Lost != "" {
		r.end.X = journal.Aborted
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
	end.API = int(max(0, f.Prompt))
	if end.Out = int(f.Out); f.Out < 0 {
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
		return journal.Reason(why.Reason)
	}
	return journal.HoleInvariant
}
