# The launcher of InferenceX (commit 843c6254) with agentx as its client. Its recipes source benchmarks/benchmark_lib.sh; let that end with
# this file, and they run as they stand:
#
#   echo "source $PWD/examples/inferencex/agentx.bash" >>CHECKOUT/benchmarks/benchmark_lib.sh
#
# Nothing of AIPerf is installed then: build_replay_cmd makes the command line of agentx profile, whose files the aggregation and the gate of
# InferenceX read. AGENTX is the program, else agentx of the PATH (pip install agentx-replay). doc/harness.md says what differs.
AGENTX=${AGENTX:-agentx}
case ${FRAMEWORK:-} in
dynamo-*) AIPERF_CLI="$AGENTX aiperf" ;; # the harness lacks two flags of these recipes
*) AIPERF_CLI=$AGENTX ;;
esac
AIPERF_PYTHON=python3
AIPERF_HF_CLI=agentx_hf

install_agentic_deps() { AIPERF_DEPS_READY=1; }

# hf download --repo-type dataset NAME, which resolve_trace_source calls.
agentx_hf() { "$AGENTX" fetch "hf://datasets/${*: -1}"; }
