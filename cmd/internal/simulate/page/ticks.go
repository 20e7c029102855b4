package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// series is a figure at the ticks that have it.
type series struct {
	name, unit string
	steps      bool // it holds until the next tick
	at         []int64
	values     []float64
}

// add adds a value, rounded to a millionth.
func (s *series) add(at int64, value float64) {
	s.at = append(s.at, at)
	s.values = append(s.values, math.Round(value*1e6)/1e6)
}

// reasons are what a pool was told at its ticks.
type reasons struct {
	name  string
	at    []int64
	words []string
}

// add adds the reason that a pool was told at an instant, if it was told one.
func (r *reasons) add(at int64, why planner.Reason) {
	if why != "" {
		r.at, r.words = append(r.at, at), append(r.words, string(why))
	}
}

// tickTables returns the tables of the figures of a planner's ticks; cut says that points are missing.
func (b *builder) tickTables() (list []charts.Table, cut bool) {
	if b.result.Planned == nil {
		return nil, false
	}
	figures, why := readTicks(b.result.Planned.Ticks)
	for _, s := range figures {
		if len(s.at) == 0 {
			continue
		}
		at, values := s.at, s.values
		if s.steps {
			rows := changes(values)
			at, values = pick(at, rows), pick(values, rows)
		}
		rows := thin(at, b.end, b.columns, values)
		cut = cut || len(rows) < len(at)
		list = append(list, charts.Table{Name: s.name, Columns: []charts.Column{
			charts.Floats("t", "s", seconds(pick(at, rows))), charts.Floats("v", s.unit, pick(values, rows)),
		}})
	}
	for _, r := range why {
		rows := b.reasonRows(r)
		cut = cut || len(rows) < len(r.at)
		list = append(list, charts.Table{Name: r.name, Columns: []charts.Column{
			charts.Floats("t", "s", seconds(pick(r.at, rows))), charts.Texts("reason", pick(r.words, rows)),
		}})
	}
	return list, cut
}

// reasonRows returns the first row of each reason in each column of time.
func (b *builder) reasonRows(r reasons) (rows []int) {
	var seen []string
	column := -1
	for k, at := range r.at {
		if now := columnOf(at, b.end, b.columns); now != column {
			column, seen = now, seen[:0]
		}
		if !slices.Contains(seen, r.words[k]) {
			seen, rows = append(seen, r.words[k]), append(rows, k)
		}
	}
	return rows
}

// readTicks returns all figures of ticks, and the reasons of each pool.
func readTicks(ticks []*planner.Tick) (figures []series, why []reasons) {
	if len(ticks) == 0 {
		return nil, nil
	}
	t := &tickReader{}
	for _, tick := range ticks {
		t.whole(tick)
		for k := range tick.Pools {
			t.pool(tick, k)
		}
	}
	return t.figures, t.why
}

// tickReader sorts what ticks have by figure, in the order in which figures first come.
type tickReader struct {
	figures []series
	why     []reasons
}

// figure returns the series of a name, a new one where there is none.
func (t *tickReader) figure(name, unit string) *series {
	for k := range t.figures {
		if t.figures[k].name == name {
			return &t.figures[k]
		}
	}
	t.figures = append(t.figures, series{name: name, unit: unit})
	return &t.figures[len(t.figures)-1]
}

// reason returns the reasons under a name, new ones where there are none.
func (t *tickReader) reason(name string) *reasons {
	for k := range t.why {
		if t.why[k].name == name {
			return &t.why[k]
		}
	}
	t.why = append(t.why, reasons{name: name})
	return &t.why[len(t.why)-1]
}

// add adds a figure that may be missing.
func (t *tickReader) add(name, unit string, at int64, value *float64, scale float64) {
	if value != nil {
		t.figure(name, unit).add(at, *value*scale)
	}
}

// whole reads what a tick has of the whole fleet.
func (t *tickReader) whole(tick *planner.Tick) {
	t.figure("gpu_hours", "h").add(tick.At, tick.GPUHours)
	if o := tick.Observed; o != nil && o.Seconds > 0 {
		t.figure("rate.observed", "/s").add(tick.At, float64(tick.Window.Requests)/o.Seconds)
		t.add("isl.observed", "tokens", tick.At, o.ISL, 1)
		t.add("osl.observed", "tokens", tick.At, o.OSL, 1)
		t.add("ttft.observed", "s", tick.At, o.TTFTMS, 1e-3)
		t.add("itl.observed", "s", tick.At, o.ITLMS, 1e-3)
		if p := tick.Predicted; p != nil {
			t.figure("rate.predicted", "/s").add(tick.At, p.Requests/o.Seconds)
			t.figure("isl.predicted", "tokens").add(tick.At, p.ISL)
			t.figure("osl.predicted", "tokens").add(tick.At, p.OSL)
		}
	}
}

// pool reads what a tick has of a pool.
func (t *tickReader) pool(tick *planner.Tick, k int) {
	one, pool := &tick.Pools[k], "."+strconv.Itoa(k)
	floor := t.figure("floor"+pool, "")
	floor.steps = true
	floor.add(tick.At, float64(one.Floor))
	recommended := t.figure("recommended"+pool, "")
	recommended.steps = true
	recommended.add(tick.At, float64(one.Recommended))
	t.add("ttft.estimated"+pool, "s", tick.At, one.TTFTMS, 1e-3)
	t.add("itl.estimated"+pool, "s", tick.At, one.ITLMS, 1e-3)
	if one.Capacity != nil {
		t.figure("capacity"+pool, "/s").add(tick.At, one.Capacity.RPS)
	}
	t.reason("load"+pool).add(tick.At, one.LoadReason)
	t.reason("throughput"+pool).add(tick.At, one.ThroughputReason)
}

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
