package aiperf

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// dialect is how files are written: which metrics they have, how these are called, and what surrounds them. The preset of a run decides which
// dialect its files have.
type dialect struct {
	metrics []tag    // in the order of objects; nil: all that there are, as they are
	stats   []string // of a block, in their order; nil: as they are
	floats  bool     // numbers of metrics are floats, all but counts
	lineEnd string   // of CSV
	jsonEnd string   // of JSON

	slim        bool          // leave out rows that the harness does not write, and files of slices if there are no slices
	serverSlice time.Duration // length of the slices of server metrics by default; 0: no slices
	fail        func(*measure.Error) *Error
	whole       func(*writer) object // the aggregate
	csv         func(report.Table) report.Table
	input       func(*writer) object // input_config
	console     func(*writer) []byte
	version     func(*report.Run) string
	adjust      func(*Metadata, *measure.Record)
}

// dialects has the dialect of runs that were played as the harness plays under true, that of all others under false.
var dialects = map[bool]*dialect{
	false: {
		lineEnd: "\n", jsonEnd: "\n", serverSlice: time.Second, fail: ownError, whole: (*writer).aggregate,
		csv: func(t report.Table) report.Table { return t }, input: func(w *writer) object { return inputConfig(w.run) }, console: (*writer).consoleText,
		version: aiperfVersion, adjust: func(*Metadata, *measure.Record) {},
	},
	true: {
		metrics: harnessTags, stats: harnessStats, floats: true, lineEnd: "\r\n", slim: true, fail: harnessError,
		whole: (*writer).harnessAggregate, csv: harnessCSV, input: (*writer).harnessInput, console: (*writer).harnessConsole,
		version: func(*report.Run) string { return harnessVersion }, adjust: harnessMetadata,
	},
}

// scope says in which files a metric is.
type scope uint8

// The scopes, which are added up.
const (
	inRows scope = 1 << iota
	inWhole
	inSlices
)

// tag is a metric of a dialect.
type tag struct {
	tag  string
	from string // tag of the block that it is made of; "": the same tag
	in   scope
	head bool // the aggregate has it before everything that is no metric

	name string                  // "": that of the block
	unit string                  // of a block of zero
	when func(report.Table) bool // whether a table has it; nil: if its block was computed
	zero func(report.Table) bool // whether a table without the block has it as 0; nil: never

	group group // of the console file
	order int   // in its group
}

// table returns the blocks of a table that the dialect has in a scope, in its order.
func (d *dialect) table(t report.Table, in scope) report.Table {
	if d.metrics == nil {
		return t
	}
	list := report.Table{}
	for k := range d.metrics {
		m := &d.metrics[k]
		if m.in&in == 0 {
			continue
		}
		if b := m.block(t); b != nil {
			list = append(list, d.block(b, m))
		}
	}
	return list
}

// block returns the block of the metric in a table, nil if the table does not have the metric.
func (m *tag) block(t report.Table) *report.Block {
	b := t.Find(cmp.Or(m.from, m.tag))
	if b == nil {
		if m.zero == nil || !m.zero(t) {
			return nil
		}
		return zeros(m)
	}
	if m.when != nil && !m.when(t) {
		return nil
	}
	return b
}

// block returns a block with the name and the statistics that the dialect has for metric m.
func (d *dialect) block(b *report.Block, m *tag) report.Block {
	out := report.Block{Tag: m.tag, Name: b.Name, Unit: b.Unit, Kind: b.Kind}
	if m.name != "" {
		out.Name = m.name
	}
	for _, name := range d.stats {
		n, ok := b.Find(name)
		if !ok {
			continue
		}
		if d.floats && name != "count" && (name != "sum" || b.Kind != report.Scalar) {
			n = report.Float(n.Float64())
		}
		out.Stats = append(out.Stats, report.Stat{Name: name, Value: n})
	}
	return out
}

// rowMetrics returns those metrics of a request that the dialect has.
func (d *dialect) rowMetrics(list []report.RowMetric) []report.RowMetric {
	if d.metrics == nil {
		return list
	}
	return slices.DeleteFunc(list, func(m report.RowMetric) bool { return !ofRows[m.Tag] })
}

// ofRows are the metrics of the harness that stand in rows.
var ofRows = func() map[string]bool {
	list := map[string]bool{}
	for _, m := range harnessTags {
		list[m.tag] = m.in&inRows != 0
	}
	return list
}()

// sorted returns a table sorted by tag.
func sorted(t report.Table) report.Table {
	t = slices.Clone(t)
	slices.SortStableFunc(t, func(x, y report.Block) int { return strings.Compare(x.Tag, y.Tag) })
	return t
}

// show sets w.shown: the results with the tables of the dialect.
func (w *writer) show() {
	w.shown = *w.results
	w.shown.Headline = w.table(w.results.Headline, inWhole)
	if w.results.Warmup != nil {
		w.shown.Warmup = w.table(w.results.Warmup, inWhole)
	}
	w.shown.Slices = slices.Clone(w.results.Slices)
	for k := range w.shown.Slices {
		w.shown.Slices[k].Table = w.table(w.shown.Slices[k].Table, inSlices)
	}
}

// listed returns the names of the statistics that the CSV of slices has of a block.
func (d *dialect) listed(b *report.Block) (list []string) {
	if d.stats == nil {
		for _, s := range b.Stats {
			list = append(list, s.Name)
		}
		return list
	}
	for _, name := range columns {
		if _, ok := b.Find(name); ok {
			list = append(list, name)
		}
	}
	return list
}
