package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
)

// findMooncake says of each file of a snapshot whether it has Mooncake rows. Its first row decides.
func findMooncake(ctx context.Context, s *hfsource.Snapshot) ([]bool, error) {
	are := make([]bool, len(s.Files))
	for k, f := range s.Files {
		if !f.Format.Lines {
			continue
		}
		first, err := s.FirstRow(ctx, k)
		if err != nil {
			return nil, err
		}
		are[k] = weka.IsMooncake(first)
	}
	return are, nil
}

// mooncakeFiles collects the rows of Mooncake files. A row is one request; the traces are known at the end of the file.
type mooncakeFiles struct {
	are     []bool // by file
	rules   weka.Rules
	memory  *hfsource.MemoryBudget
	submit  func(func() plannedTrace)
	started int            // Mooncake files seen
	file    plannedTrace   // location and position of the current file
	open    *weka.Mooncake // the current file; nil where it is of another format
}

// take adds a row to its Mooncake file. It returns false for a row of another file.
func (f *mooncakeFiles) take(row hfsource.Row) bool {
	if row.File != f.file.location || row.FileIndex != f.file.position.file {
		f.end()
		f.file = plannedTrace{location: row.File, position: position{file: row.FileIndex}}
		if f.are[row.FileIndex] {
			f.open = weka.NewMooncake(f.started, f.rules)
			f.started++
		}
	}
	if f.open == nil || row.Err != nil {
		return false
	}
	if p := f.add(row); p.err != nil || p.fatal != nil {
		f.submit(func() plannedTrace { return p })
	}
	return true
}

// add adds a row to the current file. Memory that the file retains stays reserved until the end of the conversion.
func (f *mooncakeFiles) add(row hfsource.Row) plannedTrace {
	retained, memory := int64(0), row.TakeReservation()
	f.open.Reserve = func(n int64) error {
		retained += n
		return memory.Grow(n)
	}
	p := plannedTrace{location: row.Location(), position: position{file: row.FileIndex, line: row.Line}}
	var unclear *weka.Error
	switch p.err = f.open.Add(row.Data); {
	case p.err == nil:
		p.fatal = f.memory.Retain(retained)
	case errors.As(p.err, &unclear) && unclear.Kind == weka.Unclear:
		p.fatal = fmt.Errorf("%s: %w", p.location, p.err)
	}
	row.Free()
	memory.Release()
	return p
}

// end submits the traces of the current file.
func (f *mooncakeFiles) end() {
	if f.open == nil {
		return
	}
	for _, trace := range f.open.Traces() {
		p := f.file
		p.memory = f.memory.Reserve()
		trace.SetReserve(p.memory.Grow)
		f.submit(func() plannedTrace { return planTrace(trace, p, f.rules) })
	}
	f.open = nil
}
