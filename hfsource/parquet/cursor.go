package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/agentx/agentx/hfsource/column"
)

// cursor assembles the rows of one column from its pages.
type cursor struct {
	chunk
	want     projection
	presence column.Column // where the leaf is not the first one of a record: what it says about the record
}

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
