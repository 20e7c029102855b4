// Package parquet reads the rows of Parquet files as columns. It alone knows the format.
//
// The library parses the footer. Pages are read here, for three reasons: a number in a damaged file is checked before
// memory is asked for by it; a page has to hold exactly what it says, or it is damaged; and lists of numbers, of which
// the files are made, go from the page to the row in one loop. A page at a time of each column is in memory, and the row.
package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	lib "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// MaxRow bounds one row as columns, in bytes: a larger one is an error before it is memory. The same holds for rows of
// text.
const MaxRow = 256 << 20

const (
	maxFooter = 64 << 20 // bytes

	// A file can say much in few bytes: a run of nulls as long as it likes, a page of zeros. So what one row may take as
	// columns is bounded, in bytes, as one of JSON is; and of it what is not in the file: states, ends of lists, and the
	// zeros in the place of nulls. Of a request, which has some 60 columns, that is about 1 KB.
	maxStructure = 64 << 20

	// The pages at hand may take what the longest row does, and some bytes for each that the file has.
	maxHeld      = 256 << 20
	heldPerByte  = 64
	maxHeldLarge = 1 << 31
)

// UnsupportedError is what a file has that is not read, though it may be whole.
type UnsupportedError struct {
	What string // it is
	Hint string // how to make a file of it that is read
}

func (e *UnsupportedError) Error() string { return e.What + ": not read" }

var errEncrypted = &UnsupportedError{"it is encrypted", "write the file again without encryption, or as JSON lines"}

const (
	tryCompression = "write the file again with snappy or zstd compression, or as JSON lines"
	tryEncoding    = "write the file again with plain or dictionary encoding, or as JSON lines"
)

// File is an open file.
type File struct {
	Progress func(bytes int64)       // called with bytes read; may be nil
	Reserve  func(bytes int64) error // called for memory of the row at hand, before or soon after it is there; may be nil

	reader   io.ReaderAt
	held     int64 // bytes of the pages at hand, packed and unpacked, and of their dictionaries
	maxHeld  int64
	groups   []format.RowGroup
	root     *node
	leaves   []*leaf
	zstd     *zstd.Decoder
	unsummed bool // a page came without a checksum
	summed   bool // a page came with one
	nonzero  bool // a page without one has another than 0
}

// Open reads the footer of a file of some size, in bytes. The error says what is wrong with it, never where it lies.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer guard("footer", &err)
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	if err := checkFooter(footer); err != nil {
		return nil, err
	}
	opened, err := lib.OpenFile(r, size, lib.SkipPageIndex(true), lib.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	m := opened.Metadata()
	f = &File{reader: r, groups: m.RowGroups, maxHeld: min(maxHeld+heldPerByte*size, maxHeldLarge)}
	if f.root, f.leaves, err = resolveSchema(m.Schema); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	if err := f.check(m.NumRows, size-int64(len(footer))-8); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	if err := markTimes(f.root, m.KeyValueMetadata); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return f, nil
}

// guard turns a panic of the library into an error.
func guard(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: damaged: %v", what, p)
	}
}

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	const magic = "PAR1"
	var head, tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("not Parquet: %d bytes", size)
	}
	if _, err := r.ReadAt(head[:4], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	switch {
	case string(tail[4:]) == "PARE":
		return nil, errEncrypted
	case string(head[:4]) != magic || string(tail[4:]) != magic:
		return nil, errors.New("not Parquet, or cut off: it does not begin and end with " + magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 || n > maxFooter {
		return nil, fmt.Errorf("footer: %d bytes long, of a file of %d; at most %d", n, size, maxFooter)
	}
	footer := make([]byte, n)
	_, err := r.ReadAt(footer, size-8-n)
	return footer, err
}

// check holds the parts of the footer against each other. Every byte of a column lies before end.
func (f *File) check(rows, end int64) error {
	type span struct{ from, to int64 }
	var spans []span
	for g := range f.groups {
		group := &f.groups[g]
		if group.NumRows < 0 || len(group.Columns) != len(f.leaves) || group.NumRows > 0 && len(f.leaves) == 0 {
			return fmt.Errorf("row group %d: %d rows, %d columns, where the schema has %d", g+1, group.NumRows, len(group.Columns), len(f.leaves))
		}
		rows -= group.NumRows
		for k := range group.Columns {
			c, leaf := &group.Columns[k], f.leaves[k]
			m := &c.MetaData
			from := chunkStart(m)
			switch {
			case c.FilePath != "":
				return fmt.Errorf("column %s: %w", leaf, &UnsupportedError{fmt.Sprintf("it lies in another file, %q", c.FilePath), "write the file again as one file"})
			case !slices.Equal(m.PathInSchema, leaf.path):
				return fmt.Errorf("column %s: it is %s in row group %d", leaf, strings.Join(m.PathInSchema, "."), g+1)
			case m.Type != leaf.physical:
				return fmt.Errorf("column %s: of type %v, and %v in row group %d", leaf, leaf.physical, m.Type, g+1)
			case from == 0 && m.NumValues == 0 && m.TotalCompressedSize == 0: // a column without a page
			case m.NumValues < 0 || m.TotalCompressedSize < 0 || from < 4 || from > end || m.TotalCompressedSize > end-from:
				return fmt.Errorf("column %s: row group %d: %d values in %d bytes at %d, beyond the file", leaf, g+1, m.NumValues, m.TotalCompressedSize, from)
			}
			if m.TotalCompressedSize > 0 {
				spans = append(spans, span{from, from + m.TotalCompressedSize})
			}
		}
	}
	if rows != 0 {
		return fmt.Errorf("%d rows more than in the row groups", rows)
	}
	sort.Slice(spans, func(a, b int) bool { return spans[a].from < spans[b].from })
	for k := 1; k < len(spans); k++ {
		if spans[k].from < spans[k-1].to {
			return fmt.Errorf("two columns lie at byte %d", spans[k].from)
		}
	}
	return nil
}

func (l *leaf) String() string { return strings.Join(l.path, ".") }

func (f *File) count(n int) {
	if f.Progress != nil {
		f.Progress(int64(n))
	}
}

// explainEOF says of an error of reading what it means: the footer promised more.
func (f *File) explainEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it ends too early")
	}
	return err
}

// LacksChecksums reports whether a page was read that carries no checksum: what was changed in it would not be noticed.
func (f *File) LacksChecksums() bool { return f.unsummed }

// Rows calls yield for every row, in order, with the columns that the paths ask for; yield owns the row and calls free
// when it is done with it. It returns the number of rows that were given, and what was wrong with the next.
func (f *File) Rows(ctx context.Context, paths []string, yield func(row *column.Row, free func()) error) (n int64, err error) {
	defer guard("pages", &err)
	if f.zstd, err = zstd.NewReader(nil, zstdOptions...); err != nil {
		return 0, err
	}
	defer f.zstd.Close()
	r := newReader(f, paths)
	for g := range f.groups {
		if err := r.open(g); err != nil {
			return n, err
		}
		for range f.groups[g].NumRows {
			if ctx.Err() != nil {
				return n, ctx.Err()
			}
			row := r.rows.Get().(*column.Row)
			if err := r.row(row); err != nil {
				return n, err
			}
			if err := yield(row, func() { r.put(row) }); err != nil {
				return n, &YieldError{err}
			}
			n++
		}
		if err := r.close(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// maxKept is the largest row whose memory is kept for another, in bytes.
const maxKept = 16 << 20

func (r *reader) put(row *column.Row) {
	n := 0
	for _, list := range [][]column.Column{row.Wanted, row.Others} {
		for k := range list {
			n += 8*(cap(list[k].Ints)+cap(list[k].Floats)) + 16*cap(list[k].Texts)
		}
	}
	if n <= maxKept {
		r.rows.Put(row)
	}
}

// YieldError is an error of yield.
type YieldError struct{ Err error }

func (e *YieldError) Error() string { return e.Err.Error() }

// reader reads the wanted columns in step.
type reader struct {
	file        *File
	projections []projection // the paths asked for, then the others
	asked       int
	cursors     [][]*cursor // by want
	shared      []sharedList
	rows        sync.Pool
}

// sharedList is a list that two columns have, and have to agree on.
type sharedList struct{ a, b, depth int }

func newReader(f *File, paths []string) *reader {
	r := &reader{file: f, asked: len(paths)}
	for _, p := range paths {
		r.projections = append(r.projections, project(f.root, p))
	}
	r.projections = append(r.projections, unrequested(f.root, paths)...)
	first := map[*node][2]int{} // a column that reads this list itself, and at which depth
	r.cursors = make([][]*cursor, len(r.projections))
	for pass := range 2 { // who reads levels comes first, who copies them after that
		for k, w := range r.projections {
			if w.kind == column.Missing || w.elementsOnly != (pass == 1) {
				continue
			}
			if pass == 1 {
				if _, ok := first[w.lists[len(w.lists)-1]]; ok {
					continue
				}
				w.leaves = w.leaves[:1]
			}
			for _, l := range w.leaves {
				r.cursors[k] = append(r.cursors[k], newCursor(f, w, l))
			}
			for depth, list := range w.lists {
				if at, ok := first[list]; ok {
					r.shared = append(r.shared, sharedList{at[0], k, depth})
				} else {
					first[list] = [2]int{k, depth}
				}
			}
		}
	}
	for k := range r.projections {
		if w := &r.projections[k]; w.elementsOnly && r.cursors[k] == nil {
			w.from = first[w.lists[len(w.lists)-1]][0] + 1
		}
	}
	r.rows.New = func() any {
		row := &column.Row{Wanted: make([]column.Column, len(paths)), Others: make([]column.Column, len(r.projections)-len(paths))}
		for k, w := range r.projections {
			c := r.column(row, k)
			c.Path, c.Kind, c.Type = w.path, w.kind, w.name
		}
		return row
	}
	return r
}

func (r *reader) column(row *column.Row, k int) *column.Column {
	if k < r.asked {
		return &row.Wanted[k]
	}
	return &row.Others[k-r.asked]
}

// open begins a row group.
func (r *reader) open(group int) error {
	for _, list := range r.cursors {
		for _, c := range list {
			m := &r.file.groups[group].Columns[c.leaf.index].MetaData
			switch m.Codec {
			case format.Uncompressed, format.Snappy, format.Zstd, format.Gzip:
			default:
				return fmt.Errorf("column %s: %w", c.leaf, &UnsupportedError{fmt.Sprintf("compression %v", m.Codec), tryCompression})
			}
			c.open(m)
		}
	}
	return nil
}

// close makes sure that a row group has no more rows.
func (r *reader) close() error {
	for _, list := range r.cursors {
		for _, c := range list {
			if c.pending > 0 {
				return c.where(errors.New("it has more rows than its row group"))
			}
			if err := c.next(); err != io.EOF {
				if err == nil {
					err = errors.New("it has more rows than its row group")
				}
				return c.where(err)
			}
		}
	}
	return nil
}

// row reads the next row.
func (r *reader) row(row *column.Row) error {
	left := budget{row: MaxRow, structure: maxStructure, reserve: r.file.Reserve}
	for k := range r.projections {
		w, to := &r.projections[k], r.column(row, k)
		for n, c := range r.cursors[k] {
			if n > 0 {
				to = &c.beside
			}
			empty(to, w)
			if err := c.row(to, &left); err != nil {
				return c.where(err)
			}
			if n > 0 {
				if err := mergePresence(r.column(row, k), to); err != nil {
					return c.where(err)
				}
			}
		}
		if to = r.column(row, k); w.values {
			to.State = to.Lists[len(w.lists)-1].State
		}
	}
	for _, t := range r.shared {
		a, b := r.column(row, t.a), r.column(row, t.b)
		if !equalLists(&a.Lists[t.depth], &b.Lists[t.depth]) {
			return fmt.Errorf("%s and %s do not have the same elements", a.Path, b.Path)
		}
	}
	for k := range r.projections {
		if w := &r.projections[k]; w.elementsOnly {
			to := r.column(row, k)
			if w.from > 0 {
				to.Lists = r.column(row, w.from-1).Lists[:len(w.lists)]
			}
			to.State = to.Lists[len(w.lists)-1].State
		}
	}
	return left.reserveTaken()
}

// empty empties a column, but keeps its memory where that is its own.
func empty(c *column.Column, w *projection) {
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

// mergePresence adds what another leaf knows of the presence of a record.
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

// cursor assembles rows from the pages of one column.
type cursor struct {
	chunk
	want   projection
	beside column.Column // what a further leaf of a record says
}

func newCursor(f *File, w projection, l *leaf) *cursor {
	c := &cursor{want: w, chunk: chunk{file: f, leaf: l}}
	c.wanted = !w.elementsOnly && len(w.leaves) == 1 && w.kind == l.kind
	return c
}

func (c *cursor) where(err error) error {
	if c.page > 0 {
		return fmt.Errorf("column %s: page %d: %w", c.leaf, c.page, err)
	}
	return fmt.Errorf("column %s: %w", c.leaf, err)
}

// row reads the next row of the column. Its levels say where each value belongs: a repetition level, which list goes on,
// and a definition level, how much of the path to the value is there. left is what the row may still take.
func (c *cursor) row(to *column.Column, left *budget) error {
	began := false
	for {
		if c.pending == 0 {
			if err := c.next(); err != nil {
				if err == io.EOF && began {
					return nil
				}
				return c.file.explainEOF(err)
			}
		}
		rep, n, err := c.rep.run()
		if err != nil {
			return err
		}
		def, m, err := c.def.run()
		if err != nil {
			return err
		}
		n = min(n, m, c.pending)
		switch {
		case rep == 0 && began:
			return nil
		case rep == 0:
			began, n = true, 1
		case !began:
			return errors.New("it goes on with a row that has ended")
		}
		there, texts := def == c.leaf.maxDef, len(to.Texts)
		if err := c.spend(left, n, rep, there); err != nil {
			return err
		}
		if there && c.want.values && rep == len(c.want.lists) {
			err = c.appendElements(to, n)
		} else {
			for k := 0; k < n && err == nil; k++ {
				err = c.appendValue(to, rep, def)
			}
		}
		if err == nil {
			err = c.spendTexts(left, to, texts)
		}
		if err != nil {
			return err
		}
		c.take(n)
	}
}

// appendElements reads n further values of the innermost list.
func (c *cursor) appendElements(to *column.Column, n int) error {
	if err := extend(&to.Lists[len(to.Lists)-1], n); err != nil {
		return err
	}
	if !c.wanted {
		return nil
	}
	return c.read.read(to, n)
}

// extend makes the last list, which has to have an element, n longer.
func extend(l *column.List, n int) error {
	last := len(l.Ends) - 1
	if last < 0 || l.Ends[last] == 0 || last > 0 && l.Ends[last] == l.Ends[last-1] {
		return errLevels
	}
	l.Ends[last] += int32(n)
	return nil
}

// appendValue takes a value, or what stands in the place of none.
func (c *cursor) appendValue(to *column.Column, rep, def int) error {
	lists := c.want.lists
	there := def == c.leaf.maxDef
	if rep > len(lists) { // inside what is only asked for its presence
		if c.want.elementsOnly {
			return nil
		}
		if len(to.State) == 0 {
			return errLevels
		}
		if there {
			to.State[len(to.State)-1] = column.Value
		}
		return nil
	}
	if rep > 0 {
		if def < lists[rep-1].inner {
			return errLevels
		}
		if err := extend(&to.Lists[rep-1], 1); err != nil {
			return err
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
			return nil
		}
		l.State, l.Ends = append(l.State, column.Value), append(l.Ends, end+1)
	}
	switch {
	case c.want.elementsOnly:
		return nil
	case c.want.values && !there:
		to.Nulls = append(to.Nulls, to.Lists[len(lists)-1].Ends[len(to.Lists[len(lists)-1].Ends)-1]-1)
	case !c.want.values:
		to.State = append(to.State, state(def, c.leaf.maxDef, c.want.parent))
	}
	if !there {
		appendZero(to)
		return nil
	}
	if !c.wanted {
		return nil
	}
	return c.read.read(to, 1)
}

// state says whether something is there, by the levels at which it is and at which what holds it is.
func state(def, there, parent int) column.State {
	switch {
	case def >= there:
		return column.Value
	case def >= parent:
		return column.Null
	}
	return column.Absent
}

// budget is how many bytes a row may still take.
type budget struct {
	row        int // all of it
	structure  int // what is not in the file
	unreserved int // taken, and not asked for yet
	reserve    func(bytes int64) error
}

// step is how many bytes of a row are asked for at a time.
const step = 1 << 20

// reserveTaken asks for what was taken.
func (b *budget) reserveTaken() error {
	n := b.unreserved
	if b.unreserved = 0; b.reserve == nil || n == 0 {
		return nil
	}
	return b.reserve(int64(n))
}

// take takes bytes of the budget.
func (b *budget) take(values, bare int) error {
	b.row -= values + bare
	b.unreserved += values + bare
	if b.structure -= bare; b.row < 0 || b.structure < 0 {
		return &UnsupportedError{fmt.Sprintf("a row that takes more than %d MiB, or %d MiB for what is null", MaxRow>>20, maxStructure>>20), "write the file again as JSON lines, if it is to have such rows"}
	}
	if b.unreserved >= step {
		return b.reserveTaken()
	}
	return nil
}

// Bytes of what a row is made of.
const (
	stateSize = 1
	endSize   = 4
)

// sizeOf is the bytes of one value.
func sizeOf(k column.Kind) int {
	switch k {
	case column.Int, column.Uint, column.Float:
		return 8
	case column.Text, column.JSON:
		return 16
	}
	return 0
}

// spend takes n values at some levels from the budget of the row, before there is memory for them.
func (c *cursor) spend(left *budget, n, rep int, there bool) error {
	depth, size := len(c.want.lists), 0
	if rep > depth { // inside what is only asked for its presence
		return nil
	}
	if c.wanted {
		size = sizeOf(c.leaf.kind)
	}
	bare := (depth - rep) * (stateSize + endSize)
	switch {
	case c.want.elementsOnly:
		size = 0
	case !c.want.values:
		bare += stateSize
	case !there:
		bare += endSize // in Nulls
	}
	if there {
		return left.take(n*size, n*bare)
	}
	return left.take(0, n*(bare+size))
}

// spendTexts takes what texts hold that are not in a dictionary.
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
