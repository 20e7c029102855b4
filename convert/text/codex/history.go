package codex

import (
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// history is the prompt of a thread as it grows, and the replies that were given to it.
type history struct {
	*Reader
	thread  *thread
	trace   *text.Trace
	turns   []text.Turn
	spawned []bool // of turns: they started an agent
	list    []entry
	base    int  // entries that no compaction takes away
	copying bool // events are of another thread: there are no replies

	reply int   // the turn that is being read; None
	since since // what came since its last output
	news  bool  // usage came since it began
	used  bool  // it has usage
	early bool  // which came before it began

	model   text.Text
	waiting *tokens // for the next reply
	total   tokens  // since the beginning of the thread

	parent, root *history // nil: none; not known yet
	met          bool     // while the root is being looked for
	session      int32    // in the trace of the root
}

// entry is an item of a prompt.
type entry struct {
	at    int64
	node  int32
	reply int32 // the turn that gave it; None
	flags uint8
}

// since is what came since an output.
type since uint8

const (
	nothing since = iota
	results
	inputs
)

// play applies events.
func (h *history) play(events []event) {
	for _, e := range events {
		switch e.kind {
		case anItem:
			h.item(e)
		case aUsage:
			h.usage(e.at, &h.usages[e.value])
		case aModel:
			h.model = text.Text(e.value)
		case aCompaction:
			h.list = h.list[:h.base]
			for _, e := range h.replaced[e.value] {
				h.push(e)
			}
			h.since = inputs
		case aRebuilding:
			h.rebuild(e)
		case aRollback:
			h.rollBack(int(e.value))
		}
	}
}

// item adds an item. One of the model begins a reply, or goes on with it.
func (h *history) item(e event) {
	kind := content.ItemKind(e.flags & kindMask)
	if kind == content.OutputItem && !h.copying {
		h.begin(e)
	}
	h.push(e)
	switch {
	case h.copying:
	case kind == content.OutputItem:
		last := &h.list[len(h.list)-1]
		last.reply = int32(h.reply)
		turn := &h.turns[h.reply]
		turn.Output = append(turn.Output, h.trace.Nodes[last.node].Message)
		if turn.End = max(turn.End, e.at); e.flags&calls != 0 {
			turn.Stop = "tool_use"
		}
		h.spawned[h.reply] = h.spawned[h.reply] || e.flags&spawns != 0
		h.since = nothing
	case kind == content.ResultItem:
		h.since = max(h.since, results)
	default:
		h.since = inputs
	}
}

// push adds an item to the prompt. One of the assistant that is no message has no role of its own behind another.
func (h *history) push(e event) {
	parent, m := int32(text.None), e.value
	if n := len(h.list); n > 0 {
		parent = h.list[n-1].node
		if e.flags&follows != 0 && h.Data.Messages[h.trace.Nodes[parent].Message].Role == text.Assistant {
			message := h.Data.Messages[m]
			message.Continues = true
			m = h.Data.Message(message)
		}
	}
	h.list = append(h.list, entry{at: e.at, node: h.trace.Child(parent, m), reply: text.None, flags: e.flags})
}

// begin begins a reply with an output, unless that goes on with the one before.
func (h *history) begin(e event) {
	if h.reply != text.None && h.since != inputs {
		if h.since == nothing {
			return
		}
		if h.thread.counted && !h.news { // results of tools that ran while the model went on
			h.warn("merged_reply")
			return
		}
	}
	turn := text.NewTurn()
	turn.Model, turn.Stop = h.model, "end_turn"
	for k := len(h.list) - 1; k >= 0; k-- {
		of := &h.list[k]
		if k == len(h.list)-1 {
			turn.Last = of.node
		}
		if of.reply != text.None {
			turn.Before = of.reply
			break
		}
		if turn.At = max(turn.At, of.at); of.flags&kindMask == uint8(content.ResultItem) {
			turn.LastResult = max(turn.LastResult, of.at)
		}
	}
	if turn.At == text.NoTime {
		turn.At = e.at
	}
	turn.End = turn.At
	h.reply, h.since, h.news, h.used = len(h.turns), nothing, false, false
	if h.turns, h.spawned = append(h.turns, turn), append(h.spawned, false); h.waiting != nil {
		h.take(h.waiting)
		h.waiting = nil
	}
	h.early = h.used
}

// usage gives counts to the reply that they are of: to the one being read if it has none and nothing came behind it, else to the next.
func (h *history) usage(at int64, u *usage) {
	last := u.last
	if u.total[0] != text.None {
		if u.total == h.total {
			h.warn("repeated_usage")
			return
		}
		if last[0] == text.None {
			last = h.difference(u.total)
			h.warn("usage_from_totals")
		}
		h.total = u.total
	}
	if h.news = true; h.copying {
		return
	}
	if h.reply == text.None || h.since != nothing || h.used && !h.early {
		h.waiting = &last
		return
	}
	h.take(&last)
	h.early = false
	h.turns[h.reply].End = max(h.turns[h.reply].End, at)
}

// difference returns what was counted since the totals before.
func (h *history) difference(total tokens) tokens {
	of := total
	for k := range of {
		if before := max(h.total[k], 0); of[k] != text.None {
			if of[k] -= before; of[k] < 0 {
				return total // they began anew
			}
		}
	}
	return of
}

// take gives counts to the reply that is being read.
func (h *history) take(u *tokens) {
	turn := &h.turns[h.reply]
	for k, to := range [...]*int32{&turn.In, &turn.Cached, &turn.Out} {
		if *to = text.None; u[k] != text.None {
			*to = text.Tokens(u[k])
		}
	}
	h.used = true
}

// rebuild keeps what people and clients said, and adds what a compaction says.
func (h *history) rebuild(summary event) {
	old := h.list[h.base:]
	h.list = h.list[:h.base:h.base]
	for _, of := range old {
		m := h.trace.Nodes[of.node].Message
		if of.flags&kindMask == uint8(content.InputItem) && h.Data.Messages[m].Role <= text.User {
			h.push(event{at: of.at, value: m, flags: of.flags})
		}
	}
	if summary.value != text.None {
		summary.flags = uint8(content.InputItem) | ofUser
		h.push(summary)
	}
	h.since = inputs
	h.warn("compaction_rebuilt")
}

// rollBack drops what stands from the n-th message of the user on, counted from the end.
func (h *history) rollBack(n int) {
	for k := len(h.list) - 1; k >= h.base && n > 0; k-- {
		if h.list[k].flags&ofUser != 0 {
			n--
		}
		h.list = h.list[:k]
	}
	h.reply, h.since = text.None, inputs
}

// warn counts what is of the thread's own.
func (h *history) warn(name string) {
	if !h.copying {
		h.Data.Warn(name)
	}
}
