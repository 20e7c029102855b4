package live

import (
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/page"
)

// load is what the run reported of the measured phase: requests in flight and open trees, which records tell only when they end.
type load struct {
	at, inFlight, openTrees []int64 // ns of the phase; numbers
	every                   time.Duration
}

// maxLoad is the most reports that are kept: then every second one is dropped, and no more are taken than that.
const maxLoad = 2048

func (l *load) add(p Progress) {
	n := len(l.at)
	if p.Phase != measure.ProfilingPhase || n > 0 && p.Elapsed-time.Duration(l.at[n-1]) < l.every {
		return
	}
	l.at, l.inFlight, l.openTrees = append(l.at, int64(p.Elapsed)), append(l.inFlight, int64(p.InFlight)), append(l.openTrees, int64(p.OpenTrees))
	if len(l.at) < maxLoad {
		return
	}
	for k := range maxLoad / 2 {
		l.at[k], l.inFlight[k], l.openTrees[k] = l.at[2*k], l.inFlight[2*k], l.openTrees[2*k]
	}
	l.at, l.inFlight, l.openTrees = l.at[:maxLoad/2], l.inFlight[:maxLoad/2], l.openTrees[:maxLoad/2]
	l.every = time.Duration(l.at[maxLoad/2-1]-l.at[0]) / (maxLoad / 2)
}

func (l *load) table() page.Table {
	return page.Table{Name: "progress", Columns: []page.Column{
		page.Ints("at", "ns", l.at), page.Ints("in_flight", "", l.inFlight), page.Ints("open_trees", "", l.openTrees),
	}}
}
