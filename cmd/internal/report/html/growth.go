package html

import (
	"runtime"

	"github.com/agentx/agentx/cmd/internal/report/page"
)

// mark is what a page had at an instant of a run that is played.
type mark struct {
	stride, requests, sessions, failures int
	touched                              int // the first bin that has changed since the mark before
}

// maxMarks is how many marks are known: a page that has not asked for two minutes gets everything anew.
const maxMarks = 128

// Mark remembers what the page has now, and returns the number of the mark: 1, 2 and so on.
func (b *Builder) Mark() int {
	b.marks[b.marked%maxMarks] = mark{b.stride, len(b.requests), len(b.sessions), len(b.failures), b.bins.touched}
	b.bins.touched = len(b.bins.list)
	b.marked++
	return b.marked
}

// Has reports whether a page that a reader got at a mark can be brought up to date: the builder still knows that mark, and has not thinned
// out the page since.
func (b *Builder) Has(number int) bool {
	return number > 0 && number <= b.marked && number > b.marked-maxMarks && b.marks[(number-1)%maxMarks].stride == b.stride
}

// growth is the head of a page that adds rows to those of an earlier one.
type growth struct {
	head
	From from `json:"from"`
}

// from is how many rows of the earlier page stay; those that follow are replaced. Tables that it does not name are replaced whole.
type from struct {
	Whole    bool `json:"whole"` // there is no earlier page
	Requests int  `json:"requests"`
	Sessions int  `json:"sessions"`
	Failures int  `json:"failures"`
	Bins     int  `json:"bins"`
}

// Since returns what a page adds that has what there was at a mark; all of it, if Has does not know that. Its rows stand in the order in
// which records were added, not in that of Page. Packing lets others run after each column.
func (b *Builder) Since(number int, a *About) *page.Page {
	g := growth{head: b.head(a), From: from{Whole: !b.Has(number)}}
	if !g.From.Whole {
		m := &b.marks[(number-1)%maxMarks]
		g.From.Requests, g.From.Sessions, g.From.Failures, g.From.Bins = m.requests, m.sessions, m.failures, b.touchedSince(number)
	}
	p := &page.Page{Kind: "live", Title: title(&a.Info), Live: true, Head: &g, Tables: []page.Table{
		b.newSessions(g.From.Sessions), b.newRequests(g.From.Requests), b.failureTable(g.From.Failures),
	}}
	if b.stride > 1 {
		p.Tables = append(p.Tables, b.bins.table(g.From.Bins), b.bins.failureTable(g.From.Bins))
	}
	return p
}

// touchedSince returns the position of the first bin of time that any record has changed since a mark that the builder still knows.
func (b *Builder) touchedSince(number int) int {
	first := b.bins.touched
	for k := number; k < b.marked; k++ {
		first = min(first, b.marks[k%maxMarks].touched)
	}
	return min(first, len(b.bins.list))
}

// newSessions returns the sessions from a position on, with their trees. A parent is known by its number, as it may come later.
func (b *Builder) newSessions(first int) page.Table {
	list := b.sessions[first:]
	t := page.Table{Name: "sessions"}
	column := func(name string, of func(*session) int64) {
		t.Columns = append(t.Columns, page.Ints(name, "", b.valuesOf(len(list), func(k int) int64 { return of(&list[k]) })))
	}
	column("tree", func(s *session) int64 { return int64(s.id.tree) })
	column("lane", func(s *session) int64 { return int64(b.trees[s.id.tree].lane) })
	column("pass", func(s *session) int64 { return int64(b.trees[s.id.tree].pass) })
	column("number", func(s *session) int64 { return int64(s.number) })
	column("parent", func(s *session) int64 { return int64(s.above) })
	column("depth", func(s *session) int64 { return int64(s.depth) })
	column("whole", func(s *session) int64 { return flag(s.whole) })
	labels, traces := make([]string, len(list)), make([]string, len(list))
	for k := range list {
		labels[k], traces[k] = list[k].label, b.trees[list[k].id.tree].trace
	}
	t.Columns = append(t.Columns, page.Texts("label", labels), page.Texts("trace", traces))
	return t
}

// newRequests returns the table of the requests from position first on, in the order in which they were added, each with the position of its session.
func (b *Builder) newRequests(first int) page.Table {
	list := b.requests[first:]
	t := page.Table{Name: "requests"}
	column := func(name, unit string, of func(*request) int64) {
		t.Columns = append(t.Columns, page.Ints(name, unit, b.valuesOf(len(list), func(k int) int64 { return of(&list[k]) })))
	}
	for _, of := range numbersOfRequests {
		column(of.name, of.unit, b.packed(of))
	}
	column("session", "", func(x *request) int64 { return int64(x.session) })
	column("turn", "", func(x *request) int64 { return int64(x.turn) })
	column("outer", "", func(x *request) int64 { return int64(x.outer) })
	return t
}

// valuesOf returns n values, valid until the next call, after others have run.
func (b *Builder) valuesOf(n int, of func(k int) int64) []int64 {
	runtime.Gosched()
	b.values = b.values[:0]
	for k := range n {
		b.values = append(b.values, of(k))
	}
	return b.values
}
