// Package gate judges runs for a pipeline: by bounds on their figures, and by how much these may differ from those of another run.
package gate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// ErrorRate is the name of the gate that decides by the rule of InferenceX, which package inferencex has.
const ErrorRate = "error-rate"

// Gate bounds a figure of a run, or its difference to another run's.
type Gate struct {
	Text     string // as it was written
	Figure   slo.Figure
	Sign     slo.Sign
	Limit    float64
	Errors   bool // Limit is of errors over completed requests, by the rule of InferenceX
	Relative bool // Limit is of the difference, as part of the other run's figure: 0.05 in ttft.p95<+5%
}

// Parse reads a gate: ttft.p95<2s, goodput>3, error-rate<1%, error-rate=X, or against another run ttft.p95<+5%, output_token_rate>-3%.
func Parse(text string) (Gate, error) {
	if value, ok := strings.CutPrefix(text, ErrorRate+"="); ok {
		limit, err := strconv.ParseFloat(value, 64)
		if err != nil || !(limit >= 0 && limit <= 1) {
			return Gate{}, fmt.Errorf("want %s=X, X from 0 to 1", ErrorRate)
		}
		return Gate{Text: ErrorRate, Limit: limit, Errors: true}, nil
	}
	name, sign, value, err := slo.Cut(text)
	if err != nil {
		return Gate{}, errors.New("want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s', against another run 'ttft.p95<+5%', or error-rate=X")
	}
	f, err := measure.ParseFigure(name)
	if err != nil {
		return Gate{}, err
	}
	g := Gate{Text: text, Figure: f, Sign: sign}
	if g.Relative = strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-"); g.Relative {
		g.Limit, err = parseChange(value)
		return g, err
	}
	c, err := measure.ParseCondition(text)
	g.Limit = c.Limit
	return g, err
}

// parseChange reads +5% or -3%.
func parseChange(value string) (float64, error) {
	number, percent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%.40q: want a difference in per cent, such as +5%% or -3%%", value)
	}
	return v / 100, nil
}
