package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/replay"
)

// builderFlag says where among the files of an input a builder begins, where several build it.
type builderFlag struct{ value partValue }

func (f *builderFlag) register(cmd *cobra.Command) {
	cmd.Flags().Var(&f.value, "part", "I/N: of N processes that convert the same input into one cache root, this one begins at file I/N of it; any of them builds any file that no other builds (default: all begin at the first); auto: as an array of Slurm, or what replay --part auto reads, says")
}

// builder returns the value of the flag. The error is about the environment that auto reads.
func (f *builderFlag) builder() (convert.Builder, error) {
	p := f.value.Part
	if f.value.auto {
		var err error
		if p, err = builderOfEnvironment(os.LookupEnv); err != nil {
			return convert.Builder{}, usageError{fmt.Errorf("--part auto: %w", err)}
		}
	}
	return convert.Builder{Number: p.Number, Of: p.Of}, nil
}

// arrayVariables say which task of an array of Slurm a process is.
var arrayVariables = []string{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"}

// builderOfEnvironment returns the part that an array of Slurm says, else that of partOfEnvironment.
func builderOfEnvironment(lookup func(string) (string, bool)) (p replay.Part, err error) {
	count, inArray := lookup("SLURM_ARRAY_TASK_COUNT")
	if !inArray {
		return partOfEnvironment(lookup, strings.Join(arrayVariables[:2], ", ")+" and "+arrayVariables[2])
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
	return replay.Part{Number: max(0, id-first) / step % of, Of: of}, err // an array with gaps has other ids
}
