package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// harnessTr translates a command line of the harness.
func harnessTr(t *testing.T, line string, environ ...string) *Translation {
	t.Helper()
	source := sourceOf(t, line, environ...)
	source.Harness = true
	return Translate(source)
}

// The harness has the flags of the table but for those that are said, and one more.
func TestFlagsOfTheHarness(t *testing.T) {
	require.Equal(t, strings.Fields(fixtures.HarnessFlags()), slices.Sorted(slices.Values(HarnessFlags())))
	aiperf := strings.Fields(fixtures.AIPerfFlags())
	require.Len(t, slices.DeleteFunc(HarnessFlags(), func(name string) bool { return slices.Contains(aiperf, name) }), 1)
	for _, name := range harnessLacks {
		require.NotNil(t, flagNamed(name), name)
	}
}

// played is a command line of the harness that may be played, without what differs.
const played = "--model m --url h:1 --tokenizer builtin --public-dataset semianalysis_cc_traces_weka_062126 --output-artifact-dir out "

const (
	playedHead = "agentx replay hf://datasets/semianalysisai/cc-traces-weka-062126 --profile aiperf --preset agentx-1.0.12 --url http://h:1 --model m"
	playedTail = " --no-preflight --no-calibrate"
	playedOut  = " --out out --overwrite --report aiperf"
)

// The values of a scenario are those of agentx replay, which the line names and repeats none of. A flag takes the place of one.
func TestTranslateHarness(t *testing.T) {
	head, tail := playedHead+" --tokenizer o200k_base", playedTail+playedOut
	for _, c := range []struct{ name, flags, want string }{
		{"nothing", "", head + " --scenario agentx" + tail},
		{"lanes", "--concurrency 4", head + " --scenario agentx --concurrency 4" + tail},
		{"the scenario itself", "--scenario agentx --streaming", head + " --scenario agentx" + tail},
		{"values", "--benchmark-duration 900 --warmup-grace-period 5 --failed-request-threshold 0.5 --stats-interval 10 --slice-duration 2 --agentic-cache-warmup-duration 30 --benchmark-grace-period 3",
			head + " --scenario agentx --duration 900s --grace 3s --max-error-rate 0.5 --warmup duration=30s --warmup-grace 5s --slice-duration 2s --stats-interval 10s" + tail},
		{"entries", "--num-dataset-entries 5 --random-seed 7 --trace-idle-gap-cap-seconds 0 --trajectory-start-min-ratio 0.1 --warmup-requests-per-lane 3",
			playedHead + " --limit-traces 5 --trace-idle-cap 0s --seed 7 --tokenizer o200k_base --scenario agentx --start sampled --start-min-ratio 0.1 --warmup requests=3" + tail},
		{"a bound is no number of traces", "--request-count 9", head + " --scenario agentx --requests 9" + tail},
		{"third column", "--scenario=inferencex-agentx-mvp --random-seed 9 --use-server-token-count",
			playedHead + " --seed 9 --tokenizer o200k_base --scenario inferencex-agentx-mvp --tcp-user-timeout 30s --no-preflight --no-calibrate" + playedOut},
		{"third column with a number of traces", "--scenario inferencex-agentx-mvp --random-seed 9 --use-server-token-count --num-conversations 8",
			playedHead + " --trees 8 --limit-traces 8 --seed 9 --tokenizer o200k_base --scenario inferencex-agentx-mvp --tcp-user-timeout 30s --no-preflight --no-calibrate" + playedOut},
		{"server metrics", "--no-server-metrics --no-gpu-telemetry=false", head + " --scenario agentx --scrape off" + tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := harnessTr(t, played+c.flags)
			assert.Empty(t, errorsOf(tn))
			assert.Equal(t, c.want, tn.Line())
			if !strings.Contains(c.flags, "gpu") {
				assert.Empty(t, tn.Notes, "nothing is different")
			}
		})
	}
	drawn := harnessTr(t, played+"--scenario inferencex-agentx-mvp")
	assert.Contains(t, drawn.Line(), " --seed 9187343239835811861 ", "63 bits")
	assert.Contains(t, harnessTr(t, strings.Replace(played, "--output-artifact-dir out ", "", 1)+"--concurrency 8").Line(), " --out artifacts/m-openai-chat-concurrency8 ")
}

// Words up to -- decide whether the scenario is that of the harness, whatever they are.
//
//
func TestScenarioOfTheHarness(t *testing.T) {
	for args, want := range map[string]bool{
		"--model m": true, "--scenario x": false, "--scenario=x": false, "--config x": false, "--config=x": false, "-f x": false, "-fx": false,
		"--model m -- --scenario x": true, "--model --scenario": false, "--model -foo": false, "": true, "--configs x": true,
	} {
		tn := translation{Source: Source{Args: strings.Fields(args), Harness: true}, given: map[string]given{}}
		tn.takeScenario()
		assert.Equal(t, want, tn.inAgentX(), args)
	}
}

// What a scenario does not allow is told at once, in the words of the command line, as far as replay cannot see it.
func TestConflictsOfTheHarness(t *testing.T) {
	const local = "--model m --url h:1 --tokenizer builtin --output-artifact-dir out --input-file . --custom-dataset-type weka_trace "
	const localWords = "--scenario agentx: unknown_corpus: --input-file . is local: want the corpus of a name of --public-dataset, or --hf-weka-dataset semianalysisai/cc-traces-weka-062126: such as --public-dataset semianalysis_cc_traces_weka_062126"
	at := "--scenario agentx: timing: "
	for _, c := range []struct {
		line string
		want []string
	}{
		{local, []string{localWords}},
		{local + "--streaming=false --synthesis-max-isl 5", []string{
			"--scenario agentx: streaming: --streaming false: want streamed answers: leave it out",
			"--scenario agentx: input_truncation: --synthesis-max-isl 5: want every recorded request: leave it out", localWords,
		}},
		{played + "--request-rate 5 --arrival-pattern gamma --arrival-smoothness 2 --request-rate-ramp-duration 3", []string{at + "--request-rate 5: want requests at their recorded times: leave it out"}},
		{played + "--user-centric-rate 5 --num-users 3 --fixed-schedule", []string{
			at + "--user-centric-rate 5: want requests at their recorded times: leave it out", at + "--fixed-schedule: want requests at their recorded times: leave it out",
		}},
		{played + "--request-rate-series f", []string{at + "--request-rate-series f: want requests at their recorded times: leave it out"}},
		{"--model m --hf-weka-dataset o/n", []string{"--scenario agentx: unknown_corpus: --hf-weka-dataset o/n: " + localWords[strings.Index(localWords, "want"):]}},
		{"--model m --hf-weka-dataset semianalysisai/cc-traces-weka-062126", nil},
		{played + "--fixed-schedule=false --streaming", nil},
	} {
		tn := harnessTr(t, c.line)
		assert.Equal(t, c.want, errorsOf(tn), c.line)
		if c.want != nil {
			assert.Equal(t, tryOverride, tn.Problems[len(tn.Problems)-1].Try, "once, below all")
			assert.Len(t, slices.DeleteFunc(tn.Problems, func(p Problem) bool { return p.Try == "" }), 1)
		}
		over := harnessTr(t, c.line+" --unsafe-override")
		for _, e := range errorsOf(over) {
			assert.NotContains(t, e, "--scenario agentx: ", "what is not supported is no conflict")
		}
		assert.Contains(t, over.Line(), " --unsafe-override ")
	}
	assert.Equal(t, []string{"not supported: a run without --streaming: agentx reads answers as streams: add it"}, errorsOf(harnessTr(t, played+"--streaming=false --unsafe-override")))
	assert.Empty(t, errorsOf(harnessTr(t, local+"--scenario nope")), "agentx replay tells of it")
	nothing := errorsOf(harnessTr(t, "--model m --unsafe-override"))
	assert.Equal(t, []string{errNoRecording.Error()}, nothing)
}

func TestHarnessRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--per-chunk-usage":      "--per-chunk-usage: agentx-harness 1.0.12 does not have this flag",
		"--reset-kv-cache":       "--reset-kv-cache: agentx-harness 1.0.12 does not have this flag",
		"--no-streaming":         "--no-streaming: agentx-harness 1.0.12 does not have this flag",
		"--as aiperf-0.13":       "--as: agentx-harness 1.0.12 does not have this flag",
		"--concurency 4":         "--concurency: agentx-harness 1.0.12 does not have this flag",
		"--gpu-telemetry pynvml": "not supported: --gpu-telemetry pynvml: agentx collects none: leave it out",
		"--concurrency":          "--concurrency: want a value after it",
		"--warmup-requests-per-lane 3 --agentic-cache-warmup-duration 5": "--agentic-cache-warmup-duration and --warmup-requests-per-lane contradict each other: leave one of them out",
	} {
		assert.Contains(t, errorsOf(harnessTr(t, played+flags)), want, flags)
	}
	assert.Contains(t, errorsOf(harnessTr(t, "--model m --input-file nowhere")), "--input-file nowhere: there is no such file or directory")
	assert.Equal(t, "--streaming", harnessTr(t, played+"--no-streaming").Problems[0].Try)
}

// A variable that is given has precedence over those that the scenario sets.
func TestEnvironmentOfTheHarness(t *testing.T) {
	for environ, want := range map[string]string{
		"AIPERF_HTTP_TCP_USER_TIMEOUT=60000":                                          " --tcp-user-timeout 60s" + playedTail,
		"AIPERF_UI_REALTIME_METRICS_ENABLED=true":                                     " --scenario agentx" + playedTail,
		"AIPERF_UI_REALTIME_METRICS_ENABLED=false":                                    " --stats-interval 0" + playedTail,
		"AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT=0.01":                              " --scenario agentx" + playedTail,
		`AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS=["context length","","too (big)"]`: ` --overflow-words none --overflow-pattern 'context length' --overflow-pattern 'too \(big\)'` + playedTail,
		"AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS=[]":                                " --overflow-words none" + playedTail,
	} {
		tn := harnessTr(t, played, environ)
		assert.Contains(t, tn.Line(), want)
		assert.Empty(t, errorsOf(tn))
		assert.Empty(t, tn.Notes)
	}
	tn := harnessTr(t, played+"--scenario inferencex-agentx-mvp", "AIPERF_HTTP_TCP_USER_TIMEOUT=60000")
	assert.Equal(t, 1, strings.Count(tn.Line(), "tcp-user-timeout"))
	tn = harnessTr(t, played, "AIPERF_X=1", "AIPERF_A_B=1")
	assert.Equal(t, []string{"not read: AIPERF_A_B, AIPERF_X"}, tn.Notes)
	tn = harnessTr(t, played, "AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS=a,b", "AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT=0.2")
	assert.Equal(t, []string{
		"not supported: AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT=0.2: a run with more overflows than 0.01 of its requests is not valid: leave it out",
		"AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS: want a JSON list of texts",
	}, errorsOf(tn))
}

// The arguments for the results have no secrets, however they were given.
func TestLaunchHasNoSecrets(t *testing.T) {
	tn := harnessTr(t, `--model m --url http://u:pass@h:1 v:pass@i:2/v1 --api-key s3cret --header 'X-A: hush' X-B:quiet '{"X-C": "still"}' --concurrency 4 --extra-inputs ignore_eos:true`)
	assert.Equal(t, []string{
		"profile", "--model", "m", "--url", "<redacted>", "<redacted>", "--api-key", "<redacted>", "--header", "X-A: <redacted>", "X-B:<redacted>", `{"X-C": "<redacted>"}`,
		"--concurrency", "4", "--extra-inputs", "ignore_eos:true",
	}, tn.Launch())
	for typed, want := range map[string]string{
		"--api-key k --custom-dataset-type weka_trace":                    "--api-key <redacted> --custom-dataset-type weka_trace", // it stands in other words, too
		"--api-key=k --concurrency 4":                                     "--api-key=<redacted> --concurrency 4",
		"--url http://h:1?key=a --endpoint /v1/chat/completions":          "--url <redacted> --endpoint /v1/chat/completions",
		`'--header={"X-A":"a\"b"}' -HX-B:c,X-C:d`:                         `--header={"X-A": "<redacted>"} -HX-B:<redacted>,X-C:<redacted>`,
		"--server-metrics http://u:p@h:1/metrics i:2/m --url=h:1,g:1?k=b": "--server-metrics <redacted> i:2/m --url=h:1,<redacted>",
	} {
		assert.Equal(t, "profile "+want, strings.Join(harnessTr(t, typed).Launch(), " "))
	}
}
