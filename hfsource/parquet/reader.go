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

// newReader opens a cursor for each leaf that the paths need.
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

// newRow returns an empty row with the path and type of each column.
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

// cursor assembles the rows of one column from its pages.
type cursor struct {
	chunk
	want     projection
	presence column.Column // where the leaf is not the first one of a record: what it says about the record
}

// newCursor returns the cursor of one leaf of a projection.
func newCursor(f *File, w projection, l *leaf) *cursor {
	c := &cursor{want: w, chunk: chunk{file: f, leaf: l}}
	c.wanted = !w.elementsOnly && len(w.leaves) == 1 && w.kind == l.kind
	c.read.hold = func(bytes int64) error { return c.hold(&c.heldDecoded, bytes) }
	return c
}

// locate adds the column and the page to an error.
func (c *cursor) locate(err error) error {
	if c.page > 0 {
		return fmt.Errorf("column %s: page %d: %w", c.leaf, c.page, err)
	}
	return fmt.Errorf("column %s: %w", c.leaf, err)
}

// row reads the next row of the column into to, and takes what it needs from left.
//
// Two levels say where a value belongs: the repetition level, which list it continues, and the definition level, how much
// of the path to it is present.
func (c *cursor) row(to *column.Column, left *budget) error {
	began := false
	for {
		if c.pending == 0 {
			if err := c.next(); err != nil {
				if err == io.EOF && began {
					return nil
				}
				return explainEOF(err)
			}
		}
		rep, def, n, err := c.nextLevels()
		if err != nil {
			return err
		}
		switch {
		case rep == 0 && began:
			return nil
		case rep == 0:
			began, n = true, 1
		case !began:
			return errors.New("a value continues a row that has ended")
		}
		if err := c.appendRun(to, left, rep, def, n); err != nil {
			return err
		}
		c.take(n)
	}
}

// nextLevels returns the levels of the next values, and how many values of the page have them.
func (c *cursor) nextLevels() (rep, def, n int, err error) {
	rep, n, err = c.rep.run()
	if err != nil {
		return 0, 0, 0, err
	}
	def, m, err := c.def.run()
	return rep, def, min(n, m, c.pending), err
}

// appendRun appends n values that have the same levels.
func (c *cursor) appendRun(to *column.Column, left *budget, rep, def, n int) (err error) {
	present, texts := def == c.leaf.maxDef, len(to.Texts)
	if err := c.spend(left, n, rep, present); err != nil {
		return err
	}
	if present && c.want.values && rep == len(c.want.lists) {
		err = c.appendElements(to, n)
	} else {
		for k := 0; k < n && err == nil; k++ {
			err = c.appendValue(to, rep, def)
		}
	}
	if err != nil {
		return err
	}
	return c.spendTexts(left, to, texts)
}

// appendElements appends n values to the innermost list.
func (c *cursor) appendElements(to *column.Column, n int) error {
	if err := extend(&to.Lists[len(to.Lists)-1], n); err != nil {
		return err
	}
	if !c.wanted {
		return nil
	}
	return c.read.read(to, n)
}

// extend makes the last list, which must have an element, n longer.
func extend(l *column.List, n int) error {
	last := len(l.Ends) - 1
	if last < 0 || l.Ends[last] == 0 || last > 0 && l.Ends[last] == l.Ends[last-1] {
		return errLevels
	}
	l.Ends[last] += int32(n)
	return nil
}

// appendValue appends a value, or what stands for a value that is not present.
func (c *cursor) appendValue(to *column.Column, rep, def int) error {
	present := def == c.leaf.maxDef
	if rep > len(c.want.lists) {
		return c.appendInside(to, present)
	}
	reached, err := c.openLists(to, rep, def)
	if err != nil || !reached {
		return err
	}
	switch {
	case c.want.elementsOnly:
		return nil
	case c.want.values && !present:
		ends := to.Lists[len(to.Lists)-1].Ends
		to.Nulls = append(to.Nulls, ends[len(ends)-1]-1)
	case !c.want.values:
		to.State = append(to.State, state(def, c.leaf.maxDef, c.want.parent))
	}
	switch {
	case !present:
		appendZero(to)
	case c.wanted:
		return c.read.read(to, 1)
	}
	return nil
}

// appendInside marks a record as present for a value of a list inside it. Only the presence of the record is requested.
func (c *cursor) appendInside(to *column.Column, present bool) error {
	if c.want.elementsOnly {
		return nil
	}
	if len(to.State) == 0 {
		return errLevels
	}
	if present {
		to.State[len(to.State)-1] = column.Value
	}
	return nil
}

// openLists adds an element to the list that the repetition level continues, and begins the lists inside it. It reports
// whether the path continues in the innermost list: not where one of the lists is null or empty.
func (c *cursor) openLists(to *column.Column, rep, def int) (reached bool, err error) {
	lists := c.want.lists
	if rep > 0 {
		if def < lists[rep-1].inner {
			return false, errLevels
		}
		if err := extend(&to.Lists[rep-1], 1); err != nil {
			return false, err
		}
	}
	for k := rep; k < len(lists); k++ {
		l, n := &to.Lists[k], lists[k]
		end := int32(0)
		if len(l.Ends) > 0 {
			end = l.Ends[len(l.Ends)-1]
		}
		if def < n.inner {
			l.State, l.Ends = append(l.State, state(def, n.def, n.parent)), append(l.Ends, end)
			return false, nil
		}
		l.State, l.Ends = append(l.State, column.Value), append(l.Ends, end+1)
	}
	return true, nil
}

// state returns the state of something by a definition level, given the levels from which on it and its parent are present.
func state(def, present, parent int) column.State {
	switch {
	case def >= present:
		return column.Value
	case def >= parent:
		return column.Null
	}
	return column.Absent
}

// budget is how many bytes the current row may still take.
type budget struct {
	row        int // in all
	structure  int // for states, ends of lists and zeros for nulls, see maxStructure
	unreserved int // taken, and not passed to reserve yet
	reserve    func(bytes int64) error
}

// reserveStep is how many bytes of a row are reserved at a time.
const reserveStep = 1 << 20

// reserveTaken passes to reserve how many bytes were taken since the last call. The error is that of reserve.
func (b *budget) reserveTaken() error {
	n := b.unreserved
	if b.unreserved = 0; b.reserve == nil || n == 0 {
		return nil
	}
	return b.reserve(int64(n))
}

// take takes bytes of values, and of structure, from the budget.
func (b *budget) take(values, structure int) error {
	b.row -= values + structure
	b.unreserved += values + structure
	if b.structure -= structure; b.row < 0 || b.structure < 0 {
		return &UnsupportedError{fmt.Sprintf("a row that takes more than %d MiB, or %d MiB for nulls", MaxRow>>20, maxStructure>>20), "write the file again as JSON lines, if it is to have such rows"}
	}
	if b.unreserved >= reserveStep {
		return b.reserveTaken()
	}
	return nil
}

// Bytes of the structure of a row.
const (
	stateSize = 1
	endSize   = 4
)

// sizeOf returns the bytes of one value in memory.
func sizeOf(k column.Kind) int {
	switch k {
	case column.Int, column.Uint, column.Float:
		return 8
	case column.Text, column.JSON:
		return 16
	}
	return 0
}

// spend takes n values at a repetition level from the budget, before memory for them is allocated.
func (c *cursor) spend(left *budget, n, rep int, present bool) error {
	depth, size := len(c.want.lists), 0
	if rep > depth { // inside a record whose presence alone is requested
		return nil
	}
	if c.wanted {
		size = sizeOf(c.leaf.kind)
	}
	structure := (depth - rep) * (stateSize + endSize)
	switch {
	case c.want.elementsOnly:
		size = 0
	case !c.want.values:
		structure += stateSize
	case !present:
		structure += endSize // in Nulls
	}
	if present {
		return left.take(n*size, n*structure)
	}
	return left.take(0, n*(structure+size))
}

// spendTexts takes the bytes of the texts from index from on. Texts of a dictionary are counted with the dictionary.
func (c *cursor) spendTexts(left *budget, to *column.Column, from int) error {
	if c.read.source == fromDictionary || len(to.Texts) == from {
		return nil
	}
	n := 0
	for _, t := range to.Texts[from:] {
		n += len(t)
	}
	return left.take(n, 0)
}
