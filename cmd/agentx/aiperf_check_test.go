package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// agentx aiperf profile prints no command that agentx replay refuses. It names the flags of AIPerf, all that are wrong.
func TestRefusedCommandsAreNotPrinted(t *testing.T) {
	profile := append([]string{"aiperf", "profile", "--dry-run"}, words(t, base)...)
	r := runs(append(profile, "--profile-export-prefix", "../x")...)
	assert.Equal(t, ran{2, "", "agentx: --profile-export-prefix ../x: want the beginning of a name, without a directory\n"}, r)
	r = runs(append(profile, words(t, "--profile-export-prefix=run --isl 4 --concurrency 0 --cache-bust first-turn --trajectory-start-min-ratio 0.9 --wait-for-model-mode all"+
		" --header 'Host: s3cret' --slice-duration 0.0000001")...)...)
	assert.Equal(t, 2, r.status)
	assert.Empty(t, r.stdout)
	lines := strings.Split(strings.TrimSpace(r.problems), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"agentx: --cache-bust first-turn: want off, first_turn_prefix, system_prefix, first_turn_suffix or system_suffix; did you mean first_turn_prefix?",
		"agentx: --concurrency 0: want 1 to 65536, several with commas between, none twice, or auto:FROM-TO",
		"agentx: --header: header Host is set by the client itself",
		`agentx: --profile-export-prefix run: the files of a run have this name, and would be overwritten: want another, such as "run1"`,
		"agentx: --slice-duration: want at least 1ms: every slice has all metrics",
		"agentx: --trajectory-start-min-ratio 0.9: more than StartMaxRatio=0.75 (default): want at most that",
		"agentx: not supported: --isl 4: it makes synthetic prompts; agentx plays recordings: leave it out",
		"agentx: not supported: --wait-for-model-mode all: want inference, models or both",
	}, lines)
}

// A request has one field with the key. That of --header has precedence.
func TestKeyAndHeaderOfAIPerf(t *testing.T) {
	for flags, want := range map[string]string{
		"--api-key K": ` --header 'Authorization: Bearer '"$AIPERF_API_KEY"`,
		"--api-key K --header 'authorization: Z'":                          ` --header 'authorization: '"$AIPERF_HEADER_AUTHORIZATION"`,
		"--api-key K --endpoint-type messages --header 'authorization: Z'": ` --payload anthropic --header 'x-api-key: '"$AIPERF_API_KEY" --header 'authorization: '"$AIPERF_HEADER_AUTHORIZATION"`,
		"--api-key ''": "",
	} {
		tn := tr(t, base+flags)
		assert.Empty(t, errorsOf(tn))
		assert.Equal(t, baseHead+want+baseData+baseSeed+baseLoad+baseTail, tn.line())
		note := "--api-key: Authorization of --header takes its place; AIPerf sends the key"
		assert.Equal(t, strings.Contains(want, "AUTHORIZATION") && !strings.Contains(want, "x-api-key"), slices.Contains(tn.notes, note))
	}
}

// What the scenario locks is told in the words of AIPerf, with what to try.
func TestConflictsNameFlagsOfAIPerf(t *testing.T) {
	line := append([]string{"aiperf", "profile", "--dry-run"}, words(t, base)...)
	r := runs(append(line, "--scenario", "inferencex-agentx-mvp", "--benchmark-duration", "12")...)
	assert.Equal(t, 2, r.status)
	assert.Contains(t, r.problems, "duration: Duration is 12s: want at least 900s: leave out --benchmark-duration, for 1800s\n")
	assert.Contains(t, r.problems, "early_bound: --request-count may end the run before its duration: want no bound beside --benchmark-duration: leave it out\n")
	assert.Contains(t, r.problems, "try: --unsafe-override starts such a run; its result is not valid\n")
}
