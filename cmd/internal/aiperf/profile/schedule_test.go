package profile

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mooncakeFile writes rows, and returns a command line that plays them.
func mooncakeFile(t *testing.T, rows ...string) string {
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(rows, "\n")+"\n"), 0o600))
	return strings.Replace(base, "traces", name, 1) + "--custom-dataset-type mooncake_trace "
}

// Rows with and without timestamps, in sessions or not.
var (
	timedRows   = []string{"", `{"timestamp": 4000, "input_length": 5}`, `{"timestamp": 1000, "input_length": 5}`, `{"timestamp": 9000, "input_length": 5}`}
	brokenRows  = []string{`{"timestamp": 0.5, "input_length": 5}`, `{"timestamp": 7, "input_length": 5}`}
	plainRows   = []string{`{"input_length": 5}`, `{"input_length": 5}`}
	timedTurns  = []string{`{"session_id": "a", "timestamp": 0, "input_length": 5}`, `{"session_id": "b", "timestamp": 1, "input_length": 5}`, `{"session_id": "a", "timestamp": 7, "input_length": 5}`}
	gappedTurns = []string{`{"session_id": "a", "timestamp": 0, "input_length": 5}`, `{"session_id": "a", "delay": 7, "input_length": 5}`}
	mixedTurns  = []string{`{"session_id": "a", "timestamp": 0, "input_length": 5}`, `{"session_id": "a", "delay": 7, "timestamp": 7, "input_length": 5}`}
)

// A load of AIPerf's on Mooncake rows, as agentx replay has it.
func TestTranslateSchedulesOfAIPerf(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []string
		flags string
		want  string   // what the line has after the seed, before the block size
		notes []string // beginnings
	}{
		{"timestamps choose", timedRows, "", "--requests 5 --arrivals recorded", nil},
		{"asked for", timedRows, "--fixed-schedule --fixed-schedule-auto-offset --concurrency 4", "--concurrency 4 --requests 5 --arrivals recorded", nil},
		{"lanes", timedRows, "--no-fixed-schedule", "--requests 5 --arrivals lanes", nil},
		{"no timestamps", plainRows, "", "--requests 5 --arrivals lanes", nil},
		{"a scenario", timedRows, "--scenario inferencex-agentx-mvp", "--scenario inferencex-agentx-mvp --requests 5 --arrivals lanes", nil},
		{"window", timedRows, "--fixed-schedule --fixed-schedule-start-offset 1500 --fixed-schedule-end-offset 9000", "--requests 5 --from 500ms --to 8001ms --arrivals recorded",
			[]string{"--fixed-schedule-start-offset 1500: the first request goes at once"}},
		{"window from the first row", timedRows, "--fixed-schedule --fixed-schedule-start-offset 1000", "--requests 5 --arrivals recorded", nil},
		{"window of fractions", brokenRows, "--fixed-schedule --fixed-schedule-end-offset 7", "--requests 5 --to 6.500001ms --arrivals recorded", nil},
		{"from the clock of the file", timedRows, "--fixed-schedule --fixed-schedule-auto-offset=false", "--requests 5 --arrivals recorded", []string{"--fixed-schedule-auto-offset=false: the first request goes at once"}},
		{"turns at timestamps", timedTurns, "", "--requests 5 --arrivals recorded --turns absolute", nil},
		{"turns after delays", gappedTurns, "", "--requests 5 --arrivals recorded", nil},
		{"rate", plainRows, "--request-rate 2.5", "--requests 5 --rate 2.5 --rate-of requests", []string{"--request-rate 2.5: the first request goes at once, in AIPerf after one gap; gaps have"}},
		{"rate of timed rows", timedRows, "--no-fixed-schedule --request-rate 5 --request-rate-mode constant --concurrency 3", "--concurrency 3 --requests 5 --rate 5 --rate-of requests --arrival constant",
			[]string{"--request-rate 5: the first request goes at once, in AIPerf after one gap", "--concurrency 3: a request beyond it waits here for its turn"}},
		{"gamma", plainRows, "--request-rate 5 --arrival-pattern gamma", "--requests 5 --rate 5 --rate-of requests --arrival gamma:1", []string{"--request-rate 5: "}},
		{"gamma by its shape", plainRows, "--request-rate 5 --vllm-burstiness 0.5 --request-rate-ramp-duration 9", "--requests 5 --rate 5 --rate-of requests --arrival gamma:0.5 --ramp 9s",
			[]string{"--request-rate 5: ", "--request-rate-ramp-duration 9: the rate grows without steps"}},
		{"pattern without a rate", plainRows, "--arrival-pattern constant", "--requests 5 --arrivals lanes", []string{"--arrival-pattern constant: nothing without --request-rate, as in AIPerf"}},
		{"ramp of lanes", plainRows, "--concurrency 5 --concurrency-ramp-duration 10", "--concurrency 5 --requests 5 --ramp 12.5s --arrivals lanes", nil},
		{"ramp of one lane", plainRows, "--concurrency-ramp-duration 10", "--requests 5 --arrivals lanes", []string{"--concurrency-ramp-duration 10: one lane opens at once"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := tr(t, mooncakeFile(t, c.rows...)+c.flags)
			require.Empty(t, errorsOf(tn))
			_, rest, _ := strings.Cut(tn.Line(), baseSeed+" ")
			got, rules, _ := strings.Cut(rest, " --set block_size=512")
			assert.Equal(t, c.want, got)
			assert.Equal(t, strings.Contains(c.name, "turns"), strings.Contains(rules, " --set session_rows=live"))
			require.Len(t, tn.Notes, len(c.notes)+1, tn.Notes)
			assert.Equal(t, "--num-dataset-entries 3: AIPerf plays all of a file of mooncake_trace, and so does agentx", tn.Notes[0])
			for k, want := range c.notes {
				assert.True(t, strings.HasPrefix(tn.Notes[k+1], want), tn.Notes[k+1])
			}
		})
	}
}

func TestTranslateSchedulesOfAIPerfRefuses(t *testing.T) {
	for _, c := range []struct {
		rows        []string
		flags, want string
	}{
		{timedRows, "--request-rate 5", "--request-rate and rows with timestamps: AIPerf sends those at their times: leave one of them out (--no-fixed-schedule ignores the timestamps)"},
		{plainRows, "--fixed-schedule --request-rate 5", "--request-rate and --fixed-schedule contradict each other: leave one of them out"},
		{timedRows, "--fixed-schedule --no-fixed-schedule", "--no-fixed-schedule and --fixed-schedule contradict each other: leave one of them out"},
		{timedRows, "--fixed-schedule --fixed-schedule-auto-offset --fixed-schedule-start-offset 3", "--fixed-schedule-auto-offset and --fixed-schedule-start-offset contradict each other: leave one of them out"},
		{timedRows, "--fixed-schedule-auto-offset", "--fixed-schedule-auto-offset: works only with --fixed-schedule"},
		{timedRows, "--fixed-schedule-end-offset 5", "--fixed-schedule-end-offset: works only with --fixed-schedule"},
		{timedRows, "--fixed-schedule --fixed-schedule-end-offset 5.5", "--fixed-schedule-end-offset 5.5: want a whole number of milliseconds, 0 or more"},
		{timedRows, "--fixed-schedule --fixed-schedule-end-offset 999", "--fixed-schedule-end-offset 999: the first row has the timestamp 1000: want that or more"},
		{[]string{"\x28\xb5\x2f\xfd"}, "--fixed-schedule --fixed-schedule-end-offset 999", "can be read: want lines of JSON, not compressed"},
		{plainRows, "--fixed-schedule --fixed-schedule-end-offset 999", "has no timestamp to count from: want one file with timestamps"},
		{timedTurns, "--fixed-schedule --fixed-schedule-end-offset 999", "not supported: --fixed-schedule-end-offset 999: AIPerf cuts sessions at a window, agentx plays a session whole or not at all: leave it out"},
		{mixedTurns, "", "some later turns of sessions have a timestamp, others a delay, and agentx plays all by one of the two"},
		{timedTurns, "--no-fixed-schedule --request-rate 5", "not supported: --request-rate 5: AIPerf counts the later turns of a session too"},
		{plainRows, "--request-rate 5 --scenario inferencex-agentx-mvp", "--request-rate and --scenario contradict each other: leave one of them out"},
		{plainRows, "--request-rate 5,10", "not supported: --request-rate 5,10: agentx plays a list of --concurrency alone: want one value"},
		{plainRows, "--request-rate 0", "--request-rate 0: want a number above 0"},
		{plainRows, "--request-rate off", "--request-rate off: want a number above 0"},
		{plainRows, "--request-rate 5 --arrival-pattern uniform", "not supported: --arrival-pattern uniform: want poisson, gamma, constant or concurrency_burst"},
		{plainRows, "--request-rate 5 --arrival-pattern concurrency_burst", "not supported: --arrival-pattern concurrency_burst with --request-rate: AIPerf draws poisson gaps for it"},
		{plainRows, "--request-rate 5 --arrival-pattern poisson --arrival-smoothness 2", "--arrival-smoothness: works only with --request-rate and --arrival-pattern gamma"},
		{plainRows, "--arrival-smoothness 2", "--arrival-smoothness: works only with --request-rate and --arrival-pattern gamma"},
		{plainRows, "--request-rate 5 --arrival-smoothness 0", "--arrival-smoothness 0: want a number above 0"},
		{plainRows, "--request-rate-ramp-duration 5", "--request-rate-ramp-duration: works only with --request-rate"},
		{plainRows, "--request-rate 5 --request-rate-ramp-duration 0", "--request-rate-ramp-duration 0: want a number of seconds above 0"},
		{plainRows, "--concurrency 4 --concurrency-ramp-duration 0", "--concurrency-ramp-duration 0: want a number of seconds above 0"},
		{plainRows, "--concurrency 4,8 --concurrency-ramp-duration 5", "not supported: --concurrency-ramp-duration 5 with --concurrency 4,8: every part would have a ramp of its own: want one value"},
		{timedRows, "--concurrency 4 --concurrency-ramp-duration 5", "not supported: --concurrency-ramp-duration 5: --concurrency is a cap where sessions begin on their own, and it does not grow: leave it out"},
		{plainRows, "--user-centric-rate 5 --num-users 3", "not supported: --user-centric-rate 5: its users begin each turn a set time after the one before"},
		{plainRows, "--request-rate-series x", "not supported: --request-rate-series x: agentx has one rate"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			assert.Contains(t, strings.Join(errorsOf(tr(t, mooncakeFile(t, c.rows...)+c.flags)), "\n"), c.want)
		})
	}
}

// AIPerf looks at timestamps where the kind of the file is given; agentx finds the kind in the rows.
func TestTimedRowsWithoutKind(t *testing.T) {
	tn := tr(t, strings.Replace(mooncakeFile(t, timedRows...), "--custom-dataset-type mooncake_trace ", "", 1))
	require.Empty(t, errorsOf(tn))
	assert.Contains(t, tn.Line(), " --arrivals lanes --set block_size=512 ")
	assert.Contains(t, tn.Notes, "no --custom-dataset-type: AIPerf does not look at the timestamps of the rows then; --fixed-schedule sends the rows at them")
	tn = tr(t, strings.Replace(mooncakeFile(t, timedRows...), "--custom-dataset-type mooncake_trace ", "--fixed-schedule ", 1))
	require.Empty(t, errorsOf(tn))
	assert.Contains(t, tn.Line(), " --arrivals recorded ")
	assert.False(t, strings.Contains(tr(t, mooncakeFile(t, timedRows...)+"--isl-block-size 16").Line(), "block_size=512"))
	assert.Empty(t, errorsOf(tr(t, strings.Replace(base, "traces", filepath.Join(t.TempDir(), "absent.jsonl"), 1)+"--custom-dataset-type mooncake_trace")))
}

// Without a bound AIPerf sends 10 requests, but a schedule to its end.
func TestScheduleHasItsOwnBound(t *testing.T) {
	line := strings.Replace(mooncakeFile(t, timedRows...), "--request-count 5 ", "", 1)
	assert.False(t, strings.Contains(tr(t, line).Line(), "--requests"))
	assert.Contains(t, tr(t, line+"--no-fixed-schedule --request-rate 5").Line(), " --requests 10 ")
}

// The directory of the results has the name that AIPerf gives it.
func TestScheduleNamesItsDirectory(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                     "m-openai-chat-fixed_schedule",
		"--concurrency 4":                      "m-openai-chat-fixed_schedule",
		"--no-fixed-schedule":                  "m-openai-chat-concurrency1",
		"--no-fixed-schedule --request-rate 5": "m-openai-chat-request_rate5.0",
		"--no-fixed-schedule --request-rate 0.5 --concurrency 4": "m-openai-chat-concurrency4-request_rate0.5",
	} {
		line := strings.Replace(mooncakeFile(t, timedRows...), "--output-artifact-dir out ", "", 1)
		assert.Contains(t, tr(t, line+flags).Line(), " --out artifacts/"+want+" ")
	}
}

func TestRowsOfZippedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows.jsonl.gz")
	f, err := os.Create(name)
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write([]byte(strings.Join(timedRows, "\n") + "\nnot JSON\n{}\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	tn := translation{given: map[string]given{"--input-file": {"--input-file", []string{name}}}}
	assert.Equal(t, rowTimes{count: 3, longest: 1, first: 1000, whole: true}, *tn.rows())
	assert.Contains(t, tr(t, strings.Replace(base, "traces", name, 1)).Line(), " --arrivals lanes ", "it is Mooncake's")
}
