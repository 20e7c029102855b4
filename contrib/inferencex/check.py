#!/usr/bin/env python3
"""Compare what InferenceX's aggregation made of a run of agentx with the rows of that run, and what its gate decided.

    python3 contrib/inferencex/check.py DIR LIMIT passed|refused

DIR is a result directory of InferenceX's launcher: result.json, aiperf_artifacts/ and launcher.log are in it. LIMIT is the share of
failed requests that the gate lets pass.
"""

import json
import math
import os
import sys


def percentile(values, q):
    """Linear interpolation between the two nearest ranks."""
    at = (len(values) - 1) * q / 100
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def find(tree, key):
    """All values of a key, at any depth."""
    if isinstance(tree, dict):
        for k, v in tree.items():
            if k == key:
                yield v
            yield from find(v, key)
    elif isinstance(tree, list):
        for v in tree:
            yield from find(v, key)


def main():
    folder, limit, verdict = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    with open(os.path.join(folder, "aiperf_artifacts", "profile_export.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    with open(os.path.join(folder, "aiperf_artifacts", "profile_export_aiperf.json")) as f:
        aggregate = json.load(f)
    with open(os.path.join(folder, "result.json")) as f:
        result = json.load(f)
    measured = [r for r in rows if r["metadata"]["benchmark_phase"] == "profiling"]
    good = [r for r in measured if "error" not in r]
    bad = len(measured) - len(good)
    if not good:
        sys.exit(f"      {len(rows)} rows, none measured with success")
    wrong = []

    def same(what, got, want):
        if not (got == want or isinstance(want, float) and math.isclose(got, want, rel_tol=1e-4, abs_tol=2e-5)):
            wrong.append(f"{what}: {got}, the rows give {want}")

    same("num_requests_total", result["num_requests_total"], len(rows))
    same("num_requests_successful", result["num_requests_successful"], len(good))
    same("request_count", aggregate["request_count"]["avg"], len(good))
    same("error_request_count", aggregate.get("error_request_count", {"avg": 0})["avg"], bad)  # both are absent where none failed
    same("completed_request_count", aggregate.get("completed_request_count", aggregate["request_count"])["avg"], len(measured))
    for tag, name in (("time_to_first_token", "ttft"), ("request_latency", "e2el"), ("inter_token_latency", "itl")):
        values = sorted(r["metrics"][tag]["value"] / 1000 for r in good if tag in r["metrics"])
        figures = next((v for v in find(result, name) if isinstance(v, dict)), {})
        for q in (50, 90, 95):
            if values and f"p{q}" in figures:
                same(f"{name} p{q}", figures[f"p{q}"], percentile(values, q))
            elif values:
                wrong.append(f"{name} has no p{q}")
    if (bad / len(measured) > limit) != (verdict == "refused"):
        wrong.append(f"the gate {verdict} {bad} failures of {len(measured)} with a limit of {limit}")
    for line in wrong:
        print(f"      {line}")
    print(f"      {len(rows)} rows, {len(measured)} measured, {bad} failed; ttft p50 {percentile(sorted(r['metrics']['time_to_first_token']['value'] for r in good), 50):.2f} ms")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
