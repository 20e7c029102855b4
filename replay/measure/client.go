package measure

import (
	"fmt"
	"strings"

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
