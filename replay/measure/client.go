package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/bytefmt"
)

// Client is what the client used and whether it limited the load.
type Client struct {
	CPU           Number   `json:"cpu"`       // seconds, in the phase
	CPUShare      Number   `json:"cpu_share"` // of one core, in the phase; 2 is two cores
	Cores         Number   `json:"cores"`     // that the process may use
	PeakRSS       Number   `json:"peak_rss"`
	BytesSent     int64    `json:"bytes_sent"`
	BytesReceived int64    `json:"bytes_received"`
	Bound         bool     `json:"bound"`    // the client, or a limit set on it, was a bottleneck
	BoundBy       []string `json:"bound_by"` // by what, in words; nil: it is not bound

	Standstills *Standstills `json:"standstills"` // nil: there were none, or they are not known
}

// newClient returns what is known of the client of a run, by the times of its requests and by how many failed with the category
// internal. facts is nil if the run has not ended.
func newClient(times *clientTimes, internal int, sent, received int64, facts *Facts) Client {
	c := Client{CPU: Missing, CPUShare: Missing, Cores: Missing, PeakRSS: Missing, BytesSent: sent, BytesReceived: received}
	var standstills *Standstills
	limited := false
	if facts != nil {
		c.CPU, c.PeakRSS = Number(facts.CPU), Number(facts.PeakRSS)
		c.CPUShare = ratio(c.CPU, Number(facts.PhaseDuration))
		if facts.Cores > 0 {
			c.Cores = Number(facts.Cores)
		}
		c.Standstills = facts.Standstills.Summary()
		standstills, limited = facts.Standstills, facts.PrefillLimit > 0
	}
	if internal > 0 {
		c.BoundBy = append(c.BoundBy, fmt.Sprintf("limits: this machine failed %d of the requests (internal), not the server: open files, ports, memory or the cache, as their messages say", internal))
	}
	if c.BoundBy = append(c.BoundBy, times.reasons(standstills, limited)...); c.BoundBy == nil {
		return c
	}
	c.Bound = true
	if c.CPUShare > busyShare*c.Cores {
		c.BoundBy = append(c.BoundBy, fmt.Sprintf("CPU: the process used %.1f of %.0f cores", c.CPUShare, c.Cores))
	}
	return c
}

// busyShare is the part of its cores from which on the CPU is named as what bound a client.
const busyShare = 0.8

// client writes what the client used.
func (s *Summary) client(b *strings.Builder) {
	cores := ""
	if !s.Client.CPUShare.IsMissing() && !s.Client.Cores.IsMissing() {
		cores = fmt.Sprintf(" (%.2f of %.0f cores)", s.Client.CPUShare, s.Client.Cores)
	}
	row(b, "client", "%s of CPU%s, peak memory %s, sent %s, received %s", FormatSeconds(s.Client.CPU), cores, size(s.Client.PeakRSS), bytefmt.Format(s.Client.BytesSent), bytefmt.Format(s.Client.BytesReceived))
	s.Connection.row(b)
	s.Calibration.row(b)
}

// ratio divides; Missing where it cannot.
func ratio(part, whole Number) Number {
	if part.IsMissing() || !(whole > 0) {
		return Missing
	}
	return part / whole
}

// Connection is how long the steps of a request on its connection took, in seconds (doc/spec/replay.md 8.11). Each step is over
// the requests of the headline that have it.
type Connection struct {
	Blocked    Quantiles `json:"blocked"`    // waiting for a connection
	Connecting Quantiles `json:"connecting"` // TLS included; 0 on a connection that was there
	Sending    Quantiles `json:"sending"`    // first to last byte of the request
	Waiting    Quantiles `json:"waiting"`    // last byte of the request to the first of the answer
	Receiving  Quantiles `json:"receiving"`  // first to last byte of the answer
	Reused     Number    `json:"reused"`     // share of the requests on a connection that had served another
	Opened     Number    `json:"opened"`     // connections that were opened before the phase, for its first requests
}

// Ahead is what a run made ready before the profiling phase, so that its first requests need not at the same instant.
type Ahead struct {
	Requests    int `json:"requests"`    // due when the phase began
	Connections int `json:"connections"` // that were opened for them
}

// Quantiles are two figures of a distribution.
type Quantiles struct {
	P50 Number `json:"p50"`
	P99 Number `json:"p99"`
}

// QuantilesOf returns those of samples, which it sorts in place.
func QuantilesOf(samples []float64) Quantiles {
	s := NewStat(samples)
	return s.quantiles()
}

// quantiles returns the two figures of the distribution that tables of steps have.
func (s *Stat) quantiles() Quantiles { return Quantiles{s.P50, s.P99} }

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

// summary returns the distributions of the steps. facts is nil if the run has not ended.
func (x *exchanges) summary(facts *Facts) Connection {
	opened := Missing
	if facts != nil && facts.Ahead != nil {
		opened = Number(facts.Ahead.Connections)
	}
	return Connection{
		QuantilesOf(x.blocked), QuantilesOf(x.connecting), QuantilesOf(x.sending), QuantilesOf(x.waiting), QuantilesOf(x.receiving),
		ratio(Number(x.reused), Number(x.requests)), opened,
	}
}

// row writes the steps in one line, if they are known.
func (c *Connection) row(b *strings.Builder) {
	if c.Sending.P50.IsMissing() {
		return
	}
	text := func(q Quantiles) string { return FormatSeconds(q.P50) + "/" + FormatSeconds(q.P99) }
	opened := ""
	if c.Opened > 0 {
		opened = fmt.Sprintf("; %.0f opened before the phase", c.Opened)
	}
	row(b, "connection", "p50/p99: blocked %s, connecting %s, sending %s, waiting %s, receiving %s; %.1f %% reused%s",
		text(c.Blocked), text(c.Connecting), text(c.Sending), text(c.Waiting), text(c.Receiving), 100*c.Reused, opened)
}

// ProcessUsage is what this process has used so far. Fields that the system does not report are 0.
type ProcessUsage struct {
	CPU     time.Duration // user and system time of all threads
	PeakRSS int64         // largest resident memory, mapped files included, bytes
}

// Since returns the usage since an earlier reading. The peak is that of the whole process.
func (p ProcessUsage) Since(earlier ProcessUsage) ProcessUsage {
	return ProcessUsage{CPU: p.CPU - earlier.CPU, PeakRSS: p.PeakRSS}
}

// Calibration is what this machine reached alone: the run's own bodies and lanes, sent without gaps over loopback to a server
// in the same process that answers at once (doc/spec/results.md 17).
type Calibration struct {
	Lanes       int       `json:"lanes"`
	Seconds     float64   `json:"seconds"`         // of the part with all lanes
	Requests    int       `json:"requests"`        // that ended well in it
	RequestRate Number    `json:"request_rate"`    // in it
	SendRate    Number    `json:"send_rate"`       // bytes a second in it
	CPUShare    Number    `json:"cpu_share"`       // of one core in it, the sink included
	TTFT        Quantiles `json:"ttft"`            // of single requests: nothing else was in flight
	TTFTLoaded  Quantiles `json:"ttft_loaded"`     // with all lanes
	Error       string    `json:"error,omitempty"` // why it has no figures
}

// CalibrationCompared is a calibration beside the headline.
type CalibrationCompared struct {
	Calibration
	RateShare Number   `json:"rate_share"` // request rate of the headline over the calibrated one
	TTFTRatio Number   `json:"ttft_ratio"` // median TTFT of the headline over the calibrated one
	Near      []string `json:"near"`       // what of the headline is near the calibrated figures, in words; nil: nothing
}

// A figure is near the calibrated one, and hence the client's more than the server's, beyond these.
const (
	nearRate = 0.5 // share of the calibrated request rate
	nearTTFT = 2.0 // times the calibrated time to the first token
)

// compare returns the calibration beside the headline of a summary that has its metrics; nil without a calibration.
func (c *Calibration) compare(s *Summary) *CalibrationCompared {
	if c == nil {
		return nil
	}
	d := &CalibrationCompared{Calibration: *c, RateShare: ratio(s.RequestRate, c.RequestRate), TTFTRatio: ratio(s.TTFT.P50, c.TTFT.P50)}
	if d.RateShare > nearRate {
		d.Near = append(d.Near, fmt.Sprintf("%s requests/s are %.0f %% of the %s that this machine reaches alone", FormatQuantity(s.RequestRate), 100*d.RateShare, FormatQuantity(c.RequestRate)))
	}
	if d.TTFTRatio < nearTTFT {
		d.Near = append(d.Near, fmt.Sprintf("the median ttft %s is %.1f times the %s that this machine needs alone", FormatSeconds(s.TTFT.P50), d.TTFTRatio, FormatSeconds(c.TTFT.P50)))
	}
	return d
}

// row writes what the machine reached alone.
func (c *CalibrationCompared) row(b *strings.Builder) {
	switch {
	case c == nil:
		return
	case c.Error != "":
		row(b, "calibration", "none: %s", c.Error)
		return
	}
	row(b, "calibration", "this machine alone: %s requests/s, %s sent per second, ttft p50 %s", FormatQuantity(c.RequestRate), size(c.SendRate), FormatSeconds(c.TTFT.P50))
}

// size formats bytes that may be missing.
func size(n Number) string {
	if n.IsMissing() {
		return "-"
	}
	return bytefmt.Format(int64(n))
}
