#!/usr/bin/env python3
"""What the replay of an installed Dynamo 1.6.1 makes of loads and fleets, to compare with `agentx simulate`.

Reads JSON lines from standard input: of each a trace (a file of Mooncake rows of blocks of 512 tokens), the keys of an engine in the
spelling of doc/spec/simulate.md 2, workers or prefill_decode, router, router_config, replay_concurrency, arrival_speedup_ratio. Writes a
line for each: the members of Dynamo's summary, and of each request [prompt length, arrival ms, worker, prefill worker, first token ms, last
token ms, tokens found]; or {"refused": why}.

    pip install ai-dynamo-runtime==1.6.1 && pip install --no-deps ai-dynamo==1.6.1
"""

import json
import os
import sys

os.environ.setdefault("DYN_LOG", "error")

from dynamo.llm import KvRouterConfig  # noqa: E402
from dynamo.replay import run_trace_replay  # noqa: E402

ENGINE = {
    "engine_type": "backend",
    "kv_bytes_per_token": "kv_transfer_bytes_per_token",
    "kv_transfer_gb_s": "kv_transfer_bandwidth",
    "kv_transfer_timing": "kv_transfer_timing_mode",
}


def engine_of(keys, worker_type):
    """The engine arguments of keys in our spelling."""
    engine = {ENGINE.get(k, k): v for k, v in keys.items() if k != "startup_time"}
    if engine.get("backend") == "sglang" and "max_num_batched_tokens" in engine:
        engine["sglang"] = {"chunked_prefill_size": engine["max_num_batched_tokens"]}
    return {"startup_time": keys.get("startup_time"), "engine": {**engine, "worker_type": worker_type}}


def arguments(case):
    """The arguments of run_trace_replay for a case."""
    args = {"trace_block_size": 512, "capture_per_request": True}
    if pools := case.get("prefill_decode"):
        args["num_prefill_workers"], args["num_decode_workers"] = pools
        args["prefill_engine_args"] = engine_of(case["engine"], "prefill")
        args["decode_engine_args"] = engine_of(case["engine"], "decode")
    else:
        args["num_workers"] = case["workers"]
        args["extra_engine_args"] = engine_of(case["engine"], "aggregated")
    if router := case.get("router"):
        args["router_mode"] = router
    if keys := case.get("router_config"):
        args["router_config"] = KvRouterConfig(**keys)
    for name in ("replay_concurrency", "arrival_speedup_ratio"):
        if name in case:
            args[name] = case[name]
    return args


for line in sys.stdin:
    case = json.loads(line)
    try:
        report = run_trace_replay(case["trace"], **arguments(case))
    except Exception as error:  # what Dynamo refuses, the caller reports
        print(json.dumps({"refused": str(error)}), flush=True)
        continue
    requests = [
        [q["input_length"], q["arrival_time_ms"], q["decode_worker_idx"], q["prefill_worker_idx"], q["first_token_ms"], q["last_token_ms"],
         q["reused_input_tokens"]]
        for q in report.per_request
    ]
    print(json.dumps({"summary": report.summary, "requests": requests}), flush=True)
