// Package merge reads the results of a run: those of one client, or those of all parts of a load as one run (doc/spec/cluster.md 3).
//
//	run, err := merge.Open("results", merge.Options{})
//	records, err := run.Records()
//
// Instants of parts are moved to the clock of part 0, as the readings of their clocks say: a record as a whole, by what holds when its request
// was sent, so that what one clock measured stays as it was. Records of N parts are read beside each other, N at a time. Lanes and
// sessions keep their numbers, which are those of the whole load; tree and credit n of part I become I + n·N.
package merge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// Options say how results are read.
type Options struct {
	// Partial takes the parts that there are for the load: those that are missing, or not of it, are left out, and those that were
	// lost have what they had written. Without it such a part is an error.
	Partial bool
}

// Run are the results of a run besides its records.
type Run struct {
	Dir     string
	Known   bool            // false: there is no run.json, and Info is empty but for the names of files
	Info    measure.RunInfo // Parts is nil for one run
	Missing []string        // what is not known of some part, one line each

	parts  []*part // that are used, by their numbers; nil: one run
	server *part   // whose samples of the servers are those of the load
	lanes  []measure.LaneReport
}

// Lanes returns what is known of the lanes; nil where that was not written.
func (r *Run) Lanes() ([]measure.LaneReport, error) {
	if r.parts == nil {
		return measure.ReadLanes(r.Dir)
	}
	return r.lanes, nil
}

// IncompleteError says which parts of a load are missing, were lost, or are not of it.
type IncompleteError struct {
	Dir      string
	Problems []string // one a part
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s: this is not a whole load: %s", e.Dir, strings.Join(measure.FirstOfParts(e.Problems), "; "))
}

// IsLoad reports whether a directory has those of parts of a load, and no run of its own.
func IsLoad(dir string) bool {
	for _, name := range []string{measure.RunFile, measure.RecordsFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false
		}
	}
	names, err := partsIn(dir)
	return err == nil && len(names) > 0
}

// Open opens the results in a directory. Of a load it reads the records of all parts once. The error about parts is an
// *IncompleteError; any other names the file.
func Open(dir string, o Options) (*Run, error) {
	if IsLoad(dir) {
		return openLoad(dir, o)
	}
	run := &Run{Dir: dir, Known: true}
	var err error
	if run.Info, err = measure.ReadInfo(dir); errors.Is(err, fs.ErrNotExist) {
		run.Known, err = false, nil
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}

// partsIn returns the names of the directories of parts in that of a load.
func partsIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, _, ok := measure.ParsePartDir(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// openLoad opens all parts of a load.
func openLoad(dir string, o Options) (*Run, error) {
	l, err := newLoad(dir)
	if err != nil {
		return nil, err
	}
	l.agree()
	for n := -1; n != len(l.used()); { // again where a part was left out for its records
		n = len(l.used())
		l.place()
		l.scan()
	}
	var problems []string
	for _, p := range l.parts {
		if text := p.problem(); text != "" {
			problems = append(problems, text)
		}
	}
	if used := l.used(); len(problems) > 0 && (!o.Partial || len(used) == 0) {
		return nil, &IncompleteError{dir, problems}
	}
	return l.run(), nil
}

// load are the parts of a load, in the order of their numbers.
type load struct {
	dir   string
	of    int
	parts []*part

	origins map[string]int64 // of each phase: when it began in the first part, on the clock of part 0, nanoseconds since 1970
}

// newLoad reads what the parts have besides their records.
func newLoad(dir string) (*load, error) {
	names, err := partsIn(dir)
	if err != nil {
		return nil, err
	}
	l := &load{dir: dir, origins: map[string]int64{}}
	byNumber := map[int]string{}
	for _, name := range names {
		number, of, _ := measure.ParsePartDir(name)
		other, again := byNumber[number]
		switch {
		case l.of > 0 && of != l.of:
			return nil, fmt.Errorf("%s: %s and %s belong to loads of different numbers of parts: name the parts of one load", dir, names[0], name)
		case again:
			return nil, fmt.Errorf("%s: %s and %s are both part %d: leave one of them out", dir, other, name, number)
		case of < 1 || of > measure.MaxParts || number >= of:
			return nil, fmt.Errorf("%s: %s: no load has this part: want part 0 to N-1 of N, at most %d", dir, name, measure.MaxParts)
		}
		l.of, byNumber[number] = of, name
	}
	for number := range l.of {
		p := &part{number: number, of: l.of}
		if name, ok := byNumber[number]; ok {
			p.dir = filepath.Join(dir, name)
			p.open()
		} else {
			p.leftOut = fmt.Sprintf("there is no %s", measure.PartDir(number, l.of))
		}
		l.parts = append(l.parts, p)
	}
	return l, nil
}

// used returns the parts that are not left out.
func (l *load) used() []*part {
	return slices.DeleteFunc(slices.Clone(l.parts), func(p *part) bool { return p.leftOut != "" })
}
