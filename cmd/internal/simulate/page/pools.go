package page

import (
	"fmt"
	"slices"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// poolTables returns a table for each pool: its workers that take requests and those that start, at the instants at which they change, and
// at the end.
func (b *builder) poolTables() (list []charts.Table) {
	for k, workers := range b.result.Workers {
		at, active, starting := states(workers, b.end)
		rows := thin(at, b.end, b.columns, floats(active), floats(starting))
		list = append(list, charts.Table{Name: fmt.Sprintf("pool.%d", k), Columns: []charts.Column{
			charts.Floats("t", "s", seconds(pick(at, rows))), charts.Ints("active", "", pick(active, rows)),
			charts.Ints("starting", "", pick(starting, rows)),
		}})
	}
	return list
}

// states counts the workers of a pool by state, from every instant at which one changes until the next.
func states(workers []fleet.WorkerResult, end int64) (at, active, starting []int64) {
	type change struct{ active, starting int64 }
	changes := map[int64]change{0: {}, end: {}}
	add := func(from, to int64, by change) {
		to = min(to, end)
		if from >= to {
			return
		}
		for _, one := range []struct{ at, sign int64 }{{from, 1}, {to, -1}} {
			if one.at == end { // what is there at the end stays
				continue
			}
			c := changes[one.at]
			c.active, c.starting = c.active+one.sign*by.active, c.starting+one.sign*by.starting
			changes[one.at] = c
		}
	}
	for _, w := range workers {
		add(w.Ordered, min(w.Ready, w.Gone), change{starting: 1})
		add(w.Ready, w.Drained, change{active: 1})
	}
	for instant := range changes {
		at = append(at, instant)
	}
	slices.Sort(at)
	var now change
	for _, instant := range at {
		c := changes[instant]
		now = change{now.active + c.active, now.starting + c.starting}
		active, starting = append(active, now.active), append(starting, now.starting)
	}
	return at, active, starting
}

func floats(list []int64) []float64 {
	values := make([]float64, len(list))
	for k, v := range list {
		values[k] = float64(v)
	}
	return values
}
