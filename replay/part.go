package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// Part says which part of a load a run plays, where several clients play it together: lanes, arrivals, requests and trees Number,
// Number+Of, Number+2*Of, ... of those of the whole load (doc/spec/cluster.md 3). The zero value is the whole load.
type Part struct {
	Number int // 0 to Of-1
	Of     int // parts of the load; 0: the load is not divided
}

// maxParts is the largest number of parts of a load: each plays a lane.
const maxParts = MaxConcurrency

// String returns a part as --part takes it.
func (p Part) String() string { return fmt.Sprintf("%d/%d", p.Number, p.Of) }

// Validate returns an error about a number that is out of range.
func (p Part) Validate() error {
	switch {
	case p == Part{}:
		return nil
	case p.Of < 1 || p.Of > maxParts:
		return fmt.Errorf("part %v: %d parts: want 1 to %d", p, p.Of, maxParts)
	case p.Number < 0 || p.Number >= p.Of:
		return fmt.Errorf("part %v: number %d: want 0 to %d, the first part is 0", p, p.Number, p.Of-1)
	}
	return nil
}

// IsSet reports whether the load is divided, also into one part.
func (p Part) IsSet() bool { return p.Of > 0 }

// several reports whether there are other parts.
func (p Part) several() bool { return p.Of > 1 }

// whole returns the number in the whole load of what is number own in the part, such as a lane.
func (p Part) whole(own int) int { return p.Number + own*max(1, p.Of) }

// own returns the number in the part of what is a number in the whole load.
func (p Part) own(whole int) int { return whole / max(1, p.Of) }

// has reports whether a number of the whole load is of the part.
func (p Part) has(whole int) bool { return whole%max(1, p.Of) == p.Number }

// Share returns how many of the first n of the whole load are of the part.
func (p Part) Share(n int) int { return (n - p.Number + max(1, p.Of) - 1) / max(1, p.Of) }

// Dir returns the name of the directory of a part, in that of the whole load.
func (p Part) Dir() string { return measure.PartDir(p.Number, p.Of) }

// CheckOut returns an error if a directory cannot be that of the whole load: it holds the results of a run that is no part, or parts of
// a load that is divided into another number, or not at all.
func (p Part) CheckOut(out string) error {
	if out == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(out, RunFile)); err == nil && p.IsSet() {
		return fmt.Errorf("%s: it holds %s, the results of a whole run: choose a different directory", out, RunFile)
	}
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && p.IsSet() { // a run that is no part makes the directory, or says why not
		return err
	}
	for _, e := range entries {
		switch _, of, ok := measure.ParsePartDir(e.Name()); {
		case !ok || of == p.Of:
		case !p.IsSet():
			return fmt.Errorf("%s: it holds %s, a part of a load: choose a different directory, or remove the parts", out, e.Name())
		default:
			return fmt.Errorf("%s: it holds %s, and this is part %v: choose a different directory, or remove the parts of the other load", out, e.Name(), p)
		}
	}
	return nil
}

// ofPart returns the options of what the part of valid options with defaults plays.
func (o Options) ofPart() Options {
	if !o.Part.IsSet() {
		return o
	}
	o.allLanes = o.Concurrency
	for _, n := range []*int{&o.Concurrency, &o.Requests, &o.Trees} {
		*n = o.Part.Share(*n) // 0 stays: no cap, no bound
	}
	o.Arrivals.Rate /= float64(o.Part.Of)
	if o.Out != "" {
		o.Out = filepath.Join(o.Out, o.Part.Dir())
	}
	return o
}

// checkTraces returns an error where parts would have no trace, because each trace is played once.
func (p Part) checkTraces(traces int, once bool) error {
	if once && p.Of > traces {
		return fmt.Errorf("part %v: %d traces, each played once, are fewer than parts: want at most %d parts, or a bound (a duration, requests, trees)", p, traces, traces)
	}
	return nil
}

// info returns what the results say of the part; nil: the load is not divided.
func (p Part) info(whole *Options) *measure.PartInfo {
	if !p.IsSet() {
		return nil
	}
	info := &measure.PartInfo{Number: p.Number, Of: p.Of, Lanes: whole.Concurrency, Requests: whole.Requests, Trees: whole.Trees}
	if whole.Meeting != nil {
		info.Meeting = whole.Meeting.ID()
	}
	return info
}

// divided are the arrivals of a part.
type divided struct {
	arrivals.Schedule
	part  Part
	begun bool
}

func (d *divided) Next() (at time.Duration, ok bool) {
	skip := d.part.Of - 1
	if !d.begun {
		skip, d.begun = d.part.Number, true
	}
	for range skip {
		if at, ok = d.Schedule.Next(); !ok {
			return at, ok
		}
	}
	return d.Schedule.Next()
}

// divide makes a plan that of a part. Its traces stay those of the whole load, which the dealer divides.
func (a *arrivalPlan) divide(p Part) {
	if p.several() && a.schedule != nil {
		a.schedule = &divided{Schedule: a.schedule, part: p}
	}
}

// laterDealer returns the dealer of what the lanes of a part take after their first trees, where d has dealt the first trees of the whole
// load. It deals the traces of the part's residue in the first pass of d, and those that its lanes have begun with; where each is
// dealt once, only those that d has left.
func (d *dealer) laterDealer(p Part, begun []int) *dealer {
	if !p.several() {
		return d
	}
	later := &dealer{order: d.order, seed: d.seed, once: d.once, ordered: true}
	n, has := len(d.traces), map[int]bool{}
	for k := range n {
		trace := d.traces[k]
		if d.order != Random {
			trace = d.at(k)
		}
		if p.has(k) && !(d.once && k < d.dealt) {
			later.traces, has[trace] = append(later.traces, trace), true
		}
	}
	if d.once {
		return later
	}
	for _, trace := range begun {
		if !has[trace] {
			later.traces, has[trace] = append(later.traces, trace), true
		}
	}
	later.dealt = d.dealt/n*len(later.traces) + p.Share(d.dealt%n)
	if d.order == Random {
		later.part, later.dealt = p, p.Share(d.dealt) // other draws than those of the other parts
	}
	return later
}

// ParsePart reads I/N, such as 0/4.
func ParsePart(text string) (Part, error) {
	number, of, ok := strings.Cut(text, "/")
	i, errI := strconv.Atoi(number)
	n, errN := strconv.Atoi(of)
	if !ok || errI != nil || errN != nil {
		return Part{}, errors.New("want I/N, such as 0/4 for the first of four parts, or auto")
	}
	p := Part{Number: i, Of: n}
	if p.IsSet() || i != 0 {
		if err := p.Validate(); err != nil {
			return Part{}, errors.New(strings.TrimPrefix(err.Error(), "part "+p.String()+": "))
		}
	}
	if !p.IsSet() {
		return Part{}, errors.New("no parts: want 1 or more")
	}
	return p, nil
}

// ranks are the variables by which engines tell a process which of how many it is, and how a process gets both.
var ranks = []struct{ number, of, both string }{
	{"SLURM_PROCID", "SLURM_NTASKS", "srun sets both"},
	{"JOB_COMPLETION_INDEX", "AGENTX_PARTS", "an Indexed Job sets the first, and its manifest the second, to its completions"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun sets both"},
	{"RANK", "WORLD_SIZE", "torchrun sets both"},
}

// PartOfEnvironment returns the part that the environment says. The error names what it lacks, or what contradicts: where it says none,
// also the other variables that the caller has looked for.
func PartOfEnvironment(lookup func(string) (string, bool), others ...string) (p Part, err error) {
	pairs, found := slices.Clone(others), []string{}
	var errs []error
	for _, r := range ranks {
		pairs = append(pairs, r.number+" and "+r.of)
		number, numbered := lookup(r.number)
		of, counted := lookup(r.of)
		switch {
		case !numbered && !counted:
			continue
		case !counted:
			errs = append(errs, fmt.Errorf("%s=%s without %s: want the number of parts there; %s", r.number, number, r.of, r.both))
			continue
		case !numbered:
			errs = append(errs, fmt.Errorf("%s=%s without %s: want the number of this part there, from 0; %s", r.of, of, r.number, r.both))
			continue
		}
		shown := fmt.Sprintf("%s=%s and %s=%s", r.number, number, r.of, of)
		q, err := ParsePart(number + "/" + of)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: want a number from 0, and one above it, at most %d", shown, maxParts))
			continue
		}
		if len(found) > 0 && q != p {
			errs = append(errs, fmt.Errorf("%s contradict %s: %s I/N says which part this is", shown, found[0], preset.Setting("part")))
		}
		if r.number == "SLURM_PROCID" {
			errs = append(errs, checkSlurm(lookup, q))
		}
		p, found = q, append(found, shown)
	}
	if len(found) == 0 && len(errs) == 0 {
		return Part{}, fmt.Errorf("the environment names no part: want %s", suggest.Either(pairs))
	}
	if err := errors.Join(errs...); err != nil {
		return Part{}, err
	}
	return p, nil
}

// checkSlurm returns what the environment of Slurm has against part p, which its SLURM_PROCID and SLURM_NTASKS name.
func checkSlurm(lookup func(string) (string, bool), p Part) error {
	_, job := lookup("SLURM_JOB_ID")
	_, step := lookup("SLURM_STEP_ID")
	inStep, counted := lookup("SLURM_STEP_NUM_TASKS")
	array, inArray := lookup("SLURM_ARRAY_TASK_COUNT")
	switch {
	case p.Of > 1 && job && !step:
		return fmt.Errorf("SLURM_NTASKS=%d without SLURM_STEP_ID: a batch script is one process, and srun starts the parts: want srun before the command", p.Of)
	case counted && inStep != strconv.Itoa(p.Of):
		return fmt.Errorf("SLURM_NTASKS=%d contradicts SLURM_STEP_NUM_TASKS=%s: %s I/N says which part this is", p.Of, inStep, preset.Setting("part"))
	case p.Of == 1 && inArray && array != "1":
		return fmt.Errorf("SLURM_NTASKS=1 in an array of %s (SLURM_ARRAY_TASK_COUNT): each of its jobs would play the whole load; want one job whose srun starts the parts, or no %s for a load each", array, preset.Setting("part"))
	}
	return nil
}

// arrayVariables say which task of an array of Slurm a process is.
var arrayVariables = []string{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"}

// BuilderOfEnvironment is PartOfEnvironment for a conversion, which also an array of Slurm may share out.
func BuilderOfEnvironment(lookup func(string) (string, bool)) (p Part, err error) {
	count, inArray := lookup("SLURM_ARRAY_TASK_COUNT")
	if !inArray {
		return PartOfEnvironment(lookup, strings.Join(arrayVariables[:2], ", ")+" and "+arrayVariables[2])
	}
	number := func(name string) (n int) {
		text, _ := lookup(name)
		n, wrong := strconv.Atoi(text)
		if wrong != nil && err == nil {
			err = fmt.Errorf("%s=%s with SLURM_ARRAY_TASK_COUNT=%s: want a number", name, text, count)
		}
		return n
	}
	id, first, of, step := number(arrayVariables[0]), number(arrayVariables[1]), number(arrayVariables[2]), 1
	if _, stepped := lookup("SLURM_ARRAY_TASK_STEP"); stepped {
		step = number("SLURM_ARRAY_TASK_STEP")
	}
	of, step = max(1, of), max(1, step)
	return Part{Number: max(0, id-first) / step % of, Of: of}, err // an array with gaps has other ids
}
