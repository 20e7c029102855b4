package replay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

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
			errs = append(errs, fmt.Errorf("%s contradict %s: --part I/N says which part this is", shown, found[0]))
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
		return fmt.Errorf("SLURM_NTASKS=%d contradicts SLURM_STEP_NUM_TASKS=%s: --part I/N says which part this is", p.Of, inStep)
	case p.Of == 1 && inArray && array != "1":
		return fmt.Errorf("SLURM_NTASKS=1 in an array of %s (SLURM_ARRAY_TASK_COUNT): each of its jobs would play the whole load; want one job whose srun starts the parts, or no --part for a load each", array)
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
