package finish

import (
	"github.com/agentx/agentx/capture/journal"
)

// instants are the times of a request in the trace, in milliseconds.
type instants struct{ begin, first, end int64 } // first is -1 where there was no output

// timesOf returns the times of all requests that are in the trace: on the grid, with idle gaps cut to the longest allowed. Those of
// others are on the grid alone.
func timesOf(s *journal.Session, reasons []journal.Reason) []instants {
	e := s.Export.WithDefaults()
	grid := max(e.Grid.Milliseconds(), 1)
	floor := func(t int64) int64 { return t - t%grid }
	longest := floor(e.MaxGap.Milliseconds())
	times := make([]instants, len(s.Requests))
	shift, busy := int64(0), int64(0)
	for k := range s.Requests {
		r := &s.Requests[k]
		at := instants{floor(r.T), -1, floor(r.T)}
		if r.End != nil {
			at.end = floor(r.End.T)
			if r.End.First >= 0 {
				at.first = floor(r.End.First)
			}
		}
		if reasons[k] == "" && e.MaxGap > 0 {
			if idle := at.begin - busy; idle > longest {
				shift += idle - longest
			}
			busy = max(busy, at.end)
			at = at.earlier(shift)
		}
		times[k] = at
	}
	return times
}

// earlier returns the times moved by a number of milliseconds. Nothing is cut within a request, so all three move alike.
func (t instants) earlier(by int64) instants {
	t.begin -= by
	t.end -= by
	if t.first >= 0 {
		t.first -= by
	}
	return t
}
