package meet

import "fmt"

// How says what kind of end a part has brought about.
type How string

// The kinds of ends.
const (
	Interrupted How = "interrupted" // the user, or the engine, has interrupted a part
	Failed      How = "failed"      // a part cannot go on, or is lost before the load has begun
	Wedged      How = "wedged"      // a tree of a part is deadlocked
	Unequal     How = "unequal"     // parts are not those of one load
	Refused     How = "refused"     // the load goes on without this part
)

// Stop says which part has ended the load for all, and why. It is an error of the others.
type Stop struct {
	Part   int    `json:"part"`
	Of     int    `json:"of"`
	Host   string `json:"host"` // of the part
	How    How    `json:"how"`
	Reason string `json:"reason"`
}

func (s *Stop) Error() string {
	if s.How == Unequal || s.How == Refused { // the reason names both
		return "meeting: " + s.Reason
	}
	return fmt.Sprintf("%s ended the load: %s", nameOf(s.Part, s.Of, s.Host), s.Reason)
}
