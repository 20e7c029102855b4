package measure

import "strings"

// Connection is how long the steps of a request on its connection took, in seconds (doc/spec/replay.md 8.11). Each step is over
// the requests of the headline that have it.
type Connection struct {
	Blocked    Quantiles `json:"blocked"`    // waiting for a connection
	Connecting Quantiles `json:"connecting"` // TLS included; 0 on a kept connection
	Sending    Quantiles `json:"sending"`    // first to last byte of the request
	Waiting    Quantiles `json:"waiting"`    // last byte of the request to the first of the answer
	Receiving  Quantiles `json:"receiving"`  // first to last byte of the answer
	Reused     Number    `json:"reused"`     // share of the requests on a kept connection
}

// Quantiles are two figures of a distribution.
type Quantiles struct {
	P50 Number `json:"p50"`
	P99 Number `json:"p99"`
}

// exchanges collects the steps of requests.
type exchanges struct {
	blocked, connecting, sending, waiting, receiving []float64
	requests, reused                                 int
}

// add adds a request that ended well. A step without its two instants did not happen.
func (x *exchanges) add(r *Record) {
	x.requests++
	if r.Reused {
		x.reused++
	}
	step := func(list *[]float64, from, to float64) {
		if from > 0 && to > 0 {
			*list = append(*list, to-from)
		}
	}
	if r.WaitEnd > 0 {
		x.blocked = append(x.blocked, r.WaitEnd.Seconds()-r.Sent.Seconds()) // Sent may be instant 0
	}
	if r.ConnectStart > 0 {
		step(&x.connecting, r.ConnectStart.Seconds(), r.ConnectEnd.Seconds())
	} else if r.SendStart > 0 {
		x.connecting = append(x.connecting, 0)
	}
	step(&x.sending, r.SendStart.Seconds(), r.SendEnd.Seconds())
	step(&x.waiting, r.SendEnd.Seconds(), r.FirstByte.Seconds())
	step(&x.receiving, r.FirstByte.Seconds(), r.LastByte.Seconds())
}

func (x *exchanges) summary() Connection {
	quantiles := func(list []float64) Quantiles {
		s := NewStat(list)
		return Quantiles{s.P50, s.P99}
	}
	return Connection{
		quantiles(x.blocked), quantiles(x.connecting), quantiles(x.sending), quantiles(x.waiting), quantiles(x.receiving),
		ratio(Number(x.reused), Number(x.requests)),
	}
}

// row writes the steps in one line, if they are known.
func (c *Connection) row(b *strings.Builder) {
	if c.Sending.P50.IsMissing() {
		return
	}
	text := func(q Quantiles) string { return seconds(q.P50) + "/" + seconds(q.P99) }
	row(b, "connection", "p50/p99: blocked %s, connecting %s, sending %s, waiting %s, receiving %s; %.1f %% reused",
		text(c.Blocked), text(c.Connecting), text(c.Sending), text(c.Waiting), text(c.Receiving), 100*c.Reused)
}
