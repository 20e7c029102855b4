package measure

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/bytefmt"
)

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
