package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
)

// The environment of an engine says which part a process is. What it lacks, and what contradicts, is named.
func TestPartOfTheEnvironment(t *testing.T) {
	for environment, want := range map[string]string{
		"SLURM_PROCID=3 SLURM_NTASKS=4":                     "3/4",
		"JOB_COMPLETION_INDEX=0 AGENTX_PARTS=2":             "0/2",
		"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2":     "1/2",
		"RANK=15 WORLD_SIZE=16":                             "15/16",
		"RANK=1 WORLD_SIZE=2 SLURM_PROCID=1 SLURM_NTASKS=2": "1/2",
		"":                        "names no part: want SLURM_PROCID and SLURM_NTASKS, JOB_COMPLETION_INDEX and AGENTX_PARTS, OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE or RANK and WORLD_SIZE",
		"JOB_COMPLETION_INDEX=1":  "JOB_COMPLETION_INDEX=1 without AGENTX_PARTS",
		"WORLD_SIZE=2":            "WORLD_SIZE=2 without RANK",
		"RANK=2 WORLD_SIZE=2":     "RANK=2 and WORLD_SIZE=2: want a number from 0",
		"RANK=a WORLD_SIZE=2":     "RANK=a and WORLD_SIZE=2: want a number from 0",
		"RANK=0 WORLD_SIZE=65537": "RANK=0 and WORLD_SIZE=65537: want a number from 0, and one above it, at most 65536",
		"SLURM_PROCID=0 SLURM_NTASKS=2 RANK=1 WORLD_SIZE=2":                                                            "RANK=1 and WORLD_SIZE=2 contradict SLURM_PROCID=0 and SLURM_NTASKS=2",
		"SLURM_PROCID=0 SLURM_NTASKS=2 RANK=0 WORLD_SIZE=4":                                                            "contradict",
		"SLURM_PROCID=0 SLURM_NTASKS=2 OMPI_COMM_WORLD_RANK=0":                                                         "OMPI_COMM_WORLD_RANK=0 without OMPI_COMM_WORLD_SIZE",
		"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_ARRAY_TASK_COUNT=4": "1/2",
		"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=7 SLURM_ARRAY_TASK_COUNT=1":                                        "0/1",
		"SLURM_PROCID=0 SLURM_JOB_ID=7":                                                                                "SLURM_PROCID=0 without SLURM_NTASKS: want the number of parts there; srun sets both",
		"SLURM_NTASKS=3 SLURM_JOB_ID=7":                                                                                "SLURM_NTASKS=3 without SLURM_PROCID: want the number of this part there, from 0; srun sets both",
		"SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_JOB_ID=7":                                                                 "a batch script is one process, and srun starts the parts",
		"SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=2":                                                         "SLURM_NTASKS=3 contradicts SLURM_STEP_NUM_TASKS=2",
		"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 SLURM_ARRAY_TASK_COUNT=4":                                "SLURM_NTASKS=1 in an array of 4",
	} {
		p, err := replay.PartOfEnvironment(environmentOf(environment))
		if err != nil {
			require.ErrorContains(t, err, want, environment)
			require.False(t, p.IsSet(), environment)
			continue
		}
		require.Equal(t, want, p.String(), environment)
	}
}

// A builder is the task of an array, counted from its first, or else the part that the environment says.
func TestBuilderOfTheEnvironment(t *testing.T) {
	for environment, want := range map[string]string{
		"SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_COUNT=3":                               "1/3",
		"SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_COUNT=3 SLURM_PROCID=0 SLURM_NTASKS=1": "1/3",
		"SLURM_ARRAY_TASK_ID=10 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_STEP=5":      "2/3",
		"SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_STEP=1":       "2/3",
		"SLURM_ARRAY_TASK_COUNT=3":              "SLURM_ARRAY_TASK_ID= with SLURM_ARRAY_TASK_COUNT=3: want a number",
		"JOB_COMPLETION_INDEX=1 AGENTX_PARTS=2": "1/2",
		"JOB_COMPLETION_INDEX=1":                "JOB_COMPLETION_INDEX=1 without AGENTX_PARTS",
		"":                                      "names no part: want SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_MIN and SLURM_ARRAY_TASK_COUNT, SLURM_PROCID and SLURM_NTASKS, ",
	} {
		p, err := replay.BuilderOfEnvironment(environmentOf(environment))
		if err != nil {
			require.ErrorContains(t, err, want, environment)
			continue
		}
		require.Equal(t, want, p.String(), environment)
	}
}

// environmentOf returns the lookup of an environment of NAME=VALUE, with spaces between.
func environmentOf(text string) func(string) (string, bool) {
	set := map[string]string{}
	for _, v := range strings.Fields(text) {
		name, value, _ := strings.Cut(v, "=")
		set[name] = value
	}
	return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
}

// A part that contradicts the rest of the command line is refused, with everything that is wrong.
func TestPartRefusesWhatItContradicts(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for line, want := range map[string]string{
		"--part 0/2 --concurrency 2":                                                                     "--part 0/2: say --out",
		"--part 2/2 --out o":                                                                             "--part 2/2: number 2: want 0 to 1, the first part is 0",
		"--part 0/0 --out o":                                                                             "--part 0/0: no parts: want 1 or more",
		"--part aut --out o":                                                                             "--part aut: want I/N, such as 0/4 for the first of four parts, or auto",
		"--part 0/2 --out o --concurrency 2,4":                                                           "--part 0/2 and --concurrency 2,4: the parts play one load",
		"--part 0/2 --out o --concurrency auto --slo ttft.p95<1s":                                        "--part 0/2 and --concurrency auto: parts do not search",
		"--part 0/2 --out o --concurrency 2 --repeat 3":                                                  "--part 0/2 and --repeat 3: the parts play one load, once",
		"--part 0/2 --out o":                                                                             "--part 0/2 and --concurrency 1: this number is shared by all parts, and leaves some without any: want at least 2",
		"--part 0/4 --out o --concurrency 8 --requests 3":                                                "--requests 3: this number is shared by all parts",
		"--part 0/4 --out o --concurrency 8 --trees 3":                                                   "--trees 3: this number is shared by all parts",
		"--part 0/2 --out o --concurrency 8 --reset-cache":                                               "add --meet or --start-at",
		"--part 0/2 --out o --concurrency 8 --meet n0":                                                   "--meet n0: want HOST:PORT, as all parts reach part 0",
		"--part 0/2 --out o --concurrency 8 --meet :7000":                                                "--meet :7000: want HOST:PORT",
		"--part 0/2 --out o --concurrency 8 --meet n0:0":                                                 "--meet n0:0: want HOST:PORT",
		"--part 0/2 --out o --concurrency 8 --meet n0:7000 --meet-timeout 0":                             "--meet-timeout 0: want a duration above 0",
		"--meet n0:7000":                                                                                 "--meet n0:7000: --part is missing: say which part of the load this is",
		"--part 0/2 --out o --concurrency 8 --meet n0:7000 --start-at " + soon:                           "--meet n0:7000 and --start-at " + soon + ": both say when the parts begin: leave one of them out",
		"--part 0/2 --out o --concurrency 8 --reset-cache --meet n0:7000":                                "",
		"--part 0/2 --out o --concurrency 8 --meet none":                                                 "",
		"--part 0/2 --out o --concurrency 8 --start-at noon":                                             "--start-at noon: want a time such as",
		"--part 0/2 --out o --concurrency 8 --start-at 2020-01-01T00:00:00Z":                             "ago by the clock of this machine",
		"--part 0/2 --out o --concurrency 8 --start-at 2999-01-01T00:00:00Z":                             "want at most 24h0m0s",
		"--concurrency 8 --repeat 2 --start-at " + soon:                                                  "the runs of a list cannot all begin then",
		"--part 1/2 --out o --concurrency 8 --reset-cache --start-at " + soon:                            "",
		"--part 1/2 --out o --rate 3 --start-at " + soon:                                                 "",
		"--part 1/2 --out o --concurrency 8 --scenario inferencex-agentx-mvp --unsafe-override":          "--part 1/2 and --scenario: the scenario would draw another seed for each part: want --seed N, the same for all",
		"--part 1/2 --out o --concurrency 8 --scenario inferencex-agentx-mvp --unsafe-override --seed 7": "",
		"--part 0/1 --out o --concurrency 8 --scenario inferencex-agentx-mvp --unsafe-override":          "",
	} {
		var out, problems strings.Builder
		status := run(append([]string{"replay", "--print-config"}, strings.Fields(line)...), nil, &out, &problems)
		if want == "" {
			require.Zero(t, status, problems.String())
			continue
		}
		require.Equal(t, exitUsage, status, line)
		require.Contains(t, problems.String(), want, line)
	}
}

// A directory that has parts is refused to a run that is none. It is not said of a part that is not known yet, nor that --overwrite helps.
func TestOutWithPartsOfALoad(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "part-00001-of-00003"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "summary.json"), []byte("{}"), 0o666))
	problemsOf := func(flags ...string) (string, int) {
		var out, problems strings.Builder
		status := run(append([]string{"replay", "--concurrency", "8", "--out", dir}, flags...), nil, &out, &problems)
		return problems.String(), status
	}
	problems, status := problemsOf("--print-config")
	require.Equal(t, exitUsage, status)
	require.Equal(t, "agentx: --out "+dir+": it holds part-00001-of-00003, a part of a load: choose a different directory, or remove the parts\n", problems)
	problems, status = problemsOf("--print-config", "--part", "auto")
	require.Zero(t, status, problems)
	t.Setenv("RANK", "2")
	problems, status = problemsOf("demo", "--url", "http://127.0.0.1:1", "--model", "m", "--part", "auto")
	require.Equal(t, exitUsage, status)
	require.Contains(t, problems, "RANK=2 without WORLD_SIZE")
	require.NotContains(t, problems, "a part of a load")
}
