package server

import "strings"

// units are those that the end of a metric's name tells.
var units = []struct{ ending, unit string }{
	{"_seconds", "seconds"}, {"_milliseconds", "ms"}, {"_ms", "ms"}, {"_microseconds", "us"}, {"_nanoseconds", "ns"},
	{"_bytes", "bytes"}, {"_tokens", "tokens"}, {"_requests", "requests"}, {"_blocks", "blocks"},
	{"_ratio", "ratio"}, {"_rate", "ratio"}, {"_perc", "ratio"}, {"_percent", "%"}, {"_celsius", "celsius"}, {"_joules", "joules"}, {"_watts", "watts"},
}

// unitOf returns the unit that a metric's name tells, "" if it tells none.
func unitOf(name string) string {
	for _, u := range units {
		if strings.HasSuffix(name, u.ending) {
			return u.unit
		}
	}
	return ""
}
