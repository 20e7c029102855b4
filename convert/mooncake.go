package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
)

// recordingsOf returns by file of a snapshot the number, from 1, of the recording to which its Mooncake rows belong; 0 where it has none. The
// first row of a file decides.
func recordingsOf(ctx context.Context, s *hfsource.Snapshot) ([]int, error) {
	numbers, last := make([]int, len(s.Files)), 0
	for k, f := range s.Files {
		if !f.Format.Lines {
			continue
		}
		first, err := s.FirstRow(ctx, k)
		if err != nil {
			return nil, err
		}
		if weka.IsMooncake(first) {
			last++
			numbers[k] = last
		}
	}
	return numbers, nil
}

// recordings collects the rows of Mooncake files. A row is one request; what rows mean and which traces they make is known when all
// have been read. So their traces stand behind those of other files.
type recordings struct {
	numbers []int // by file, see recordingsOf
	rules   weka.Rules
	memory  *hfsource.MemoryBudget
	submit  func(func() plannedTrace)
	all     []*recording // those begun, in the order of their files
	byNr    map[int]*recording
}

// recording is what a file of Mooncake rows has.
type recording struct {
	*weka.Mooncake
	file plannedTrace   // location and position
	rows []plannedTrace // location and position of each
}

// take adds a row to its recording. It returns false for a row of another file.
func (f *recordings) take(row hfsource.Row) bool {
	number := f.numbers[row.FileIndex]
	if number == 0 || row.Err != nil {
		return false
	}
	r := f.byNr[number]
	if r == nil {
		r = &recording{Mooncake: weka.NewMooncake(len(f.all), f.rules), file: plannedTrace{location: row.File, position: position{file: row.FileIndex}}}
		f.byNr[number] = r
		f.all = append(f.all, r)
	}
	if p := f.add(r, row); p.err != nil || p.fatal != nil {
		f.submit(func() plannedTrace { return p })
	}
	return true
}

// add adds a row to a recording. Memory that is retained stays reserved until the end of the conversion.
func (f *recordings) add(r *recording, row hfsource.Row) plannedTrace {
	retained, memory := int64(0), row.TakeReservation()
	r.Reserve = func(n int64) error {
		retained += n
		return memory.Grow(n)
	}
	p := plannedTrace{location: row.Location(), position: position{file: row.FileIndex, line: row.Line}}
	r.rows = append(r.rows, p)
	if p.refuse(r.Add(row.Data)); p.err == nil && p.fatal == nil {
		p.fatal = f.memory.Retain(retained)
	}
	row.Free()
	memory.Release()
	return p
}

// refuse notes an error of a row, or of the whole file.
func (p *plannedTrace) refuse(err error) {
	var e *weka.Error
	if errors.As(err, &e) && (e.Kind == weka.Unclear || e.Kind == weka.Contradiction) {
		p.fatal = fmt.Errorf("%s: %w", p.location, err)
		return
	}
	p.err = err
}

// end submits the traces of all recordings, and which of their rows turned out invalid.
func (f *recordings) end() {
	for _, r := range f.all {
		traces, err := r.Traces()
		var whole *weka.Error
		if errors.As(err, &whole) {
			p := r.at(whole)
			f.submit(func() plannedTrace { return p })
			return
		}
		for _, e := range r.Invalid() {
			p := r.at(e)
			f.submit(func() plannedTrace { return p })
		}
		for _, trace := range traces {
			p := r.file
			p.memory = f.memory.Reserve()
			trace.SetReserve(p.memory.Grow)
			f.submit(func() plannedTrace { return planTrace(trace, p, f.rules) })
		}
	}
	f.all = nil
}

// at returns an error that only all rows show, at the row that it names.
func (r *recording) at(e *weka.Error) plannedTrace {
	p := r.file
	if e.Row > 0 {
		p = r.rows[e.Row-1]
	}
	p.refuse(e)
	return p
}

// haveMooncake reports whether some file has Mooncake rows, and whether all have.
func haveMooncake(numbers []int) (some, all bool) {
	return slices.ContainsFunc(numbers, func(n int) bool { return n > 0 }), !slices.Contains(numbers, 0)
}
