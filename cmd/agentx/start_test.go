package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostAtStart is how many allocations a package may make before main runs, for all verbs, which need it or not.
const mostAtStart = 160

// moreAtStart are packages that make more.
var moreAtStart = map[string]int{
	"github.com/agentx/agentx/cmd/internal/aiperf/profile": 400, // the table of AIPerf's flags
}

// What a verb alone needs is made when it is first used, not at the start of every run.
func TestStartMakesLittle(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^init (github\.com/agentx/agentx/\S+) @.* (\d+) allocs$`)
	found := line.FindAllStringSubmatch(string(out), -1)
	require.Greater(t, len(found), 30)
	for _, m := range found {
		allocations, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		most := max(mostAtStart, moreAtStart[m[1]])
		if m[1] == "github.com/agentx/agentx/cmd/agentx" { // with its tests
			continue
		}
		require.LessOrEqual(t, allocations, most, m[1])
	}
}
