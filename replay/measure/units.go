package measure

import (
	"fmt"
	"math"
	"strconv"

	"github.com/agentx/agentx/replay/slo"
)

// isEmpty reports whether a part of a line has nothing to say.
func isEmpty(part string) bool { return part == "" }

// Plural formats a count with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// FormatSeconds formats a duration in seconds, which may be missing, with three or four digits in the unit that fits, such as 28.1 ms.
func FormatSeconds(n Number) string {
	if n.IsMissing() {
		return "-"
	}
	return duration(float64(n))
}

// duration formats seconds with three or four digits, in the unit that fits.
func duration(s float64) string {
	switch a := max(s, -s); {
	case a == 0:
		return "0 s"
	case a < 0.9995e-3:
		return digits(s*1e6) + " us"
	case a < 0.9995:
		return digits(s*1e3) + " ms"
	case a < 1000:
		return digits(s) + " s"
	default:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
}

// clock formats seconds as a clock counts them, such as 14 min 30 s.
func clock(s float64) string {
	if s < 60 {
		return duration(s)
	}
	whole := int64(math.Round(s))
	h, m, text := whole/3600, whole/60%60, fmt.Sprintf("%d s", whole%60)
	if m > 0 || h > 0 {
		text = fmt.Sprintf("%d min %s", m, text)
	}
	if h > 0 {
		text = fmt.Sprintf("%d h %s", h, text)
	}
	return text
}

// FormatShare formats a share, which may be missing, as a percentage, such as 93.4 %.
func FormatShare(n Number) string {
	switch {
	case n.IsMissing():
		return "- %"
	case n == 0:
		return "0 %"
	}
	return digits(100*float64(n)) + " %"
}

// FormatQuantity formats a count or a rate, which may be missing, with three or four digits and k, M or G.
func FormatQuantity(n Number) string {
	if n.IsMissing() {
		return "-"
	}
	v, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G"} {
		if max(v, -v) < 9999.5 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "" && v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return digits(v) + unit
}

// digits formats a number with three significant digits, or with all digits before the point.
func digits(v float64) string {
	switch a := max(v, -v); {
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// FormatFigure formats a figure, which may be missing, with three or four digits in its unit.
func FormatFigure(n Number, unit slo.Unit) string {
	if n.IsMissing() {
		return "-"
	}
	switch unit {
	case slo.Seconds:
		return duration(float64(n))
	case slo.Share:
		return FormatShare(n)
	case slo.Rate:
		return FormatQuantity(n) + "/s"
	}
	return FormatQuantity(n)
}
