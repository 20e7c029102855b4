package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// Results are what a run measured, as tables. A table is over the requests of one bucket that ended well, with counts of those
// that failed (doc/spec/replay.md 8.4 to 8.6).
type Results struct {
	Headline Table
	Cooldown Table // of the requests that ended in the grace, in the same way
	Steady   Table // of what lay between the end of the warmup and the deadline
	Warmup   Table // nil: there was none

	HeadlineRule string             // deadline or grace_included: which requests the headline is over
	Window       Window             // what the throughputs of the headline divide by
	ITLDivisor   measure.ITLDivisor // of the headline
	Flow         preset.Choice      // how tokens are spread over time
	Start, End   int64              // of the headline, nanoseconds since 1970
	PhaseEnd     int64              // of the phase, which begins at Start; 0: not known

	Counts Counts
	Errors []ErrorGroup // of the headline, the commonest first

	Slices []Slice // in the order of time; nil without Run.Slice
}

// Window is a span of time that rates divide by.
type Window struct {
	Kind       string // benchmark or phase
	Start, End int64  // nanoseconds since 1970
	Seconds    float64
	Known      bool // false: there is none, hence no rates
}

// Counts are numbers of requests.
type Counts struct {
	Sent            int // in the profiling phase: the sum of the next five
	Succeeded       int // of the headline
	Failed          int // of the headline
	Cooldown        int
	CancelledAtEnd  int
	ContextOverflow int

	Warmup int // requests of the warmup, in no other count
	Wedged int // trees; negative: not known
}

// ErrorGroup are failures with one message.
type ErrorGroup struct {
	measure.Error
	Count int
	First int // how many groups began before this one
}

// Slice is a part of the run's time with the requests that started in it.
type Slice struct {
	Start, End int64 // nanoseconds since 1970
	Complete   bool  // false: the last one, which the end of the run cuts off
	Table      Table
}

// errorGroups counts failures by what they say. It keeps maxErrorGroups of them; further messages are counted by category and code.
type errorGroups map[measure.Error]*ErrorGroup

const (
	maxErrorGroups = 1000
	otherMessages  = "other messages"
)

func (g errorGroups) add(e *measure.Error) {
	key := *e
	if _, ok := g[key]; !ok && len(g) >= maxErrorGroups {
		key.Message = otherMessages
	}
	if g[key] == nil {
		g[key] = &ErrorGroup{Error: key, First: len(g)}
	}
	g[key].Count++
}

// sorted returns the groups, the commonest first.
func (g errorGroups) sorted() (list []ErrorGroup) {
	for group := range maps.Values(g) {
		list = append(list, *group)
	}
	slices.SortFunc(list, func(x, y ErrorGroup) int {
		return cmp.Or(y.Count-x.Count, strings.Compare(string(x.Category), string(y.Category)), x.Code-y.Code, strings.Compare(x.Message, y.Message))
	})
	return list
}
