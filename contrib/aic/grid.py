#!/usr/bin/env python3
"""Durations of a model on a GPU, as aiconfigurator 0.12.0 computes them, for agentx simulate --timing aic:FILE.

    pip install aiconfigurator==0.12.0
    contrib/aic/grid.py Qwen/Qwen3-32B h200_sxm --tp 2 > qwen3-32b.json
    agentx simulate TRACE --timing aic:qwen3-32b.json

The file is a table of doc/spec/simulate.md 4.2: milliseconds of a prefill by new tokens and prefix, and of a decode step by batch and mean
context. A minute; it needs no GPU.
"""

import argparse
import json
import sys

from aiconfigurator.sdk import config, inference_session, models, perf_database
from aiconfigurator.sdk.backends.factory import get_backend

NEW = [1, 64, 256, 1024, 2048, 4096, 8192, 16384]
PREFIX = [0, 1024, 4096, 16384, 32768, 65536, 131072, 262144]
BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CONTEXT = [1, 512, 2048, 8192, 32768, 65536, 131072, 262144]

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="name on the Hugging Face hub, such as Qwen/Qwen3-32B")
parser.add_argument("gpu", help="such as h100_sxm, h200_sxm, b200_sxm")
parser.add_argument("--backend", default="vllm", help="vllm, trtllm or sglang")
parser.add_argument("--tp", type=int, default=1, help="GPUs of tensor parallelism")
args = parser.parse_args()

version = perf_database.get_latest_database_version(args.gpu, args.backend)
database = perf_database.get_database(args.gpu, args.backend, version)
if database is None:
    sys.exit(f"aiconfigurator has no measurements of {args.backend} on {args.gpu}: choose another GPU or --backend")
model = models.get_model(args.model, config.ModelConfig(tp_size=args.tp), args.backend)
session = inference_session.InferenceSession(model, database, get_backend(args.backend))


def ms(mode, **runtime):
    return round(session.run_static_latency_only(config.RuntimeConfig(**runtime), mode), 6)


json.dump({
    "prefill_isl": NEW,
    "prefill_prefix_tokens": PREFIX,
    "prefill_ms": [[ms("static_ctx", batch_size=1, isl=new + prefix, osl=1, prefix=prefix) for prefix in PREFIX] for new in NEW],
    "decode_batch": BATCH,
    "decode_context_length": CONTEXT,
    "decode_ms": [[ms("static_gen", batch_size=batch, isl=context, osl=2) for context in CONTEXT] for batch in BATCH],
}, sys.stdout)
print()
