package measure

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/replay/wire"
)

// Client is what the client used and whether it limited the load.
type Client struct {
	CPU           Number   `json:"cpu"`       // seconds, in the phase
	CPUShare      Number   `json:"cpu_share"` // of one core, in the phase; 2 is two cores
	Cores         Number   `json:"cores"`     // that the process may use
	PeakRSS       Number   `json:"peak_rss"`
	BytesSent     int64    `json:"bytes_sent"`
	BytesReceived int64    `json:"bytes_received"`
	Bound         bool     `json:"bound"`    // the client, or a limit set on it, delayed the requests
	BoundBy       []string `json:"bound_by"` // by what, in words; nil: it is not bound
}

// newClient returns what is known of the client of a run. facts is nil if the run has not ended.
func newClient(s *Summary, o *observations, sent, received int64, facts *Facts) Client {
	c := Client{
		CPU: Missing, CPUShare: Missing, Cores: Missing, PeakRSS: Missing, BytesSent: sent, BytesReceived: received,
		Bound: isClientBound(s.Lateness, s.TTFT) || s.Errors[wire.Internal] > 0,
	}
	if facts != nil {
		c.CPU, c.PeakRSS = Number(facts.CPU), Number(facts.PeakRSS)
		c.CPUShare = ratio(c.CPU, Number(facts.PhaseDuration))
		if facts.Cores > 0 {
			c.Cores = Number(facts.Cores)
		}
	}
	if c.Bound {
		c.BoundBy = c.reasons(s, o)
	}
	return c
}

// busyShare is the part of its cores from which on the CPU is named as what bound a client.
const busyShare = 0.8

// reasons says by what a client is bound: a limit of its machine, ordering requests late, sending them late; and whether the CPU was why.
func (c *Client) reasons(s *Summary, o *observations) (list []string) {
	limit, own := maxLateness(s.TTFT), NewStat(o.dispatch).P99
	if failed := s.Errors[wire.Internal]; failed > 0 {
		list = append(list, fmt.Sprintf("limits: this machine failed %d of the requests (internal), not the server: open files, ports, memory or the cache, as their messages say", failed))
	}
	late := isClientBound(s.Lateness, s.TTFT)
	if late && (own <= limit || s.Lateness.P99-own > limit) {
		list = append(list, "order: the client ordered requests after they were due: its machine was busy, or they waited for PrefillLimit")
	}
	if late && own > limit {
		list = append(list, fmt.Sprintf("sending: requests left up to %s (p99) after the client had ordered them", seconds(own)))
	}
	if c.CPUShare > busyShare*c.Cores {
		list = append(list, fmt.Sprintf("CPU: the process used %.1f of %.0f cores", c.CPUShare, c.Cores))
	}
	return list
}

// isClientBound reports whether the client limited the load: the 99th percentile of its lateness exceeds maxLateness
// (doc/spec/replay.md 8.11).
func isClientBound(lateness, ttft Stat) bool { return ClientBound(lateness.P99, ttft.P50) }

// ClientBound reports the same of the 99th percentile of the lateness and the median time to the first token, in seconds.
func ClientBound(lateness, ttft Number) bool {
	return lateness > maxLateness(Stat{P50: ttft}) // false when one is Missing
}

// maxLateness returns 10 ms, or 1 % of the median time to the first token where that is more.
func maxLateness(ttft Stat) Number {
	if ttft.P50.IsMissing() {
		return lateFrom
	}
	return max(lateFrom, ttft.P50/100)
}

// lateFrom is the lateness up to which a request counts as sent in time, in seconds.
const lateFrom = 0.010

// client writes what the client used, and what bound it.
func (s *Summary) client(b *strings.Builder) {
	cores := ""
	if !s.Client.CPUShare.IsMissing() && !s.Client.Cores.IsMissing() {
		cores = fmt.Sprintf(" (%.2f of %.0f cores)", s.Client.CPUShare, s.Client.Cores)
	}
	row(b, "client", "%s of CPU%s, peak memory %s, sent %s, received %s", seconds(s.Client.CPU), cores, size(s.Client.PeakRSS), bytefmt.Format(s.Client.BytesSent), bytefmt.Format(s.Client.BytesReceived))
	if s.Client.Bound {
		switch {
		case isClientBound(s.Lateness, s.TTFT):
			row(b, "", "lateness p99 %s exceeds %s: the client, or a limit set on it, was the bottleneck", seconds(s.Lateness.P99), seconds(maxLateness(s.TTFT)))
		case s.Errors[wire.Internal] > 0:
			row(b, "", "requests failed on this machine: the client, or a limit set on it, was the bottleneck")
		default:
			row(b, "", "the client of a part, or a limit set on it, was the bottleneck")
		}
		for _, reason := range s.Client.BoundBy {
			row(b, "", "  %s", reason)
		}
	}
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
