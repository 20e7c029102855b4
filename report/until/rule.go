package until

import "time"

const (
	// Every is how often the intervals are looked at.
	Every = 30 * time.Second

	// InARow is at how many looks, one after another, all intervals must be narrow enough. One look stops too early by luck: an
	// interval is narrowest when the sample happens to have few large values.
	InARow = 3
)

// Rule decides when a run may end. It counts the looks, one after another, at which all intervals were narrow enough.
type Rule struct{ narrow int }

// Look counts a look, and reports whether the run may end.
func (r *Rule) Look(narrow bool) bool {
	r.narrow++
	if !narrow {
		r.narrow = 0
	}
	return r.narrow >= InARow
}
