package profile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/synth"
)

// tr translates a command line, as a shell splits it, with the environment NAME=VALUE....
func tr(t *testing.T, line string, environ ...string) *Translation {
	t.Helper()
	return Translate(sourceOf(t, line, environ...))
}

// sourceOf returns what tr translates.
func sourceOf(t *testing.T, line string, environ ...string) Source {
	t.Helper()
	source := Source{Args: words(t, line), Environ: map[string]string{}, Random: strings.NewReader("\xff\x00\x00\x00\x00\x00\x00\x2a")}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		source.Environ[name] = value
	}
	source.Check = func(string, []Setting) []Problem { return nil }
	return source
}

// words splits a line as a shell does.
func words(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+line).Output()
	require.NoError(t, err, line)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// errorsOf lists what is wrong.
func errorsOf(tn *Translation) (list []string) {
	for _, err := range tn.Problems {
		list = append(list, err.Error())
	}
	return list
}

// base is a command line of a run, without what differs.
const base = "--model m --url http://h:1 --streaming --input-file traces --use-server-token-count --tokenizer builtin --random-seed 7 --request-count 5 --num-dataset-entries 3 --output-artifact-dir out "

const (
	baseHead = "agentx replay traces --profile aiperf --preset aiperf-0.13 --url http://h:1 --model m"
	baseData = " --limit-traces 3"
	baseSeed = " --seed 7 --tokenizer o200k_base"
	baseLoad = " --requests 5"
	baseTail = " --no-ignore-eos --marker off --out out --overwrite --report aiperf"

	otherTail = " --no-ignore-eos --marker off --tcp-user-timeout 30s --out out --overwrite --report aiperf" // of agentx-1.0.12
)

func TestTranslateAIPerf(t *testing.T) {
	for _, c := range []struct{ name, flags, want string }{
		{"nothing", "", baseHead + baseData + baseSeed + baseLoad + baseTail},
		{"servers", "", baseHead + baseData + baseSeed + baseLoad + baseTail},
		{"wire", "--endpoint v1/chat/completions --request-timeout-seconds 2.5 --use-legacy-max-tokens --per-chunk-usage --connection-reuse-strategy sticky_user_sessions --session-header X-S",
			"agentx replay traces --profile aiperf --preset aiperf-0.13 --url http://h:1/v1/chat/completions --model m --timeout 2.5s --correlation-header X-S --max-tokens-field max_tokens --per-chunk-usage --connection-reuse sticky-user-sessions" + baseData + baseSeed + baseLoad + baseTail},
		{"messages", "--endpoint-type messages", baseHead + " --payload anthropic" + baseData + baseSeed + baseLoad + baseTail},
		{"completions", "--endpoint-type completions", baseHead + " --payload text" + baseData + baseSeed + baseLoad + baseTail},
		{"before", "--wait-for-model-timeout 60 --wait-for-model-mode both --wait-for-model-interval 1 --reset-kv-cache --reset-kv-cache-timeout-seconds 9 --reset-kv-cache-path /flush",
			baseHead + " --wait-ready 60s --wait-ready-mode both --wait-ready-interval 1s --reset-cache --reset-cache-timeout 9s --reset-cache-path flush" + baseData + baseSeed + baseLoad + baseTail},
		{"view", "--max-context-length 9 --ignore-trace-delays --inter-turn-delay-cap-seconds 1 --system-idle-gap-cap-seconds 10 --dataset-sampling-strategy shuffle --allow-dataset-wrap",
			baseHead + baseData + " --max-context 9 --asap --max-gap 1s --system-idle-cap 10s --sampler-order shuffle --allow-wrap" + baseSeed + baseLoad + baseTail},
		{"think", "--use-think-time-only --no-allow-dataset-wrap", baseHead + baseData + " --think-time-only --allow-wrap=false" + baseSeed + baseLoad + baseTail},
		{"trace cap wins", "--inter-turn-delay-cap-seconds 1 --trace-idle-gap-cap-seconds 2", baseHead + baseData + " --trace-idle-cap 2s" + baseSeed + baseLoad + baseTail},
		{"recording", "--isl-block-size 32 --synthesis-max-isl 100 --cache-bust first-turn-prefix --prompt-corpus coding",
			baseHead + baseData + baseSeed + " --set block_size=32 --set max_isl=100 --marker first_turn_prefix" + baseLoad + strings.Replace(baseTail, " --marker off", "", 1)},
		{"start", "--trajectory-start-min-ratio 0.1 --trajectory-start-max-ratio 0.2 --burst-phase-starts --agentic-cache-warmup-duration 30 --agentic-warmup-grace-period 5 --warmup-grace-period 6",
			baseHead + baseData + baseSeed + baseLoad + " --start sampled --start-min-ratio 0.1 --start-max-ratio 0.2 --burst-start --warmup duration=30s --warmup-grace 5s" + baseTail},
		{"load", "--concurrency 4,8 --prefill-concurrency 2 --benchmark-duration 60 --benchmark-grace-period inf --failed-request-threshold 0.1",
			baseHead + baseData + baseSeed + " --concurrency 4,8 --prefill-limit 2 --requests 5 --duration 60s --grace 21600s --max-error-rate 0.1" + baseTail},
		{"body", `--extra-inputs temperature:0.7,stop:none name:007 '{"a": {"b": [1]}, "temperature": 1}' --extra-inputs ignore_eos:true`,
			baseHead + baseData + baseSeed + baseLoad + ` --extra-body '{"temperature":1,"stop":null,"name":"007","a":{"b": [1]},"ignore_eos":true}' --marker off --out out --overwrite --report aiperf`},
		{"results", "--profile-export-prefix p --export-level summary --slice-duration 1.0 --server-metrics a:1/metrics http://b:2 --server-metrics-formats json csv --stats-interval 30 --ui none --log-level WARNING --num-profile-runs 1",
			baseHead + baseData + baseSeed + baseLoad + " --prefix p --slice-duration 1s --scrape http://h:1/metrics --scrape http://a:1/metrics --scrape http://b:2 --stats-interval 30s --quiet" + baseTail},
		{"goodput", "--goodput 'time_to_first_token:2000 itl:50.5'", baseHead + baseData + baseSeed + baseLoad + " --slo 'ttft<=2000ms' --slo 'itl<=50.5ms'" + baseTail},
		{"no scraping", "--no-server-metrics", baseHead + baseData + baseSeed + baseLoad + " --scrape off" + baseTail},
		{"off", "--ignore-trace-delays=false --use-legacy-max-tokens=false", baseHead + baseData + baseSeed + baseLoad + baseTail},
		{"the other", "--as agentx-1.0.12", strings.Replace(baseHead, "aiperf-0.13", "agentx-1.0.12", 1) + baseData + baseSeed + baseLoad + otherTail},
		{"the other by another name", "--as agentx-v1.0.5", strings.Replace(baseHead, "aiperf-0.13", "agentx-1.0.12", 1) + baseData + baseSeed + baseLoad + otherTail},
		{"the scenario of the harness", "--as agentx-1.0.12 --scenario agentx", strings.Replace(baseHead, "aiperf-0.13", "agentx-1.0.12", 1) + baseData + baseSeed + " --scenario agentx" + baseLoad + " --out out --overwrite --report aiperf"},
		{"scenario", "--scenario inferencex-agentx-mvp --unsafe-override --warmup-grace-period 6",
			baseHead + baseData + baseSeed + " --scenario inferencex-agentx-mvp --unsafe-override" + baseLoad + " --warmup-grace 6s --out out --overwrite --report aiperf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := tr(t, base+c.flags)
			assert.Empty(t, errorsOf(tn))
			assert.Equal(t, c.want, tn.Line())
		})
	}
}

// What AIPerf does without a flag is written out where agentx does something else.
func TestTranslateAIPerfDefaults(t *testing.T) {
	tn := tr(t, "-m org/model --streaming --input-file=traces")
	require.Empty(t, errorsOf(tn))
	assert.Equal(t, "agentx replay traces --profile aiperf --preset aiperf-0.13 --model org/model --url http://localhost:8000 --no-ignore-eos --marker off --requests 10 --seed 9187343239835811861 --out artifacts/org_model-openai-chat-concurrency1 --overwrite --report aiperf", tn.Line())
	assert.Equal(t, []string{
		"no --use-server-token-count: counts are the server's nonetheless; agentx encodes nothing while it measures",
		"no --tokenizer: the prompts are made with o200k_base; AIPerf takes the tokenizer of the model",
		"no --request-count, --benchmark-duration or --num-conversations: 10 requests, as AIPerf",
		"no --random-seed: 9187343239835811861, drawn for this run",
	}, tn.Notes)
}

// The command line of InferenceX's launcher (benchmark_lib.sh at 843c6254) with every optional part.
func TestTranslateLauncherOfInferenceX(t *testing.T) {
	tn := tr(t, "--scenario inferencex-agentx-mvp --url http://localhost:8888 --endpoint /v1/chat/completions --endpoint-type chat --streaming"+
		" --model served --tokenizer deepseek-ai/DeepSeek-V4-Pro --concurrency 64 --benchmark-duration 3600 --stats-interval 30 --random-seed 42"+
		" --failed-request-threshold 0.10 --trajectory-start-min-ratio 0.25 --trajectory-start-max-ratio 0.75 --warmup-requests-per-lane 10"+
		" --trace-idle-gap-cap-seconds 300 --warmup-grace-period 1800 --use-server-token-count --extra-inputs chat_template_kwargs:x"+
		" --no-gpu-telemetry --tokenizer-trust-remote-code --max-context-length 262144 --num-dataset-entries 393 --slice-duration 1.0"+
		" --server-metrics http://a:1/metrics http://b:1/metrics --output-artifact-dir /r/aiperf_artifacts --public-dataset semianalysis_cc_traces_weka_062126_256k",
		"AIPERF_DATASET_WEKA_LIVE_ASSISTANT_RESPONSES=0", "AIPERF_DATASET_CONFIGURATION_TIMEOUT=1800", "AIPERF_SERVICE_PROFILE_CONFIGURE_TIMEOUT=1800",
		"AIPERF_UI_REALTIME_METRICS_ENABLED=true", "AGENTX_TOKENIZER=o200k_base", "AIPERF_WARMUP_REQUESTS_PER_LANE=10")
	require.Empty(t, errorsOf(tn))
	assert.Equal(t, "agentx replay hf://datasets/semianalysisai/cc-traces-weka-062126-256k --profile aiperf --preset agentx-1.0.12 --url http://localhost:8888/v1/chat/completions"+
		" --model served --limit-traces 393 --max-context 262144 --trace-idle-cap 300s --seed 42 --tokenizer o200k_base --scenario inferencex-agentx-mvp"+
		" --concurrency 64 --duration 3600s --max-error-rate 0.10 --start sampled --start-min-ratio 0.25 --start-max-ratio 0.75 --warmup requests=10"+
		" --warmup-grace 1800s --slice-duration 1s --scrape http://localhost:8888/metrics --scrape http://a:1/metrics --scrape http://b:1/metrics --stats-interval 30s"+
		` --extra-body '{"chat_template_kwargs":"x"}' --tcp-user-timeout 30s --out /r/aiperf_artifacts --overwrite --report aiperf`, tn.Line())
	assert.Equal(t, []string{
		"--warmup-requests-per-lane: only agentx-harness has it: --preset agentx-1.0.12",
		"--tokenizer deepseek-ai/DeepSeek-V4-Pro: the prompts are made with o200k_base, as AGENTX_TOKENIZER says: the server may count other lengths",
		"--tokenizer-trust-remote-code: agentx runs no code of a repository",
		"--no-gpu-telemetry: agentx collects none",
		"AIPERF_DATASET_CONFIGURATION_TIMEOUT=1800: not needed: nothing in agentx takes that long",
		"AIPERF_SERVICE_PROFILE_CONFIGURE_TIMEOUT=1800: not needed: nothing in agentx takes that long",
		"not read: AIPERF_WARMUP_REQUESTS_PER_LANE",
	}, tn.Notes)
}

func TestTranslateAIPerfRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--isl 100":        "--isl and --input-file contradict each other: leave one of them out",
		"--osl 100":        "--osl and --input-file contradict each other: leave one of them out",
		"--request-rate 5": "not supported: --request-rate 5: AIPerf counts the later turns of a session too, each of which waits for the rate; agentx has a rate of sessions (agentx replay --rate), the same where each is one request",
		"--fixed-schedule": "not supported: --fixed-schedule: the rows of Mooncake files say when each began, other recordings do not: leave it out",
		"--goodput e2e_output_token_throughput:20":            "--goodput: e2e_output_token_throughput: agentx judges time_to_first_token, inter_token_latency and request_latency",
		"--goodput ttft:-1":                                   "--goodput: ttft:-1: want a number of ms above 0",
		"--goodput ' '":                                       "--goodput  : want NAME:MS, with blanks between several",
		"--num-profile-runs 3":                                "not supported: --num-profile-runs 3: agentx does not repeat a run yet: run it several times",
		"--concurrency auto":                                  "not supported: --concurrency auto: agentx searches by a rule of its own: agentx replay --concurrency auto --slo ...",
		"--export-level raw":                                  "not supported: --export-level raw: agentx keeps no texts of requests and answers: want summary or records",
		"--server-metrics-formats json parquet":               "not supported: --server-metrics-formats json parquet: agentx writes json and csv",
		"--gpu-telemetry pynvml dashboard":                    "not supported: --gpu-telemetry pynvml dashboard: agentx collects none: leave it out",
		"--config run.yaml":                                   "not supported: --config run.yaml: agentx reads no configuration of AIPerf: give its values as flags, or agentx replay --config its own",
		"--endpoint-type embeddings":                          "not supported: --endpoint-type embeddings: want chat, messages or completions",
		"--endpoint /my/chat":                                 "not supported: --endpoint /my/chat: agentx sends to a path that ends in /chat/completions",
		"--benchmark-duration 30,60":                          "not supported: --benchmark-duration 30,60: agentx plays a list of --concurrency alone: want one value",
		"--custom-dataset-type sagemaker_data_capture":        "not supported: --custom-dataset-type sagemaker_data_capture: agentx does not read it",
		"--custom-dataset-type baseten-trace":                 "not supported: --custom-dataset-type baseten-trace: agentx does not read it",
		"--custom-dataset-type tracelab":                      "not supported: --custom-dataset-type tracelab: agentx does not read it",
		"--custom-dataset-type speed_bench_qa":                "not supported: --custom-dataset-type speed_bench_qa: agentx does not read it",
		"--custom-dataset-type dag_jsonl --fixed-schedule":    "not supported: --fixed-schedule: the rows of Mooncake files say when each began, other recordings do not: leave it out",
		"--prompt-corpus random":                              "not supported: --prompt-corpus random: want coding or sonnet",
		"--concurency 4":                                      "--concurency: neither AIPerf 0.13.0 nor agentx-harness has this flag",
		"stray":                                               "unexpected argument after --output-artifact-dir: every value follows a flag that takes one",
		"--concurrency":                                       "--concurrency: want a value after it",
		"--scenario ''":                                       "--scenario: want a value after it",
		"--benchmark-duration 0":                              "--benchmark-duration 0: want a number of seconds above 0",
		"--inter-turn-delay-cap-seconds 0":                    "--inter-turn-delay-cap-seconds 0: want a number of seconds above 0",
		"--concurrency 1 --concurrency 2":                     "--concurrency: given twice: want one value",
		"--streaming=maybe":                                   "--streaming=maybe: want true or false",
		"--ignore-trace-delays --use-think-time-only":         "--ignore-trace-delays and --use-think-time-only contradict each other: leave one of them out",
		"--server-metrics a --no-server-metrics":              "--server-metrics and --no-server-metrics contradict each other: leave one of them out",
		"--public-dataset semianalysis_cc_traces_weka_062126": "--input-file and --public-dataset contradict each other: leave one of them out",
		"--warmup-requests-per-lane 1 --as aiperf-0.13":       "--warmup-requests-per-lane and --as aiperf-0.13: that release does not have this flag",
		"--as aiperf":                                         "--as aiperf: want aiperf-0.13 or agentx-1.0.12; did you mean aiperf-0.13?",
		"--endpoint-type message":                             "not supported: --endpoint-type message: want chat, messages or completions; did you mean messages?",
		"--custom-dataset-type weka":                          "not supported: --custom-dataset-type weka: want weka_trace, mooncake_trace, bailian_trace, burst_gpt_trace, single_turn, multi_turn, random_pool, raw_payload, inputs_json or dag_jsonl; did you mean weka_trace?",
		"--dataset-sampling-strategy sequental":               "not supported: --dataset-sampling-strategy sequental: want sequential, random or shuffle; did you mean sequential?",
		"--as aiperf-0.14":                                    "--as aiperf-0.14: want aiperf-0.13 or agentx-1.0.12; did you mean aiperf-0.13?",
		"--model a,b":                                         "not supported: --model: several models: the recorded models become one here: want one name",
		"--request-timeout-seconds x":                         "--request-timeout-seconds x: want a number of seconds, 0 or more",
		"--header Authorization=secret":                       "--header: want KEY:VALUE, with commas between, or a JSON object",
		"--extra-inputs '{\"a\":'":                            "--extra-inputs: want a JSON object",
		"--warmup-request-count 3":                            "not supported: --warmup-request-count 3: " + agentWarmup,
		"--warmup-grace-period 3":                             "--warmup-grace-period: works only with --scenario: " + agentWarmup,
	} {
		t.Run(flags, func(t *testing.T) {
			line := base + flags
			if strings.HasPrefix(flags, "--model") {
				line = strings.Replace(line, "--model m ", "", 1)
			}
			if strings.HasPrefix(flags, "--streaming") {
				line = strings.Replace(line, "--streaming ", "", 1)
			}
			assert.Contains(t, errorsOf(tr(t, line)), want)
		})
	}
	assert.Contains(t, errorsOf(tr(t, "--model m --input-file x")), "not supported: a run without --streaming: agentx reads answers as streams: add it")
	assert.Contains(t, errorsOf(tr(t, base, "AIPERF_DATASET_WEKA_LIVE_ASSISTANT_RESPONSES=1")),
		"not supported: AIPERF_DATASET_WEKA_LIVE_ASSISTANT_RESPONSES=1: recorded answers are what makes runs comparable: set it to 0")
	assert.Contains(t, errorsOf(tr(t, base+"--per-chunk-usage --use-server-token-count=false")), "--per-chunk-usage: works only with --use-server-token-count")
}

// --tokenizer is that of agentx: a model of the hub at its revision, a path, or what AGENTX_TOKENIZER says in its place.
func TestTranslateTokenizer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o666))
	for _, c := range []struct{ flags, environ, want, note, problem string }{
		{"--tokenizer builtin", "", "o200k_base", "", ""},
		{"--tokenizer builtin", "AGENTX_TOKENIZER=cl100k_base", "o200k_base", "", ""},
		{"--tokenizer cl100k_base", "", "cl100k_base", "", ""},
		{"--tokenizer org/model", "", "org/model", "", ""},
		{"--tokenizer org/model --tokenizer-revision main", "", "org/model", "", ""},
		{"--tokenizer org/model --tokenizer-revision refs/pr/1", "", "org/model@refs/pr/1", "", ""},
		{"--tokenizer-revision a/b --tokenizer org/model", "", "org/model@a%2Fb", "", ""},
		{"--tokenizer " + file, "", file, "", ""},
		{"--tokenizer " + file + " --tokenizer-revision x", "", file, "--tokenizer-revision x: the tokenizer is not one of the hub", ""},
		{"--tokenizer org/model", "AGENTX_TOKENIZER=" + file, file, "--tokenizer org/model: the prompts are made with " + file + ", as AGENTX_TOKENIZER says: the server may count other lengths", ""},
		{"--tokenizer gpt2", "", "", "", "--tokenizer gpt2: want cl100k_base, o200k_base"},
		{"--tokenizer ./nowhere", "", "", "", "--tokenizer ./nowhere: there is no such file or directory; in place of it AGENTX_TOKENIZER=o200k_base in the environment"},
		{"--tokenizer org/model", "AGENTX_TOKENIZER=x", "", "", "--tokenizer x: want cl100k_base"},
	} {
		environ := strings.Fields(c.environ)
		tn := tr(t, strings.Replace(base, "--tokenizer builtin", c.flags, 1), environ...)
		if c.problem != "" {
			assert.Contains(t, strings.Join(errorsOf(tn), "\n"), c.problem)
			continue
		}
		assert.Empty(t, errorsOf(tn), c.flags)
		assert.Contains(t, tn.Line()+" ", " --tokenizer "+c.want+" ")
		if c.note != "" {
			assert.Contains(t, tn.Notes, c.note)
		}
	}
}

// Every flag that is refused is refused, with its own name and the words of the table, and every flag that changes nothing is
// told.
func TestEveryAIPerfFlagIsToldOrTranslated(t *testing.T) {
	plain := tr(t, base).Line()
	for _, f := range allFlags {
		for _, name := range f.names {
			if strings.Contains(base, name+" ") || name == "-m" || name == "-u" {
				continue
			}
			line := base + name
			if f.takes != noValue {
				line += " value"
			}
			tn := tr(t, line)
			told := strings.Join(append(errorsOf(tn), tn.Notes...), "\n")
			switch f.class {
			case classRefused:
				assert.Contains(t, told, "not supported: "+name, name)
				assert.Contains(t, told, f.about, name)
			case classMeaningless:
				assert.Contains(t, told, name)
				assert.Contains(t, told, f.about, name)
				assert.Equal(t, plain, strings.NewReplacer("agentx-1.0.12", "aiperf-0.13", " --tcp-user-timeout 30s", "").Replace(tn.Line()), name)
			default:
				quiet := strings.Contains("--no-fixed-schedule --unsafe-override", name) || len(f.names) > 1 && f.takes == noValue
				assert.True(t, told != "" || tn.Line() != plain || quiet, "%s: nothing tells of it", name)
			}
		}
	}
}

// The printed line is what runs: a shell splits it into the settings, and secrets stand in variables.
func TestPrintedLineIsWhatRuns(t *testing.T) {
	tn := tr(t, base+`--api-key s3cret --header 'X-A: it is' "{\"x-b\": \"q'uote\"}" --extra-inputs "a:b c\"d'e"`)
	require.Empty(t, errorsOf(tn))
	for _, secret := range []string{"s3cret", "it is", "q'uote"} {
		assert.False(t, strings.Contains(tn.Line(), secret), tn.Line())
	}
	assert.Equal(t, []string{"AIPERF_API_KEY", "AIPERF_HEADER_X_A", "AIPERF_HEADER_X_B"}, tn.Variables())
	t.Setenv("AIPERF_API_KEY", "s3cret")
	t.Setenv("AIPERF_HEADER_X_A", "it is")
	t.Setenv("AIPERF_HEADER_X_B", "q'uote")
	rest, ok := strings.CutPrefix(tn.Line(), "agentx ")
	require.True(t, ok)
	want := []string{"replay", tn.Data}
	for _, one := range tn.Settings {
		switch one.Value {
		case true:
			want = append(want, "--"+one.Name)
		case false:
			want = append(want, "--"+one.Name+"=false")
		default:
			want = append(want, "--"+one.Name, one.Value.(string))
		}
	}
	assert.Equal(t, want, words(t, rest))

	tn = tr(t, strings.Replace(base, "http://h:1", "http://user:pass@h:1", 1)+"--session-header X-S")
	assert.False(t, strings.Contains(tn.Line(), "pass"), tn.Line())
	assert.Equal(t, []string{"AIPERF_URL"}, tn.Variables())
}

func TestPublicDatasetsOfAIPerf(t *testing.T) {
	const line = "--model m --streaming --public-dataset "
	for name, want := range map[string]string{
		"semianalysis_cc_traces_weka_with_subagents":              "semianalysisai/cc-traces-weka-062126",
		"semianalysis_cc_traces_weka_with_subagents_256k":         "semianalysisai/cc-traces-weka-062126-256k",
		"semianalysis-cc-traces-weka-with-subagents-060526-256-k": "semianalysisai/cc-traces-weka-with-subagents-060526-256k",
		"semianalysis_cc_traces_weka_062126-256k":                 "semianalysisai/cc-traces-weka-062126-256k",
		"weka_hf --hf-weka-dataset o/n":                           "o/n",
	} {
		tn := tr(t, line+name)
		assert.Empty(t, errorsOf(tn))
		assert.Equal(t, "hf://datasets/"+want, tn.Data)
	}
	assert.Equal(t, "hf://datasets/o/n@refs/pr/1", tr(t, "--model m --streaming --hf-weka-dataset o/n", "AGENTX_DATASET_REVISION=refs/pr/1").Data)
	assert.Len(t, publicDatasets(), 14)
	for flags, want := range map[string]string{
		"sharegpt": "not supported: --public-dataset sharegpt: no recording of agents has this name: want semianalysis_cc_traces_weka_061326, ",
		"weka_hf":  "--public-dataset weka_hf: say which: --hf-weka-dataset OWNER/NAME",
		"semianalysis_cc_traces_weka_062126 --hf-weka-dataset o/n": "--hf-weka-dataset and --public-dataset semianalysis_cc_traces_weka_062126 both name a recording: leave one of them out",
	} {
		assert.Contains(t, strings.Join(errorsOf(tr(t, line+flags)), "\n"), want)
	}
}

func TestEnvironmentOfAIPerf(t *testing.T) {
	tn := tr(t, base, "AIPERF_DATASET_MMAP_CACHE_DIR=/c", "AIPERF_HTTP_KEEPALIVE_TIMEOUT=9", "AIPERF_LOG_X=1", "AIPERF_DEV_MODE=1")
	assert.True(t, strings.HasSuffix(tn.Line(), " --cache /c --keep-alive 9s"+baseTail), tn.Line())
	assert.Equal(t, []string{"not read: AIPERF_DEV_MODE, AIPERF_LOG_X"}, tn.Notes)
	assert.True(t, strings.HasSuffix(tr(t, base, "AIPERF_UI_REALTIME_METRICS_ENABLED=true").Line(), " --stats-interval 30s"+baseTail))
	tn = tr(t, base+"--use-dynamo-conv-aware-routing --dynamo-session-timeout-seconds 3600", "AIPERF_HTTP_TCP_USER_TIMEOUT=900000", "AIPERF_HTTP_CONNECTION_LIMIT=5000",
		"AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID=true", "AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID=1", "AIPERF_HTTP_X_SESSION_ID_FROM_CORRELATION_ID=false",
		"AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID=false")
	assert.True(t, strings.HasSuffix(tn.Line(), " --tcp-user-timeout 900s --affinity-header=false --no-ignore-eos --marker off --session-header X-Dynamo-Session-ID,X-SMG-Routing-Key --out out --overwrite --report aiperf"), tn.Line())
	tn = tr(t, base, "AIPERF_DATASET_MMAP_CACHE_DIR=/c", "AGENTX_CACHE=/d")
	assert.False(t, strings.Contains(tn.Line(), "/c"), tn.Line())
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
		assert.Equal(t, baseHead+want+baseData+baseSeed+baseLoad+baseTail, tn.Line())
		note := "--api-key: Authorization of --header takes its place; AIPerf sends the key"
		assert.Equal(t, strings.Contains(want, "AUTHORIZATION") && !strings.Contains(want, "x-api-key"), slices.Contains(tn.Notes, note))
	}
}

// Flags of lengths become the description of a load; a length that is missing, or is none, is told.
func TestSyntheticLoads(t *testing.T) {
	const base = "--model m --streaming --endpoint-type chat --request-count 5 --random-seed 7 "
	got := tr(t, base+"--isl 550 --isl-stddev 50 --osl 100 --prefix-prompt-length 200 --num-prefix-prompts 3 --num-prompts 20")
	assert.Empty(t, errorsOf(got))
	assert.Equal(t, "synth:isl=normal:750,50,osl=100,traces=20,shared-prefix=200,groups=3,seed=7", got.Data)
	assert.Contains(t, got.Line(), " --profile default ")
	data, err := synth.Described(got.Data)
	require.NoError(t, err)
	assert.Equal(t, 20, bytes.Count(data, []byte("\n")))
	assert.Equal(t, "synth:isl=8000,osl=1000,traces=100,seed=7", tr(t, base+"--synthetic-input-tokens-mean 8000 --output-tokens-mean 1000").Data)
	for flags, want := range map[string]string{
		"--isl 100":                      "--osl: say how long answers are; without it AIPerf leaves that to the server",
		"--isl 100.5 --osl 1":            "--prompt-input-tokens-mean 100.5: want a whole number of tokens",
		"--isl 1 --osl 1 --isl-stddev x": "--prompt-input-tokens-stddev x: want a whole number of tokens",
	} {
		assert.Contains(t, errorsOf(tr(t, base+flags)), want, flags)
	}
	assert.Contains(t, errorsOf(tr(t, base+"--osl 5")), "--osl 5: it is of a load of lengths: give --isl, too")
}
