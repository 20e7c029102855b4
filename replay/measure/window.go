package measure

import (
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Bucket is a set of requests. Every request of a run is in exactly one (doc/spec/replay.md 8.2).
type Bucket string

// The buckets. The headline numbers are over Profiling alone.
const (
	Profiling       Bucket = "profiling"        // ended at or before the deadline, or with Cutoff.CountGrace within the grace
	Cooldown        Bucket = "cooldown"         // ended after the deadline, within the grace
	CancelledAtEnd  Bucket = "cancelled_at_end" // cancelled by the run
	ContextOverflow Bucket = "context_overflow" // did not fit the context, whenever it ended
	WarmupBucket    Bucket = "warmup"           // of the warmup, whatever became of it
)

// Cutoff decides the bucket of requests.
type Cutoff struct {
	Deadline   time.Duration // end of the phase, on the clock of the results; 0: none, hence no cooldown
	CountGrace bool          // requests that end within the grace belong to the headline: there is no cooldown
}

// Bucket returns the bucket of a request that ended at an instant. The category is that of its failure, empty when it ended
// well.
func (c Cutoff) Bucket(end time.Duration, category wire.Category) Bucket {
	switch {
	case category == wire.Cancelled:
		return CancelledAtEnd
	case category == wire.ContextOverflow:
		return ContextOverflow
	case c.Deadline > 0 && end > c.Deadline && !c.CountGrace:
		return Cooldown
	}
	return Profiling
}

// ThroughputWindow is the time that rates divide by, with what they are of. Instants are seconds since the start of the phase.
type ThroughputWindow struct {
	Kind    string `json:"kind"` // benchmark, phase or delivered
	Start   Number `json:"start"`
	End     Number `json:"end"`
	Seconds Number `json:"seconds"`
	Amount
}

// Amount is what rates are of.
type Amount struct {
	Requests     Number `json:"requests"`      // that ended well; delivered: by the deadline
	PromptTokens Number `json:"prompt_tokens"` // of these; delivered: of requests whose first token came by the deadline
	OutputTokens Number `json:"output_tokens"` // of these; delivered: tokens that came by the deadline
}

// Span is what windows are made of.
type Span struct {
	Ended       int            // requests that ended well
	First, Last float64        // of these: earliest Sent and latest LastToken
	Phase       Number         // length of the phase; Missing: it did not come to its end
	Deadline    Number         // end of what is delivered
	Amount                     // of the requests that ended well
	Delivered   DeliveredTotal // of these and of those of the cooldown
}

// Window returns the window of a span by the rules: with DeliveredOnly that of Delivered, with PhaseWindow the phase, else from the first
// Sent to the last LastToken. Its instants are Missing where they are not known or leave no time.
func (l Rules) Window(s Span) ThroughputWindow {
	switch {
	case l.DeliveredOnly:
		return s.deliveredWindow()
	case l.PhaseWindow && !s.Phase.IsMissing():
		return s.window("phase", 0, s.Phase, s.Amount)
	}
	return s.window("benchmark", Number(s.First), Number(s.Last), s.Amount)
}

// deliveredWindow returns the window from the start of the phase to its deadline.
func (s Span) deliveredWindow() ThroughputWindow {
	return s.window("delivered", 0, s.Deadline, s.Delivered.amount())
}

// window returns a window of a kind; Missing where it has no length, or no request ended well.
func (s Span) window(kind string, from, to Number, of Amount) ThroughputWindow {
	w := ThroughputWindow{kind, from, to, to - from, of}
	if !(w.Seconds > 0) || w.Seconds.IsMissing() || s.Ended == 0 {
		w.Start, w.End, w.Seconds = Missing, Missing, Missing
	}
	return w
}

// Rate returns how much of an amount there was in a second.
func (w *ThroughputWindow) Rate(of Number) Number {
	if w.Seconds.IsMissing() || of.IsMissing() {
		return Missing
	}
	return of / w.Seconds
}

// DeliveredEnd returns the end of what is delivered: the deadline of a phase, or its end where that came before; without a deadline the end
// of the last request. Of a run that was killed, which has no facts, late is the deadline of records that ended after it; 0: none did.
func DeliveredEnd(f *Facts, last, late float64) Number {
	switch {
	case f == nil && late > 0:
		return Number(late)
	case f == nil || f.Deadline <= 0:
		return Number(last)
	}
	return Number(min(f.Deadline, f.PhaseDuration))
}

// DeliveredTotal adds up what requests that ended well brought by the deadline.
type DeliveredTotal struct {
	Requests, Good int // that ended by the deadline

	all            int // requests
	prompt, output TokenSum
	part           float64 // output tokens of requests that ended later
}

// Add adds a request that ended well. Of one that ended after the deadline, the prompt counts if its first token came before, and of the
// output what had come by then.
func (d *DeliveredTotal) Add(n *Numbers, good bool) {
	late := n.Deadline > 0
	d.all++
	d.prompt.add(n.PromptTokens.N(), !late || n.begunByDeadline())
	d.output.add(n.OSL(), !late)
	d.part += n.OutputByDeadline
	if !late {
		d.Requests++
	}
	if good && !late {
		d.Good++
	}
}

// amount returns what was delivered.
func (d *DeliveredTotal) amount() Amount {
	return Amount{Number(d.Requests), d.prompt.over(d.all), d.output.over(d.all) + Number(d.part)}
}

// begunByDeadline reports whether the first token of a request that ended after the deadline came by it.
func (n *Numbers) begunByDeadline() bool { return n.FirstToken > 0 && n.FirstToken <= n.Deadline }

// Deliver notes of a request that ended after the deadline how many of its output tokens had come by then.
func (c Cutoff) Deliver(r *Record) {
	if c.Deadline <= 0 || r.End <= Time(c.Deadline) {
		return
	}
	r.Deadline = Time(c.Deadline)
	if n := r.OSL(); n != Unknown && r.Error == nil && r.begunByDeadline() {
		r.OutputByDeadline = r.outputBy(r.Deadline, n)
	}
}

// outputBy returns how many of the output tokens of an answer came by an instant at which its first had come. Each message brought the
// tokens that the server tells; where it does not tell them of all, the first message brought its own, or one, and the others the same
// number each.
func (r *Record) outputBy(deadline Time, output int64) float64 {
	if r.LastToken <= deadline {
		return float64(output)
	}
	var messages, came int
	var told, toldCame int64
	all := true
	for at, tokens := range r.Contents.All() {
		messages, told, all = messages+1, told+tokens, all && tokens >= 0
		if r.Sent+Time(at) <= deadline {
			came, toldCame = came+1, toldCame+tokens
		}
	}
	first := r.FirstChunk()
	if first == Unknown {
		first = min(1, output)
	}
	switch {
	case all && told == output:
		return float64(toldCame)
	case messages < 2: // the instants are not known: evenly from the first to the last token
		return float64(output) * float64(deadline-r.FirstToken) / float64(r.LastToken-r.FirstToken)
	}
	return float64(first) + float64(output-first)*float64(came-1)/float64(messages-1)
}
