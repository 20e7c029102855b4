package preset

import (
	"strings"
	"unicode"
)

// renamed are the settings of a replay whose names of before are not those of now in another spelling.
var renamed = map[string]string{
	"GapCap": "max-gap", "IgnoreDelays": "asap", "IgnoreDelaysKeepsOrder": "asap-keeps-order", "RequestTimeout": "timeout", "FailedRequestThreshold": "max-error-rate",
	"ArrivalProcess": "arrival", "WindowFrom": "from", "WindowTo": "to", "SessionHeaders": "session-header", "StopOnWedge": "stop-on-deadlock",
}

// Meant returns the name of now of a setting that a name of before stands for, in any spelling, such as gap_cap; "" if there is none.
func Meant(name string) string {
	for before, now := range renamed {
		if strings.EqualFold(before, strings.NewReplacer("-", "", "_", "").Replace(name)) {
			return now
		}
	}
	return ""
}

// Renamed returns the name of a switch or another setting by the one that results before November 2026 have, such as SpawnOffset. Another
// name stays as it is.
func Renamed(name string) string {
	if n, ok := renamed[name]; ok {
		return n
	}
	if name == "" || !unicode.IsUpper(rune(name[0])) {
		return name
	}
	var b strings.Builder
	for k, c := range name {
		if k > 0 && unicode.IsUpper(c) && (unicode.IsLower(rune(name[k-1])) || k+1 < len(name) && unicode.IsLower(rune(name[k+1]))) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
