// Package bytefmt writes numbers of bytes for people.
package bytefmt

import "fmt"

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
