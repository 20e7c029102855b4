package aiperf

import (
	"regexp"
	"strings"
)

// units are those of AIPerf by the end of a name. The longest end that fits decides.
var units = map[string]string{
	"_seconds": "seconds", "_milliseconds": "milliseconds", "_ms": "milliseconds", "_nanoseconds": "nanoseconds", "_ns": "nanoseconds",
	"_bytes": "bytes", "_kilobytes": "kilobytes", "_megabytes": "megabytes", "_gigabytes": "gigabytes",
	"_total": "count", "_count": "count", "_tokens": "tokens", "_requests": "requests", "request_success": "requests",
	"_errors": "errors", "_error_count": "errors", "_reqs": "requests", "_blocks": "blocks", "_block_count": "blocks", "_gb_s": "gb/s",
	"_ratio": "ratio", "_percent": "percent", "_perc": "percent", "_celsius": "celsius", "_joules": "joule", "_watts": "watt",
}

// told are units that a description tells, the first that fits.
var told = []struct {
	says *regexp.Regexp
	unit string
}{
	{regexp.MustCompile(`(?i)\b0(\.0)?\s*([-–—]+|to)\s*1(\.0)?\b|\b1(\.0)?\s*(means|is|equals?|==?)\s*100\s*(%|percent)`), "ratio"},
	{regexp.MustCompile(`(?i)\b0(\.0)?\s*([-–—]+|to)\s*100\b`), "percent"},
	{regexp.MustCompile(`\(in (MiB|MB)\)`), "megabytes"},
	{regexp.MustCompile(`\(in (GiB|GB)\)`), "gigabytes"},
	{regexp.MustCompile(`\(in W\)`), "watt"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()seconds?\b`), "seconds"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()(milliseconds?|ms)\b`), "milliseconds"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()(nanoseconds?|ns)\b`), "nanoseconds"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()bytes?\b`), "bytes"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()gb/s\b`), "gb/s"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()mb/s\b`), "mb/s"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()tokens?/s(ec(ond)?)?\b`), "tokens/s"},
	{regexp.MustCompile(`(?i)(\bin\s+|\()requests?/s(ec(ond)?)?\b`), "requests/s"},
	{regexp.MustCompile(`(?i)\bin\s+tokens?\b`), "tokens"},
}

// unitOf returns the unit of a metric as AIPerf finds it: what its description tells, else what its name ends in, else ""
// but for those of numbers of requests.
func unitOf(name, help string) string {
	for _, t := range told {
		if help != "" && t.says.MatchString(help) {
			return t.unit
		}
	}
	name = strings.ToLower(name)
	unit, length := "", 0
	for end, u := range units {
		if len(end) <= length {
			continue
		}
		if strings.HasSuffix(name, end) || strings.HasSuffix(name, end+"_total") {
			unit, length = u, len(end)
		}
	}
	if unit == "" && strings.Contains(name, "num_requests_") {
		return "requests"
	}
	return unit
}
