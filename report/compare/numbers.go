package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// seconds writes a duration for people.
func seconds(v float64) string { return slo.Seconds.Format(v) }

// share writes a part of 1 in per cent.
func share(v float64) string {
	if v == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(100*v, 'g', 3, 64) + " %"
}

// change writes a difference in per cent, with its sign; of three times as much and more, the factor.
func change(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
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

// format writes the value of a figure; "-" where it is missing.
func format(f slo.Figure, v measure.Number) string {
	if v.IsMissing() {
		return "-"
	}
	switch f.Unit {
	case slo.Share:
		return share(float64(v))
	case slo.Rate:
		return quantity(float64(v)) + "/s"
	}
	return f.Unit.Format(float64(v))
}

// quantity writes a rate with four digits and k, M or G.
func quantity(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if math.Abs(v) < 9999.5 {
			break
		}
		v, unit = v/1000, u
	}
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64) + unit
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}

func joined(list []string) string { return strings.Join(list, ", ") }

// plural formats a count with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
