package wire

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// retryAfter returns how long a server asks not to be called, by the fields Retry-After and Date of its answer and, without a Date, the
// clock of this machine. What is no time is 0; no time at all, or one that is over, is a second: the server has said when, and
// it is not now.
func retryAfter(value, date string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		if !(s >= 0) { // NaN, too
			return 0
		}
		return max(time.Second, time.Duration(min(s*1e9, math.MaxInt64/2)))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if its, err := http.ParseTime(date); err == nil {
		now = its
	}
	return max(time.Second, at.Sub(now))
}
