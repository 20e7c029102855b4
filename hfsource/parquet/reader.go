package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/agentx/agentx/hfsource/column"
)

// reader reads the projected columns of a file in step, row by row.
type reader struct {
	file        *File
	projections []projection // of the requested paths, then of the other fields
	requested   int
	cursors     [][]*cursor // by projection
	shared      []sharedList
	rows        sync.Pool
}

// sharedList is a list that two projections pass through. Its elements must be the same in both.
type sharedList struct{ a, b, depth int }

// listSource says which projection reads a list from the file, and at which depth of its path.
type listSource struct{ projection, depth int }

func newReader(f *File, paths []string) *reader {
	r := &reader{file: f, requested: len(paths)}
	for _, p := range paths {
		r.projections = append(r.projections, project(f.root, p))
	}
	r.projections = append(r.projections, unrequested(f.root, paths)...)
	r.cursors = make([][]*cursor, len(r.projections))
	sources := map[*node]listSource{}
	r.addCursors(sources, false)
	r.addCursors(sources, true)
	for k := range r.projections {
		if w := &r.projections[k]; w.elementsOnly && r.cursors[k] == nil {
			w.copyLists, w.copyFrom = true, sources[w.innermost()].projection
		}
	}
	r.rows.New = r.newRow
	return r
}

// addCursors opens the leaves of the projections that ask for values or presence, or of those that ask for the elements of
// lists alone. The latter come second: where another projection reads their list, they copy it and need no cursor.
func (r *reader) addCursors(sources map[*node]listSource, elementsOnly bool) {
	for k, w := range r.projections {
		if w.kind == column.Missing || w.elementsOnly != elementsOnly {
			continue
		}
		if elementsOnly {
			if _, ok := sources[w.innermost()]; ok {
				continue
			}
			w.leaves = w.leaves[:1]
		}
		for _, l := range w.leaves {
			r.cursors[k] = append(r.cursors[k], newCursor(r.file, w, l))
		}
		for depth, list := range w.lists {
			if at, ok := sources[list]; ok {
				r.shared = append(r.shared, sharedList{at.projection, k, depth})
			} else {
				sources[list] = listSource{k, depth}
			}
		}
	}
}

func (r *reader) newRow() any {
	row := &column.Row{Wanted: make([]column.Column, r.requested), Others: make([]column.Column, len(r.projections)-r.requested)}
	for k, w := range r.projections {
		c := r.column(row, k)
		c.Path, c.Kind, c.Type = w.path, w.kind, w.name
	}
	return row
}

// column returns the column of a row that projection k fills.
func (r *reader) column(row *column.Row, k int) *column.Column {
	if k < r.requested {
		return &row.Wanted[k]
	}
	return &row.Others[k-r.requested]
}

// maxPooled is the largest row whose memory is used for another row, in bytes.
const maxPooled = 16 << 20

// free keeps the memory of a row for another one.
func (r *reader) free(row *column.Row) {
	n := 0
	for _, list := range [][]column.Column{row.Wanted, row.Others} {
		for k := range list {
			n += 8*(cap(list[k].Ints)+cap(list[k].Floats)) + 16*cap(list[k].Texts)
		}
	}
	if n <= maxPooled {
		r.rows.Put(row)
	}
}

// rowGroup yields the rows of a row group and returns how many it yielded.
func (r *reader) rowGroup(ctx context.Context, group int, yield func(*column.Row, func()) error) (n int64, err error) {
	if err := r.open(group); err != nil {
		return n, err
	}
	for range r.file.groups[group].NumRows {
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		row := r.rows.Get().(*column.Row)
		if err := r.row(row); err != nil {
			return n, err
		}
		if err := yield(row, func() { r.free(row) }); err != nil {
			return n, &YieldError{err}
		}
		n++
	}
	return n, r.expectEnd()
}

// open begins a row group.
func (r *reader) open(group int) error {
	for _, list := range r.cursors {
		for _, c := range list {
			m := &r.file.groups[group].Columns[c.leaf.index].MetaData
			if !canDecompress(m.Codec) {
				return fmt.Errorf("column %s: %w", c.leaf, &UnsupportedError{fmt.Sprintf("compression %v", m.Codec), hintCompression})
			}
			c.open(m)
		}
	}
	return nil
}

var errExtraRows = errors.New("it has more rows than its row group")

// expectEnd fails where a column has values behind the last row of its row group.
func (r *reader) expectEnd() error {
	for _, list := range r.cursors {
		for _, c := range list {
			if c.pending > 0 {
				return c.locate(errExtraRows)
			}
			switch err := c.next(); err {
			case io.EOF:
			case nil:
				return c.locate(errExtraRows)
			default:
				return c.locate(err)
			}
		}
	}
	return nil
}

// row reads the next row.
func (r *reader) row(row *column.Row) error {
	left := budget{row: MaxRow, structure: maxStructure, reserve: r.file.Reserve}
	for k := range r.projections {
		if err := r.fill(row, k, &left); err != nil {
			return err
		}
	}
	for _, t := range r.shared {
		a, b := r.column(row, t.a), r.column(row, t.b)
		if !equalLists(&a.Lists[t.depth], &b.Lists[t.depth]) {
			return fmt.Errorf("%s and %s do not have the same elements", a.Path, b.Path)
		}
	}
	for k := range r.projections {
		w, to := &r.projections[k], r.column(row, k)
		if w.copyLists {
			to.Lists = r.column(row, w.copyFrom).Lists[:len(w.lists)]
		}
		if w.elementsOnly {
			to.State = to.Lists[len(w.lists)-1].State
		}
	}
	return left.reserveTaken()
}

// fill reads the column of projection k. Presence of a record is what its leaves have in common, each read by a cursor.
func (r *reader) fill(row *column.Row, k int, left *budget) error {
	w, to := &r.projections[k], r.column(row, k)
	for n, c := range r.cursors[k] {
		part := to
		if n > 0 {
			part = &c.presence
		}
		clearColumn(part, w)
		if err := c.row(part, left); err != nil {
			return c.locate(err)
		}
		if n > 0 {
			if err := mergePresence(to, part); err != nil {
				return c.locate(err)
			}
		}
	}
	if w.values {
		to.State = to.Lists[len(w.lists)-1].State
	}
	return nil
}

// clearColumn empties a column and keeps its memory, except for states that alias those of a list.
func clearColumn(c *column.Column, w *projection) {
	if w.values || w.elementsOnly {
		c.State = nil
	}
	if len(c.Lists) != len(w.lists) {
		c.Lists = make([]column.List, len(w.lists))
	}
	c.State, c.Ints, c.Floats, c.Texts, c.Nulls = c.State[:0], c.Ints[:0], c.Floats[:0], c.Texts[:0], c.Nulls[:0]
	for k := range c.Lists {
		l := &c.Lists[k]
		l.State, l.Ends = l.State[:0], l.Ends[:0]
	}
}

func equalLists(a, b *column.List) bool {
	return slices.Equal(a.Ends, b.Ends) && slices.Equal(a.State, b.State)
}

// mergePresence adds what another leaf of a record says about the presence of the record.
func mergePresence(to, other *column.Column) error {
	for k := range to.Lists {
		if !equalLists(&to.Lists[k], &other.Lists[k]) {
			return errLevels
		}
	}
	if len(to.State) != len(other.State) {
		return errLevels
	}
	for k, s := range other.State {
		to.State[k] = max(to.State[k], s)
	}
	return nil
}
