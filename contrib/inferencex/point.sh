#!/bin/bash
# Runs the launcher of InferenceX (commit 843c6254) on agentx profile, by examples/inferencex: its own function builds the command and runs it, its own aggregation
# and error-rate gate read the files. What it plays are traces of a directory, against agentx mock, for some seconds.
#
#   contrib/inferencex/point.sh CHECKOUT AGENTX TRACES DIR
#
# CHECKOUT is a checkout of SemiAnalysisAI/InferenceX, of which nothing is copied; AGENTX the program; the results go to DIR.
set -u
checkout=$(realpath "$1") agentx=$(realpath "$2") traces=$(realpath "$3")
mkdir -p "$4" && dir=$(realpath "$4")
here=$(dirname "$(realpath "$0")")
lib=$checkout/benchmarks/benchmark_lib.sh
[ -f "$lib" ] || { echo "inferencex: $lib is not there"; exit 1; }

# What a recipe of InferenceX exports, for a server on one GPU.
export INFMAX_CONTAINER_WORKSPACE=$checkout AIPERF_UNSAFE_OVERRIDE=true AIPERF_WARMUP_REQUESTS_PER_LANE=1 AIPERF_TRACE_IDLE_GAP_CAP_SECONDS=0.2 ENABLE_AGENTX_POWER=0
export MODEL=o200k_base SERVED_MODEL_NAME=mock MODEL_PREFIX=mock FRAMEWORK=vllm RUNNER_TYPE=cpu PRECISION=none KV_OFFLOADING=none TP=1
export AIPERF_REQUIRED_SERVER_METRIC_PREFIX=vllm: # such as recipes with charts ask for
export AGENTX_CACHE=$dir/cache

# point NAME LANES SECONDS FAULT LIVE runs one point and leaves its status in $status, and its output in NAME/launcher.log. LIVE is the
# share of failed requests that ends the run.
point() {
	local seed
	for seed in $(seq 20); do # a fault that strikes before the measured phase ends the run: other seeds then
		rm -rf "$dir/$1" && mkdir -p "$dir/$1"
		"$agentx" mock --ttft 5ms --itl 1ms --seed "$seed" ${4:+--fault "$4"} >"$dir/$1/mock.log" & mock=$!
		until grep -qs '^listening ' "$dir/$1/mock.log"; do sleep 0.05; done
		(
			export CONC=$2 DURATION=$3 RESULT_FILENAME=result AGENTIC_OUTPUT_DIR=$dir/$1 AIPERF_LIVE_FAILED_REQUEST_THRESHOLD=$5
			AIPERF_SERVER_URL=$(sed -n 's/^listening //p' "$dir/$1/mock.log")
			source "$lib"
			AGENTX=$agentx
			source "$here/../../examples/inferencex/agentx.bash"
			TRACE_SOURCE_FLAG="--input-file $traces --custom-dataset-type weka_trace" # the public datasets are gigabytes
			build_replay_cmd "$dir/$1" && run_agentic_replay_and_write_outputs "$dir/$1"
		) >"$dir/$1/launcher.log" 2>&1
		status=$?
		kill "$mock" && wait "$mock" 2>/dev/null
		[ "$status" -ne 0 ] && grep -q 'aiperf completed zero requests' "$dir/$1/launcher.log" && [ -n "$4" ] || break
	done
}

failed=0
# expect NAME WHAT COMMAND... says whether a command that must succeed does.
expect() {
	local name=$1 what=$2; shift 2
	if "$@"; then echo "ok    $name: $what"; else echo "FAIL  $name: $what"; failed=1; fi
}
says() { grep -q -- "$1" "$dir/$2/launcher.log"; }

point good 4 15 "" 0.10
expect good "the launcher ends well (status $status)" [ "$status" -eq 0 ]
expect good "the gate passes" says 'Validated aiperf request error rate' good
expect good "the metrics of the server are there" says "Validated required AIPerf server metrics prefix 'vllm:'" good
expect good "its figures are those of the rows" python3 "$here/check.py" "$dir/good" 0.10 passed

point few 4 15 status=500:0.03 0.10
expect few "the launcher ends well (status $status)" [ "$status" -eq 0 ]
expect few "its figures are those of the rows" python3 "$here/check.py" "$dir/few" 0.10 passed

point many 1 15 status=500:0.3 1
expect many "the gate refuses the result (status $status)" says 'produced invalid results' many
expect many "its figures are those of the rows" python3 "$here/check.py" "$dir/many" 0.10 refused

point stopped 1 15 status=500:0.3 0.10
expect stopped "the run is ended (status $status)" says 'agentic trace replay exited with code 1' stopped
expect stopped "its figures are those of the rows" python3 "$here/check.py" "$dir/stopped" 0.10 refused

[ "$failed" -eq 0 ] || echo "inferencex: see the launcher.log of each point below $dir"
exit "$failed"
