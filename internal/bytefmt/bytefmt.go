// Package bytefmt writes numbers, of bytes and of other things, for people.
package bytefmt

import (
	"fmt"
	"strconv"
	"time"
)

// Format writes n bytes in the largest decimal unit that gives at least 1: "512 B", "1.5 kB", "20.0 GB".
func Format(n int64) string {
	v, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for v >= 999.95 && len(units) > 1 { // which rounds to 1000.0
		v, units = v/1000, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}

// Digits writes a number with a comma between groups of three digits.
func Digits(n int) string {
	s := strconv.Itoa(n)
	for k := len(s) - 3; k > 0 && s[k-1] != '-'; k -= 3 {
		s = s[:k] + "," + s[k:]
	}
	return s
}

// Count writes how many things there are, such as "1 part" and "2,001 parts".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Digits(n) + " " + thing
}

// Seconds writes a duration.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
