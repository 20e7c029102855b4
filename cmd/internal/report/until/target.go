// Package until ends a run when its metrics are known well enough: when the interval of each is narrow at several looks in a row. It
// reads the records as the run writes them (doc/spec/report.md 5.4).
package until

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Target is a metric that a run is to know, and how well.
type Target struct {
	slo.Figure
	Share float64 // of the value, that its margin is to be within; above 0, at most 1
}

// errShare says how a share is written.
var errShare = errors.New("want a share above 0, at most 1, such as 5% or 0.05")

// Parse reads a target such as ttft.p95=5%.
func Parse(text string) (Target, error) {
	name, share, ok := strings.Cut(text, "=")
	if !ok {
		return Target{}, errors.New("want METRIC=SHARE, such as ttft.p95=5%")
	}
	f, err := measure.ParseFigure(strings.TrimSpace(name))
	switch {
	case err != nil:
		return Target{}, err
	case !f.OfEach:
		return Target{}, fmt.Errorf("%s is a figure of the whole run, so trees give no interval for it: want a metric of each request, such as ttft.p95", f)
	case f.Statistic == "max":
		return Target{}, fmt.Errorf("%s: a largest value has no interval: want mean or a percentile", f)
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(share), "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1 {
		return Target{}, fmt.Errorf("%.40q: %w", share, errShare)
	}
	return Target{f, v}, nil
}
