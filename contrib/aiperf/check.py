#!/usr/bin/env python3
"""What an installed AIPerf makes of Weka traces, as digests to compare with `agentx inspect CACHE --digest`.

Reads JSON lines from standard input, one trace a line, each loaded alone as AIPerf loads a file. Writes one JSON line for
each: the digests of `agentx inspect`, or {"refused": why}. With --warp SECONDS it writes digest_warped too, that of the
times under AIPerf's cap on idle gaps, or "" where AIPerf refuses them.

    pip install aiperf==0.13.0
    python3 contrib/aiperf/check.py --seed 42 < TRACES.jsonl

The tokenizer is o200k_base; --ranks names the file of its ranks, which tiktoken would download otherwise. With --corpus the
prompt corpus is written too, for `agentx convert --corpus`. `make test-oracle` runs all this.
"""

import argparse
import hashlib
import json
import logging
import os
import shutil
import struct
import sys
import tempfile
from types import SimpleNamespace

DATASET = {"name": "default", "type": "file", "format": "weka_trace"}
RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


def run_of(path, cap=None):
    """The configuration of one load: a file of Weka traces, one model, every option at its default."""
    from aiperf.config import BenchmarkConfig, BenchmarkRun

    dataset = dict(DATASET, path=path)
    if cap is not None:
        dataset["trace_idle_gap_cap_seconds"] = cap
    cfg = BenchmarkConfig.model_validate(
        {
            "models": ["test-model"],
            "endpoint": {"urls": ["http://localhost:8000/v1/chat/completions"], "wait_for_model_timeout": 0},
            "datasets": [dataset],
            "phases": [{"name": "profiling", "type": "concurrency", "requests": 1, "concurrency": 1}],
            "runtime": {"ui": "simple"},
        }
    )
    return BenchmarkRun(benchmark_id="oracle", cfg=cfg, artifact_dir=cfg.artifacts.dir)


class Text:
    """Lines of fields separated by tabs, hashed."""

    def __init__(self):
        self.hash = hashlib.sha256()

    def put(self, *fields):
        self.hash.update(("\t".join("-" if f is None or f == "" else str(f) for f in fields) + "\n").encode())

    def sum(self):
        return self.hash.hexdigest()


def time_text(v):
    """The bits of a time, -0 written as 0."""
    return None if v is None else struct.pack(">d", v + 0.0).hex()


def digests(conversations):
    structure, timing, cache, messages = Text(), Text(), Text(), Text()
    count = {"n_turns": 0, "hit_blocks": 0, "total_blocks": 0, "n_wire_messages": 0}
    for c in conversations:
        structure.put("C", c.session_id, c.parent_conversation_id, int(c.is_root), c.agent_depth, c.replay_scope_id, len(c.turns))
        for text in (timing, cache, messages):
            text.put("C", c.session_id)
        for b in c.branches:
            structure.put("B", b.branch_id, b.mode.value, int(b.is_background), ",".join(b.child_conversation_ids))
            timing.put("B", b.branch_id, time_text(b.start_timestamp_ms))
        wire = []
        for k, t in enumerate(c.turns):
            structure.put(
                "T", k, t.source_kind, t.source_outer_idx, t.source_inner_idx, t.model, t.max_tokens,
                t.input_kind.value if t.input_kind else None, ",".join(t.branch_ids),
                ",".join(p.branch_id for p in t.prerequisites),
                ",".join(f"{i}#{n}" for i, n in sorted((p.conversation_id, p.turn_index) for p in t.replay_predecessors)),
            )
            timing.put("T", k, time_text(t.timestamp), time_text(t.delay), time_text(t.api_time_ms))
            hits, total = t.theoretical_prefix_cache_hit_blocks, t.theoretical_prefix_cache_total_blocks
            cache.put("T", k, hits, total)
            if t.reset_context:
                wire = []
            wire += t.raw_messages or []
            messages.put("W", k, len(wire))
            for m in wire:
                content = m["content"].encode()
                messages.put("M", m["role"], len(content), hashlib.sha256(content).hexdigest())
            count["n_turns"] += 1
            count["hit_blocks"] += hits
            count["total_blocks"] += total
            count["n_wire_messages"] += len(wire)
    return {
        "n_conversations": len(conversations), **count, "digest_structure": structure.sum(), "digest_messages": messages.sum(),
        "digest_timing": timing.sum(), "digest_cache": cache.sum(),
    }


class Oracle:
    def __init__(self, seed):
        from aiperf.common import random_generator
        from aiperf.common.tokenizer import Tokenizer
        from aiperf.config.dataset.content import PromptConfig
        from aiperf.dataset.generator.coding_content import CodingContentGenerator

        random_generator.init(seed)
        self.generator = CodingContentGenerator(PromptConfig(), Tokenizer.from_pretrained("o200k_base"))

    def convert(self, path, cap=None):
        from aiperf.dataset.loader.weka_trace import WekaTraceLoader

        loader = WekaTraceLoader(filename=path, run=run_of(path, cap), prompt_generator=self.generator, default_block_size=64)
        return loader.convert_to_conversations(loader.load_dataset())

    def judge(self, path, cap):
        try:
            result = digests(self.convert(path))
        except Exception as e:  # whatever it raises, AIPerf does not load the file
            return {"refused": f"{type(e).__name__}: {e}"}
        if cap is not None:
            try:
                result["digest_warped"] = digests(self.convert(path, cap))["digest_timing"]
            except Exception:
                result["digest_warped"] = ""
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=42, help="AIPerf's --random-seed")
    parser.add_argument("--ranks", metavar="FILE", help="o200k_base.tiktoken")
    parser.add_argument("--corpus", metavar="FILE.u32le", help="write the prompt corpus there")
    parser.add_argument("--warp", type=float, metavar="SECONDS", help="AIPerf's cap on idle gaps, for digest_warped")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        if args.ranks:
            os.environ["TIKTOKEN_CACHE_DIR"] = folder
            shutil.copy(args.ranks, os.path.join(folder, hashlib.sha1(RANKS.encode()).hexdigest()))
        try:
            oracle = Oracle(args.seed)
        except ImportError as e:
            sys.exit(f"check-aiperf: {e}: is AIPerf 0.13.0 installed here? pip install aiperf==0.13.0")
        if args.corpus:
            ids = oracle.generator._tokenized_corpus
            with open(args.corpus, "wb") as f:
                f.write(struct.pack(f"<{len(ids)}I", *ids))
        path = os.path.join(folder, "trace.json")
        for line in sys.stdin.buffer:
            with open(path, "wb") as f:
                f.write(line)
            print(json.dumps(oracle.judge(path, args.warp)), flush=True)


if __name__ == "__main__":
    main()
