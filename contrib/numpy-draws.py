#!/usr/bin/env python3
"""Write fixtures/vectors/numpy-draws.json: what numpy draws, and the arrivals that follow from it.

    pip install numpy==2.4.6
    python3 contrib/numpy-draws.py > fixtures/vectors/numpy-draws.json

Run it on Linux, on a CPU with fused multiply-add: numpy takes log and pow from the C library (glibc 2.28 or later), and their last
bit depends on both. Digests are SHA-256 of little-endian 64-bit words: of floats for draws, of integer nanoseconds for arrivals.
"""

import hashlib
import json
import platform

import numpy as np

SEEDS = {0: 50_000, 42: 50_000, 2**32 + 1: 50_000, 2**63 + 5: 50_000}  # and how many draws
LONG = {1: 1_000_000}  # has rare branches often


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def digest(words):
    return hashlib.sha256(np.ascontiguousarray(words).astype(words.dtype.newbyteorder("<")).tobytes()).hexdigest()


def draws():
    laws = [
        ("exponential", 0, lambda g, n: g.standard_exponential(n), SEEDS | LONG),
        ("normal", 0, lambda g, n: g.standard_normal(n), SEEDS | LONG),
    ]
    for shape in [0.001, 0.1, 0.3, 0.5, 0.9, 1, 1.5, 2, 100, 1e6]:
        laws.append(("gamma", shape, lambda g, n, shape=shape: g.standard_gamma(shape, n), SEEDS))
    for law, shape, draw, seeds in laws:
        for seed, count in seeds.items():
            list = draw(generator(seed), count)
            first = [f"0x{bits:016x}" for bits in list[:4].view(np.uint64)]
            yield {"law": law, "shape": shape, "seed": str(seed), "draws": count, "first": first, "sha256": digest(list)}


def lane_seed(seed):
    return int.from_bytes(hashlib.sha256(f"{seed}:arrivals:0".encode()).digest()[:8], "big")


def instants(kind, shape, rate, ramp, seed, count):
    g, n = generator(lane_seed(seed)), count - 1
    scale = 1 if ramp else 1 / rate
    if kind == "poisson":
        gaps = g.exponential(scale, n)
    elif kind == "gamma":
        gaps = g.gamma(shape, 1 / shape if ramp else 1 / (rate * shape), n)
    if kind == "constant":
        t = np.arange(count) / (1 if ramp else rate)
    else:
        t = np.concatenate([[0.0], np.cumsum(gaps)])
    if ramp:
        t = np.where(t <= rate * ramp / 2, np.sqrt(2 * ramp * t / rate), ramp / 2 + t / rate)
    return np.maximum.accumulate(np.rint(t * 1e9).astype(np.int64))


def arrivals():
    for kind, shape in [("poisson", 0), ("constant", 0), ("gamma", 0.5), ("gamma", 1), ("gamma", 4)]:
        for rate, ramp, seed, count in [(50, 0, "42", 30_000), (50, 120, "42", 27_000), (0.3, 0, "7", 2_000), (1e6, 0, "-1", 50_000)]:
            list = instants(kind, shape, rate, ramp, seed, count)
            yield {
                "kind": kind, "shape": shape, "rate": rate, "ramp": ramp, "seed": seed, "arrivals": count,
                "first": list[:5].tolist(), "last": int(list[-1]), "sha256": digest(list),
            }


def lines(entries):
    return "[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]"


made = {"numpy": np.__version__, "libc": " ".join(platform.libc_ver()), "machine": platform.machine()}
print('{"made": ' + json.dumps(made) + ',\n"draws": ' + lines(draws()) + ',\n"arrivals": ' + lines(arrivals()) + "}")
