package compare

import (
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// share writes a part of 1 in per cent.
func share(v float64) string { return measure.FormatFigure(measure.Number(v), slo.Share) }

// FormatChange writes a difference in per cent, with its sign; of three times as much and more, the factor.
func FormatChange(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "without bound"
	}
	if v >= 2 {
		return "×" + strconv.FormatFloat(1+v, 'g', 3, 64)
	}
	v *= 100
	digits := 1
	if math.Abs(v) < 1 {
		digits = 2
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if v >= 0 {
		text = "+" + text
	}
	if strings.Trim(text, "+-0.") == "" {
		text = "0"
	}
	return text + " %"
}

func joined(list []string) string { return strings.Join(list, ", ") }
