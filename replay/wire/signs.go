package wire

import "time"

// A server makes tokens that have no text: those behind the end of the text under ignore_eos, parts of a character, what a parser of
// reasoning or tools holds back. The count of usage divides by all of them, so the instants must be those of all, too.

// isSign reports whether a message without text tells of a token nevertheless: usage has grown in it, or it is one without text behind
// the first token. Behind the finish reason nothing is.
func (d *decoder) isSign(e *event) bool {
	if d.finishedAt != Never && e.finish == "" || d.textOnly {
		return false
	}
	counts := 1 // of usage that must have come before, for this one to have grown
	switch {
	case e.finish != "" && d.api == MessagesAPI:
		counts = 2 // its first message has a count, and its last: others need not
	case e.blank && e.finish == "":
		counts = 0
	}
	if e.usage != nil && d.counts >= counts && d.readUsage(e.usage).Completion > d.lastCount() {
		return true
	}
	return e.blank && d.res.Chunks > 0
}

// lastCount returns the completion tokens of the usage before, 0 where there was none.
func (d *decoder) lastCount() int64 {
	switch {
	case d.api == MessagesAPI:
		return max(0, d.billed.Completion)
	case len(d.usage) > 0:
		return max(0, d.readUsage(d.usage).Completion)
	}
	return 0
}

// withoutSign counts a message without text that is no sign of a token, though one may have been made. The first of a stream opens it.
func (d *decoder) withoutSign(e *event) {
	if e.finish == "" && d.finishedAt == Never {
		if d.opened {
			d.silent++
		}
		d.opened = true
	}
}

// Bounds of what counts as silent.
const (
	silentShare = 5                     // percent, from which on it is told
	silentTail  = 10 * time.Millisecond // and two gaps between messages: a shorter time before the finish reason is no silence
)

// silentPercent estimates how many of the tokens of an answer no message shows, in percent; 0 where they are few. They are messages without
// text that are no sign, or the time between the last token and the finish reason, where more tokens are counted than messages have come.
func (d *decoder) silentPercent() int {
	res := d.res
	if res.Chunks == 0 {
		return 0
	}
	percent := 100 * d.silent / (d.silent + res.Chunks)
	tail, all := d.finishedAt-res.LastToken, d.finishedAt-res.FirstToken
	gap := (res.LastToken - res.FirstToken) / time.Duration(max(1, res.Chunks-1))
	if d.finishedAt != Never && tail > max(silentTail, 2*gap) && res.Usage.OSL() > int64(res.Chunks+d.silent) {
		percent = max(percent, int(100*tail/all))
	}
	if percent < silentShare {
		return 0
	}
	return percent
}
