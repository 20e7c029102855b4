package html

import (
	"cmp"
	"maps"
	"slices"

	"github.com/agentx/agentx/cmd/internal/report/page"
)

// tables returns the tables of the records that were added, and the values that sparse columns leave out.
func (b *Builder) tables() (list []page.Table, common map[string]int64) {
	trees, treeRow := b.treeTable()
	sessions, sessionRow := b.sessionTable(treeRow)
	requests := slices.Clone(b.requests)
	for k := range requests {
		requests[k].session = sessionRow[requests[k].session]
	}
	slices.SortStableFunc(requests, func(x, y request) int {
		phase := 0
		if x.warmup() != y.warmup() {
			if phase = 1; x.warmup() {
				phase = -1
			}
		}
		return cmp.Or(cmp.Compare(x.session, y.session), phase, cmp.Compare(x.Sent, y.Sent), cmp.Compare(x.credit, y.credit))
	})
	c := b.requestColumns(requests)
	list = append([]page.Table{trees, sessions, {Name: "requests", Columns: c.dense}}, c.sparse...)
	list = append(list, b.failureTable(0))
	if b.stride > 1 {
		list = append(list, b.bins.table(0), b.bins.failureTable(0))
	}
	return list, c.common
}

// treeTable returns the trees by their ordinals, and the row of each.
func (b *Builder) treeTable() (page.Table, map[int]int64) {
	rows := map[int]int64{}
	var ordinal, lane, pass []int64
	var trace []string
	for _, k := range slices.Sorted(maps.Keys(b.trees)) {
		t := b.trees[k]
		rows[k] = int64(len(ordinal))
		ordinal, lane, pass, trace = append(ordinal, int64(t.ordinal)), append(lane, int64(t.lane)), append(pass, int64(t.pass)), append(trace, t.trace)
	}
	return page.Table{Name: "trees", Columns: []page.Column{
		page.Ints("ordinal", "", ordinal), page.Ints("lane", "", lane), page.Ints("pass", "", pass), page.Texts("trace", trace),
	}}, rows
}

// sessionTable returns the sessions by tree, each tree's in the order in which they began, and the row of each.
func (b *Builder) sessionTable(treeRow map[int]int64) (page.Table, []int32) {
	first, requests := make([]int64, len(b.sessions)), make([]int64, len(b.sessions))
	for k := range b.requests {
		x := &b.requests[k]
		if n := &requests[x.session]; *n == 0 || int64(x.Sent) < first[x.session] {
			first[x.session] = int64(x.Sent)
		}
		requests[x.session]++
	}
	order := make([]int32, len(b.sessions))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortStableFunc(order, func(x, y int32) int {
		s, t := &b.sessions[x], &b.sessions[y]
		return cmp.Or(cmp.Compare(s.id.tree, t.id.tree), cmp.Compare(s.depth, t.depth), cmp.Compare(first[x], first[y]), cmp.Compare(s.id.name, t.id.name))
	})
	rows := make([]int32, len(b.sessions))
	for row, k := range order {
		rows[k] = int32(row)
	}
	var tree, parent, depth, whole, n []int64
	var label []string
	for _, k := range order {
		s := &b.sessions[k]
		above := page.Missing
		if s.above >= 0 && b.numbers.position[s.above] >= 0 {
			above = int64(rows[b.numbers.position[s.above]])
		}
		tree, parent, depth, n = append(tree, treeRow[s.id.tree]), append(parent, above), append(depth, int64(s.depth)), append(n, requests[k])
		whole, label = append(whole, flag(s.whole)), append(label, s.label)
	}
	return page.Table{Name: "sessions", Columns: []page.Column{
		page.Ints("tree", "", tree), page.Ints("parent", "", parent), page.Ints("depth", "", depth), page.Ints("requests", "", n),
		page.Ints("whole", "", whole), page.Texts("label", label),
	}}, rows
}

// requestColumns returns the columns of requests. Those that usually follow from others are packed as what they have above these.
func (b *Builder) requestColumns(list []request) *columns {
	c := &columns{}
	for _, of := range numbersOfRequests {
		values, value := make([]int64, len(list)), b.packed(of)
		for k := range list {
			values[k] = value(&list[k])
		}
		c.add(of.name, of.unit, values)
	}
	c.add("turn_step", "", steps(list, func(x *request) int32 { return x.turn }))
	c.add("outer_step", "", steps(list, func(x *request) int32 { return x.outer }))
	return c
}

// steps returns by how much a number of each request differs from that of the one before in its session, and from -1 of the first.
func steps(list []request, of func(*request) int32) []int64 {
	values := make([]int64, len(list))
	for k := range list {
		before := int32(-1)
		if k > 0 && list[k-1].session == list[k].session {
			before = of(&list[k-1])
		}
		values[k] = int64(of(&list[k]) - before)
	}
	return values
}

// failureTable returns why requests failed, from a position on; the column failure of a request is its position plus 1.
func (b *Builder) failureTable(first int) page.Table {
	var code []int64
	var category, message []string
	for _, f := range b.failures[first:] {
		code, category, message = append(code, int64(f.code)), append(category, f.category), append(message, f.message)
	}
	return page.Table{Name: "failures", Columns: []page.Column{page.Texts("category", category), page.Ints("code", "", code), page.Texts("message", message)}}
}

// table returns the bins from a position on; they follow one another from the start of the phase.
func (b *bins) table(first int) page.Table {
	b.integrate()
	var sent, ended, cached, miss []int64
	var output []float64
	for k := first; k < len(b.list); k++ {
		x := &b.list[k]
		sent, ended, cached, miss = append(sent, x.sent), append(ended, x.ended), append(cached, x.cached), append(miss, x.miss)
		output = append(output, x.output)
	}
	return page.Table{Name: "bins", Columns: []page.Column{
		page.Ints("sent", "", sent), page.Ints("ended", "", ended), page.Ints("cached", "tokens", cached), page.Ints("miss", "tokens", miss),
		page.Floats("output", "tokens", output),
	}}
}

// failureTable returns how many requests ended in a bin, from a position on, by a failure, with a row for each pair that has any.
func (b *bins) failureTable(first int) page.Table {
	var at, failure, n []int64
	for k := first; k < len(b.list); k++ {
		for _, f := range slices.Sorted(maps.Keys(b.list[k].failed)) {
			at, failure, n = append(at, int64(k)), append(failure, int64(f)), append(n, b.list[k].failed[f])
		}
	}
	return page.Table{Name: "bins.failures", Columns: []page.Column{page.Ints("bin", "", at), page.Ints("failure", "", failure), page.Ints("n", "", n)}}
}

// columns are those of the table of requests. A column most of whose rows have one value has only the others, in a table of its own.
type columns struct {
	dense  []page.Column
	sparse []page.Table
	common map[string]int64 // the value of the rows that a sparse column leaves out
}

// add adds a column.
func (c *columns) add(name, unit string, values []int64) {
	common, n := mode(values)
	if 4*n < 3*len(values) {
		c.dense = append(c.dense, page.Ints(name, unit, values))
		return
	}
	if c.common == nil {
		c.common = map[string]int64{}
	}
	if common != page.Missing {
		c.common[name] = common
	}
	var rows, others []int64
	for k, v := range values {
		if v != common {
			rows, others = append(rows, int64(k)), append(others, v)
		}
	}
	c.sparse = append(c.sparse, page.Table{Name: "requests." + name, Columns: []page.Column{page.Ints("row", "", rows), page.Ints("value", unit, others)}})
}

// mode returns the most frequent value, and how often it is there.
func mode(values []int64) (value int64, n int) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if j-i > n {
			value, n = sorted[i], j-i
		}
		i = j
	}
	return value, n
}
