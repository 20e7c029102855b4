package profile

import "slices"

const (
	synthetic   = "it makes synthetic prompts; agentx plays recordings: leave it out"
	recorded    = "agentx plays recordings as they are: leave it out"
	search      = "agentx searches by a rule of its own: agentx replay --concurrency auto --slo ..."
	upload      = "agentx uploads no results: AGENTX_OTLP names a collector of OpenTelemetry, doc/report.md has three lines each for MLflow and W&B"
	baseten     = "it is for traces of Baseten, which agentx does not read: leave it out"
	accuracy    = "agentx measures times, and no answers: leave it out"
	oneRun      = "agentx does not repeat a run yet: leave it out"
	networkRTT  = "agentx subtracts no time of the network from what it measures: leave it out"
	texts       = "agentx keeps no texts of answers: leave it out"
	cancelation = "agentx cancels no requests on purpose: leave it out"
)

// otherFlags are refused one by one.
var otherFlags = slices.Concat(
	[]flag{{names: []string{"--config", "-f"}, takes: oneValue, class: classRefused,
		about:  "agentx reads no configuration of AIPerf: give its values as flags, or agentx replay --config its own",
		unless: func(t *translation, _ given) bool { return t.Harness }}}, // readConfig has read it
	refused(severalValues, "agentx collects none: leave it out", "--gpu-telemetry"),
	refused(noValue, "agentx starts no profiler of a server: leave it out", "--server-profiler"),
	refused(oneValue, "agentx starts no profiler of a server: leave it out", "--server-profiler-timeout-seconds", "--server-profiler-start-path", "--server-profiler-stop-path"),
	refused(oneValue, "agentx serves no API while it runs: leave it out", "--api-port", "--api-host"),
	refused(noValue, "agentx draws nothing after a run: leave it out", "--plot-required"),
	refused(noValue, texts, "--export-outputs-json"),
	refused(noValue, networkRTT, "--network-latency-automatic"),
	refused(oneValue, networkRTT, "--network-latency-mean", "--network-latency-ping-interval"),
	refused(oneValue, cancelation, "--request-cancellation-rate", "--request-cancellation-delay"),
	refused(oneValue, "agentx reads the files that the card of a dataset names: leave it out", "--hf-subset"),
	refused(severalValues, "recordings of agents have no filter: leave it out", "--dataset-filter"),
	refused(oneValue, baseten, "--trace-session-sample-ratio", "--max-idle-gap-cap-seconds", "--replay-speedup"),
	refused(noValue, baseten, "--open-loop-replay --no-open-loop-replay", "--open-loop-strict", "--omit-kv-hints", "--force-min-tokens --no-force-min-tokens"),
	refused(noValue, "recordings of agents have no images: leave it out", "--uuid-and-strip"),
	refused(noValue, "agentx asks for text alone: leave it out", "--download-video-content"),
	refused(oneValue, upload, "--otel-url", "--gen-ai-provider", "--mlflow-tracking-uri", "--mlflow-experiment", "--mlflow-run-name", "--mlflow-parent-run-id",
		"--wandb-project", "--wandb-entity", "--wandb-run-name"),
	refused(severalValues, upload, "--stream", "--otel-resource-attributes", "--mlflow-tag", "--mlflow-artifact-glob", "--wandb-tag"),
	refused(oneValue, oneRun, "--profile-run-cooldown-seconds", "--convergence-metric", "--convergence-stat", "--convergence-threshold", "--convergence-mode"),
	refused(noValue, oneRun, "--profile-run-disable-warmup-after-first --no-profile-run-disable-warmup-after-first",
		"--set-consistent-seed --no-set-consistent-seed", "--vary-seed-per-trial --no-vary-seed-per-trial"),
	refused(oneValue, accuracy, "--accuracy-benchmark", "--accuracy-n-shots", "--accuracy-grader", "--accuracy-system-prompt"),
	refused(repeatedValue, accuracy, "--accuracy-tasks"),
	refused(noValue, accuracy, "--accuracy-enable-cot --accuracy-no-enable-cot", "--accuracy-verbose"),
)

// syntheticFlags make prompts, or change recorded ones.
var syntheticFlags = slices.Concat(
	refused(oneValue, recorded, "--system-prompt", "--system-prompt-file", "--synthesis-speedup-ratio", "--synthesis-prefix-len-multiplier",
		"--synthesis-prefix-root-multiplier", "--synthesis-prompt-len-multiplier", "--synthesis-output-len-multiplier"),
	refused(oneValue, synthetic,
		"--conversation-turn-mean --session-turns-mean", "--conversation-turn-stddev --session-turns-stddev",
		"--conversation-turn-delay-mean --session-turn-delay-mean", "--conversation-turn-delay-stddev --session-turn-delay-stddev",
		"--conversation-turn-delay-ratio --session-delay-ratio",
		"--seq-dist --sequence-distribution", "--random-range-ratio", "--random-corpus-style",
		"--prompt-batch-size --batch-size-text --batch-size -b", "--shared-system-prompt-length", "--user-context-prompt-length",
		"--rankings-passages-mean", "--rankings-passages-stddev", "--rankings-passages-prompt-token-mean", "--rankings-passages-prompt-token-stddev",
		"--rankings-query-prompt-token-mean", "--rankings-query-prompt-token-stddev",
		"--audio-batch-size --batch-size-audio", "--audio-length-mean", "--audio-length-stddev", "--audio-format", "--audio-num-channels",
		"--image-width-mean", "--image-width-stddev", "--image-height-mean", "--image-height-stddev", "--image-batch-size --batch-size-image",
		"--image-format", "--image-source", "--image-source-sampling",
		"--video-batch-size --batch-size-video", "--video-duration", "--video-fps", "--video-width", "--video-height", "--video-synth-type",
		"--video-format", "--video-codec", "--video-audio-sample-rate", "--video-audio-num-channels", "--video-audio-codec", "--video-audio-depth"),
	refused(repeatedValue, synthetic, "--audio-depths", "--audio-sample-rates"),
)

// searchFlags look for a load.
var searchFlags = slices.Concat(
	refused(oneValue, search,
		"--parameter-sweep-cooldown-seconds", "--parameter-sweep-mode", "--sweep-type",
		"--search-metric", "--search-stat", "--search-direction", "--search-max-iterations", "--search-initial-points", "--search-random-seed",
		"--search-planner", "--optuna-sampler", "--optuna-acquisition", "--optuna-terminator", "--search-percentile-pooling", "--bo-constraint-mode",
		"--search-recipe", "--ttft-sla-ms", "--isl-osl-pairs", "--itl-sla-ms", "--tpot-sla-ms", "--e2e-sla-ms", "--error-rate-sla",
		"--slo-attainment-fraction", "--search-style", "--degradation-threshold", "--degradation-metric-tag", "--degradation-stat",
		"--isl-min", "--isl-max", "--isl-steps", "--concurrency-min", "--concurrency-max", "--concurrency-steps", "--osl-min", "--osl-max", "--osl-steps"),
	refused(noValue, search, "--parameter-sweep-same-seed --no-parameter-sweep-same-seed"),
	refused(repeatedValue, search, "--search-space", "--search-sla", "--search-sla-tier", "--variant --sweep-variant"),
)
