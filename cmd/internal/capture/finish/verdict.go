package finish

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// retryWithin is how soon after an attempt, in milliseconds, an equal prompt counts as another attempt.
const retryWithin = 600_000

// judge says of each request of a session why it is not in its trace, "" where it is, and returns the index of the first that is a hole, -1
// where there is none: doc/spec/capture.md 6.2 and 8.4. Orphans are found later.
func judge(s *journal.Session) (reasons []journal.Reason, cut int) {
	retried := retries(s)
	for k := range s.Requests {
		reasons = append(reasons, reasonOf(&s.Requests[k], retried[k]))
	}
	cut = slices.IndexFunc(reasons, journal.Reason.LeavesHole)
	if cut < 0 || s.Export.Holes == journal.HolesKeep {
		return reasons, cut
	}
	left := reasons[cut:]
	if s.Export.Holes == journal.HolesDrop {
		left = reasons
	}
	for k := range left {
		left[k] = cmp.Or(left[k], reasons[cut])
	}
	return reasons, cut
}

// outcome returns how an exchange ended. What did not end was aborted.
func outcome(r *journal.Request) journal.Outcome {
	if r.End == nil {
		return journal.Aborted
	}
	return r.End.X
}

// reasonOf returns why a request is not in the trace, without regard to others but a later attempt.
func reasonOf(r *journal.Request, retried bool) journal.Reason {
	x := outcome(r)
	switch {
	case x == journal.BadStatus:
		return journal.ReasonStatus
	case x == journal.Transport:
		return journal.ReasonTransport
	case x == journal.NoOutput:
		return journal.ReasonNoOutput
	case r.Hole != "":
		return r.Hole
	case r.End != nil && r.End.Lost != "":
		return r.End.Lost
	case retried:
		return journal.ReasonRetry
	case r.IDs == nil || x == journal.Aborted:
		return journal.HoleAborted
	}
	return ""
}

// prompt is what attempts of one prompt have in common: the last block stands for all before it.
type prompt struct {
	agent, in int
	last      int32
}

// retries says of each request whether it is an attempt that did not complete, and was soon made again with success.
func retries(s *journal.Session) []bool {
	retried := make([]bool, len(s.Requests))
	next := map[prompt]int64{} // when the next request with the prompt began
	for k := len(s.Requests) - 1; k >= 0; k-- {
		r := &s.Requests[k]
		if r.IDs == nil {
			continue
		}
		p, end := prompt{r.Agent, r.IDs.In, s.LastBlock(r)}, r.T
		if r.End != nil {
			end = r.End.T
		}
		began, again := next[p]
		retried[k] = again && outcome(r) != journal.Complete && began-end <= retryWithin
		if outcome(r).Recorded() {
			next[p] = r.T
		}
	}
	return retried
}
