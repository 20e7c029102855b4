package measure

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/wire"
)

// Ending keeps of the records of a phase what tells how the phase ended: when each server was last heard, what waited until the end, and
// how long trees are. Records may come in any order.
type Ending struct {
	servers     map[server]*lastHeard
	trees       map[int]span
	all         span
	unanswered  float64 // when the earliest request was sent that was cancelled at the end; +Inf: none was
	lastReceive float64 // of any server; 0: none
	records     int     // added
	numbers     int     // of requests that were ordered up to the last that has a record
}

// server is one of a run: the position of its URL, and which of its addresses.
type server struct {
	url     int
	address string
}

// lastHeard is when a server was last heard.
type lastHeard struct {
	receive float64 // its last byte; 0: none
	sent    float64 // its last request
	failed  []span  // requests that it left without an answer, but for some that ended before its last byte
	enough  int     // of failed at which those are left out
}

// span is from the first request of something to the end of its last.
type span struct{ first, last float64 }

// goneFailures is how many requests a server must have left without an answer, after its last byte, to be gone.
const goneFailures = 3

// unanswered are the failures of requests to a server that may be gone.
var unanswered = []wire.Category{wire.Connection, wire.Timeout, wire.Stalled}

// Add adds a record that is not of the warmup.
func (e *Ending) Add(r *Record) {
	if e.servers == nil {
		*e = Ending{servers: map[server]*lastHeard{}, trees: map[int]span{}, all: span{r.Sent.Seconds(), r.End.Seconds()}, unanswered: math.Inf(1)}
	}
	e.records, e.numbers = e.records+1, max(e.numbers, r.Credit+1)
	tree, ok := e.trees[r.Tree]
	if !ok {
		tree = span{r.Sent.Seconds(), r.End.Seconds()}
	}
	e.trees[r.Tree] = span{min(tree.first, r.Sent.Seconds()), max(tree.last, r.End.Seconds())}
	e.all = span{min(e.all.first, r.Sent.Seconds()), max(e.all.last, r.End.Seconds())}
	if r.Bucket == CancelledAtEnd {
		e.unanswered = min(e.unanswered, r.Sent.Seconds())
	}
	at := server{address: r.Address, url: r.server()}
	heard := e.servers[at]
	if heard == nil {
		heard = new(lastHeard)
		e.servers[at] = heard
	}
	received := max(r.FirstByte.Seconds(), r.LastByte.Seconds(), r.LastMessage.Seconds())
	heard.receive, e.lastReceive = max(heard.receive, received), max(e.lastReceive, received)
	heard.sent = max(heard.sent, r.Sent.Seconds())
	if r.Error != nil && slices.Contains(unanswered, r.Error.Category) {
		heard.fail(span{r.Sent.Seconds(), r.End.Seconds()})
	}
}

// fail adds a request that was left without an answer.
func (h *lastHeard) fail(s span) {
	h.failed = append(h.failed, s)
	if len(h.failed) > h.enough {
		h.failed = slices.DeleteFunc(h.failed, func(s span) bool { return s.last <= h.receive })
		h.enough = 2*len(h.failed) + goneFailures
	}
}

// silent returns how many requests the server left without an answer after its last byte, and when the last of them failed. One that was
// sent before that byte counts if another was sent after it had failed: at the end of a run nothing comes because nothing is asked.
func (h *lastHeard) silent() (n int, last float64) {
	for _, s := range h.failed {
		if s.last > h.receive && (s.first > h.receive || s.last <= h.sent) {
			n, last = n+1, max(last, s.last)
		}
	}
	return n, last
}

// gone returns the servers that answered, and then left their last requests without an answer, by URL and address.
func (e *Ending) gone() (list []server) {
	for at, heard := range e.servers {
		if n, _ := heard.silent(); heard.receive > 0 && n >= goneFailures {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, func(a, b server) int { return cmp.Or(a.url-b.url, cmp.Compare(a.address, b.address)) })
	return list
}

// silence returns for how long nothing was received before an instant while a request waited; 0 where nothing was ever received.
func (e *Ending) silence(until float64) float64 {
	if e.lastReceive == 0 {
		return 0
	}
	return until - max(e.lastReceive, e.unanswered)
}

// medianTree returns the median of the seconds of a tree.
func (e *Ending) medianTree() Number {
	lengths := make([]float64, 0, len(e.trees))
	for _, s := range e.trees {
		lengths = append(lengths, s.last-s.first)
	}
	return NewStat(lengths).P50
}
