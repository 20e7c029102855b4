package page

import (
	"cmp"
	"math"
	"slices"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// line is what a worker had over time.
type line struct {
	pool, worker int
	at           []int64
	values       [][]float64 // of each figure
}

// figure is a column of the points of lines.
type figure struct{ name, unit string }

// The figures of lines, with a planner and without.
var (
	tickFigures   = []figure{{"queued", "tokens"}, {"kv", "tokens"}}
	sampleFigures = []figure{{"running", ""}, {"waiting", ""}, {"blocks", "blocks"}, {"reuse", "%"}, {"preemptions", ""}}
)

// workerKey names a worker of a fleet.
type workerKey struct{ pool, worker int }

// lineSet makes lines of workers that come in any order.
type lineSet struct {
	byWorker map[workerKey]*line
}

// add appends the values of a worker at an instant to its line.
func (s *lineSet) add(pool, worker int, at int64, values ...float64) {
	key := workerKey{pool, worker}
	one, ok := s.byWorker[key]
	if !ok {
		one = &line{pool: pool, worker: worker, values: make([][]float64, len(values))}
		s.byWorker[key] = one
	}
	one.at = append(one.at, at)
	for k, v := range values {
		one.values[k] = append(one.values[k], v)
	}
}

// sorted returns the lines by pool and worker.
func (s *lineSet) sorted() (list []line) {
	for _, one := range s.byWorker {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b line) int { return cmp.Or(a.pool-b.pool, a.worker-b.worker) })
	return list
}

// linesOfTicks returns what the engines had at the ticks of a planner.
func linesOfTicks(ticks []*planner.Tick) []line {
	s := lineSet{byWorker: map[workerKey]*line{}}
	for _, t := range ticks {
		for k := range t.Pools {
			for _, e := range t.Pools[k].Engines {
				s.add(k, e.Worker, t.At, float64(e.QueuedPrefill), float64(e.KV+e.QueuedKV))
			}
		}
	}
	return s.sorted()
}

// linesOfSamples returns what the workers had at the samples of a run, with the share of prompt tokens that each had found so far.
func linesOfSamples(r *simulate.Result) []line {
	s := lineSet{byWorker: map[workerKey]*line{}}
	found := reuseOf(r)
	for _, one := range r.Samples.List {
		for k, list := range one.Pools {
			for _, w := range list {
				share := found[workerKey{k, w.ID}].until(one.At)
				s.add(k, w.ID, one.At, float64(w.Running), float64(w.Waiting), float64(w.KVBlocks), share, float64(w.Preemptions))
			}
		}
	}
	return s.sorted()
}

// admission is a prompt that a worker took for the first time.
type admission struct {
	at             int64
	reused, prompt int
}

// admissions are those of a worker, in the order of time.
type admissions struct {
	list           []admission
	next           int
	reused, prompt int // of those before next
}

// until returns the share of prompt tokens that was found until an instant, which is not before the last one; NaN without any.
func (a *admissions) until(at int64) float64 {
	if a == nil {
		return math.NaN()
	}
	for ; a.next < len(a.list) && a.list[a.next].at <= at; a.next++ {
		a.reused, a.prompt = a.reused+a.list[a.next].reused, a.prompt+a.list[a.next].prompt
	}
	if a.prompt == 0 {
		return math.NaN()
	}
	return math.Round(float64(a.reused)/float64(a.prompt)*1e3) / 1e3
}

// reuseOf returns the admissions of each worker.
func reuseOf(r *simulate.Result) map[workerKey]*admissions {
	found := map[workerKey]*admissions{}
	add := func(pool int, q *fleet.Request) {
		if q.Worker < 0 || q.Admissions == 0 {
			return
		}
		key := workerKey{pool, q.Worker}
		if found[key] == nil {
			found[key] = &admissions{}
		}
		found[key].list = append(found[key].list, admission{q.Admitted, q.Reused, q.Prompt})
	}
	for _, q := range r.Requests {
		add(0, q.Front())
		if q.Prefill != nil {
			add(1, q)
		}
	}
	for _, a := range found {
		slices.SortStableFunc(a.list, func(x, y admission) int { return cmp.Compare(x.at, y.at) })
	}
	return found
}

// chosen returns the lines that are drawn: of too many those with the greatest values of their first figures.
func (b *builder) chosen() []line {
	if len(b.lines) <= b.most {
		return b.lines
	}
	peak := func(l line) (most float64) {
		for _, v := range l.values[0] {
			most = max(most, v)
		}
		return most
	}
	order := make([]int, len(b.lines))
	peaks := make([]float64, len(b.lines))
	for k := range order {
		order[k], peaks[k] = k, peak(b.lines[k])
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(peaks[y], peaks[x]) })
	order = order[:b.most]
	slices.Sort(order)
	return pick(b.lines, order)
}

// points returns how many points the lines have on a page.
func (b *builder) points() (n int) {
	for _, l := range b.chosen() {
		n += len(thin(l.at, b.end, b.columns, l.values...))
	}
	return n
}

// lineTables returns the lines and their points, one line after the other; cut says that points are missing.
func (b *builder) lineTables() (lines, points charts.Table, cut bool) {
	figures := sampleFigures
	if b.result.Planned != nil {
		figures = tickFigures
	}
	var pool, worker, rows []int64
	var at []float64
	values := make([][]float64, len(figures))
	for _, l := range b.chosen() {
		kept := thin(l.at, b.end, b.columns, l.values...)
		cut = cut || len(kept) < len(l.at)
		pool, worker, rows = append(pool, int64(l.pool)), append(worker, int64(l.worker)), append(rows, int64(len(kept)))
		at = append(at, seconds(pick(l.at, kept))...)
		for k := range figures {
			values[k] = append(values[k], pick(l.values[k], kept)...)
		}
	}
	lines = charts.Table{Name: "lines", Columns: []charts.Column{charts.Ints("pool", "", pool), charts.Ints("worker", "", worker), charts.Ints("rows", "", rows)}}
	points = charts.Table{Name: "points", Columns: []charts.Column{charts.Floats("t", "s", at)}}
	for k, f := range figures {
		points.Columns = append(points.Columns, charts.Floats(f.name, f.unit, values[k]))
	}
	return lines, points, cut || len(b.lines) > b.most
}

// columnOf returns the column of an instant, of so many that cut the axis from 0 to its end.
func columnOf(at, end int64, columns int) int {
	return int(float64(at) / (float64(end) + 1) * float64(columns))
}

// thin returns the rows that stay of lines which share their instants: of each column of time the first, the last, and those with the
// least and the greatest value of each line.
func thin(at []int64, end int64, columns int, lines ...[]float64) (rows []int) {
	for from := 0; from < len(at); {
		column, to := columnOf(at[from], end, columns), from
		for to < len(at) && columnOf(at[to], end, columns) == column {
			to++
		}
		kept := []int{from, to - 1}
		for _, values := range lines {
			kept = append(kept, extremes(values, from, to)...)
		}
		slices.Sort(kept)
		rows = append(rows, slices.Compact(kept)...)
		from = to
	}
	return rows
}

// extremes returns the first rows with the least and the greatest of the values that are known.
func extremes(values []float64, from, to int) []int {
	least, most := -1, -1
	for k := from; k < to; k++ {
		switch v := values[k]; {
		case math.IsNaN(v):
		case least < 0:
			least, most = k, k
		case v < values[least]:
			least = k
		case v > values[most]:
			most = k
		}
	}
	if least < 0 {
		return nil
	}
	return []int{least, most}
}

// changes returns the first row, those whose value is another than the one before, and the last.
func changes[T comparable](values []T) (rows []int) {
	for k, v := range values {
		if k == 0 || k == len(values)-1 || v != values[k-1] {
			rows = append(rows, k)
		}
	}
	return rows
}

// pick returns the values of some rows.
func pick[T any](values []T, rows []int) []T {
	list := make([]T, len(rows))
	for k, row := range rows {
		list[k] = values[row]
	}
	return list
}
