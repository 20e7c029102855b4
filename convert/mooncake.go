package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/trace"
)

// maxSingleRow is the size of the largest file of one value that is looked at for a Mooncake row, in bytes: a trace is not read
// twice for that.
const maxSingleRow = 64 << 10

// shardName is the name of a file that is one of several with the rest of its name.
var shardName = regexp.MustCompile(`^(.*)-\d{5}(-of-\d{5}(?:\.[^/\\]*)?)$`)

// wholeOf names that of which a file is a shard: the split of a dataset of the hub, or what its name says. Others are whole.
func wholeOf(f hfsource.File) string {
	if f.Split != "" {
		return f.Split
	}
	if m := shardName.FindStringSubmatch(f.Path); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// recordingsOf notes the formats of the files of a snapshot, which the first row of each decides. It returns by file the number, from 1, of the
// recording to which its rows belong; 0 where each is a trace. A recording is a file, or, unless the namespace is "file", all shards of one.
func recordingsOf(ctx context.Context, s *hfsource.Snapshot, namespace string) ([]int, error) {
	numbers, last, known := make([]int, len(s.Files)), 0, map[string]int{}
	for k, f := range s.Files {
		if f.Format.Parquet || !f.Format.Lines && f.Size > maxSingleRow {
			continue
		}
		first, err := s.FirstRow(ctx, k)
		if err != nil {
			return nil, err
		}
		format := formatOf(first)
		if s.Files[k].Rows = format.name; format.open == nil {
			continue
		}
		whole := wholeOf(f)
		if numbers[k] = known[whole]; numbers[k] > 0 && whole != "" && namespace != "file" {
			continue
		}
		last++
		numbers[k], known[whole] = last, last
	}
	return numbers, nil
}

// recordings collects the rows of files of which each is one request, Mooncake's. What rows mean and which traces they make is known when all
// have been read. So their traces stand behind those of other files.
type recordings struct {
	numbers []int // by file, see recordingsOf
	files   []hfsource.File
	rules   weka.Rules
	memory  *hfsource.MemoryBudget
	submit  func(func() plannedTrace)
	all     map[int]*recording // by number
}

// recording is what a file of such rows has, or all shards of one.
type recording struct {
	fileReader
	rows     []rowPlace
	memory   *hfsource.Reservation // of the row that is added
	retained int64                 // bytes of it
}

// rowPlace is where a row stands.
type rowPlace struct{ file, line int32 }

func newRecordings(s *hfsource.Snapshot, numbers []int, rules weka.Rules, submit func(func() plannedTrace)) recordings {
	return recordings{numbers: numbers, files: s.Files, rules: rules, memory: s.Memory, submit: submit, all: map[int]*recording{}}
}

// take adds a row to its recording. It returns false for a row of another file.
func (f *recordings) take(row hfsource.Row) bool {
	number := f.numbers[row.FileIndex]
	if number == 0 || row.Err != nil {
		return false
	}
	r := f.all[number]
	if r == nil {
		r = &recording{}
		r.fileReader = formatNamed(f.files[row.FileIndex].Rows).open(number-1, f.namespace(number-1), f.rules, func(n int64) error {
			r.retained += n
			return r.memory.Grow(n)
		})
		f.all[number] = r
	}
	if p := f.add(r, row); p.err != nil || p.fatal != nil {
		f.submit(func() plannedTrace { return p })
	}
	return true
}

// namespace returns the number of the namespace of the k-th recording. The first has that of a lone one, unless there are traces of other
// files, which may share blocks by themselves.
func (f *recordings) namespace(k int) int {
	switch _, alone := haveMooncake(f.numbers); {
	case f.rules.Namespace == "input":
		return 0
	case alone:
		return k
	}
	return k + 1
}

// add adds a row to a recording. Memory that is retained stays reserved until the end of the conversion.
func (f *recordings) add(r *recording, row hfsource.Row) plannedTrace {
	r.retained, r.memory = 0, row.TakeReservation()
	r.rows = append(r.rows, rowPlace{int32(row.FileIndex), int32(row.Line)})
	p := f.at(r, len(r.rows), r.Add(row.Data))
	if p.err == nil && p.fatal == nil {
		p.fatal = f.memory.Retain(r.retained)
	}
	row.Free()
	r.memory.Release()
	return p
}

// at returns the place of a row of a recording, with an error of the row, or of all of the recording.
func (f *recordings) at(r *recording, row int, err error) plannedTrace {
	place := r.rows[row-1]
	at := hfsource.Row{File: f.files[place.file].Path, Line: int(place.line)}
	p := plannedTrace{location: at.Location(), position: position{file: int(place.file), line: int(place.line)}}
	var e *trace.Error
	if errors.As(err, &e) && (e.Kind == trace.Unclear || e.Kind == trace.Contradiction) {
		p.fatal = fmt.Errorf("%s: %w", p.location, err)
		return p
	}
	p.err = err
	return p
}

// end submits the traces of all recordings, and which of their rows turned out invalid.
func (f *recordings) end() {
	for _, number := range slices.Sorted(maps.Keys(f.all)) {
		r := f.all[number]
		traces, err := r.Traces()
		var whole *trace.Error
		if errors.As(err, &whole) {
			p := f.at(r, max(whole.Row, 1), whole)
			f.submit(func() plannedTrace { return p })
			return
		}
		for _, e := range r.Invalid() {
			p := f.at(r, e.Row, e)
			f.submit(func() plannedTrace { return p })
		}
		for _, t := range traces {
			p := f.at(r, t.Rows[0], nil)
			p.memory = f.memory.Reserve()
			t.Budget = trace.NewBudget(p.memory.Grow)
			f.submit(func() plannedTrace { return planTrace(t, p, f.rules) })
		}
	}
	f.all = nil
}

// haveMooncake reports whether some file has Mooncake rows, and whether all have.
func haveMooncake(numbers []int) (some, all bool) {
	return slices.ContainsFunc(numbers, func(n int) bool { return n > 0 }), !slices.Contains(numbers, 0)
}
