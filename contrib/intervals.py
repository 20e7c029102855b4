"""Writes cmd/internal/report/interval/testdata/intervals.json: samples, and their intervals by numpy alone, against which the tests hold
cmd/internal/report/interval (doc/spec/report.md 5). Run it with numpy from the root of the repository; the same numpy gives the same file."""

import hashlib
import json

import numpy as np

STATS = ["mean", "p50", "p75", "p90", "p95", "p99"]
RESAMPLES = 1000


def sample(name, trees, most, sigma):
    """Requests of trees, each with a level of its own; some have no value. The order is that in which requests end."""
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big"))
    numbers = rng.permutation(trees * 3)[:trees]
    rows = []
    for tree in numbers:
        level = np.exp(sigma * rng.standard_normal())
        for _ in range(int(rng.integers(1, most))):
            value = None if rng.random() < 0.03 else round(float(level * rng.exponential()), 6)
            rows.append((value, int(tree)))
    order = rng.permutation(len(rows))
    return {"values": [rows[k][0] for k in order], "trees": [rows[k][1] for k in order]}


def by_tree(s):
    trees = {}
    for value, tree in zip(s["values"], s["trees"]):
        if value is not None:
            trees.setdefault(tree, []).append(value)
    return trees


def figure(values, stat):
    return np.mean(values) if stat == "mean" else np.percentile(values, float(stat[1:]))


def generator(seed):
    return np.random.default_rng(int.from_bytes(bytes.fromhex(seed)[:8], "little"))


def written_out(trees, order, drawn):
    return np.concatenate([trees[order[k]] for k in drawn])


def middle(figures):
    low, high = np.percentile(figures, [2.5, 97.5], axis=0)
    return [{"low": a, "high": b} for a, b in zip(low.tolist(), high.tolist())]


def intervals(s, seed):
    trees = by_tree(s)
    order, rng, figures = sorted(trees), generator(seed), []
    for _ in range(RESAMPLES):
        values = written_out(trees, order, rng.integers(len(order), size=len(order)))
        figures.append([figure(values, stat) for stat in STATS])
    return middle(figures)


def differences(a, b, seed, paired):
    a, b = by_tree(a), by_tree(b)
    if paired:
        both = sorted(set(a) & set(b))
        a, b = {t: a[t] for t in both}, {t: b[t] for t in both}
    order_a, order_b, rng = sorted(a), sorted(b), generator(seed)
    absolute, relative = [], []
    for _ in range(RESAMPLES):
        drawn = rng.integers(len(order_a), size=len(order_a))
        x = written_out(a, order_a, drawn)
        if not paired:
            drawn = rng.integers(len(order_b), size=len(order_b))
        y = written_out(b, order_b, drawn)
        fx, fy = (np.array([figure(v, stat) for stat in STATS]) for v in (x, y))
        absolute.append(fx - fy)
        relative.append((fx - fy) / fy)
    return {
        "trees": len(order_a), "absolute": middle(absolute), "relative": middle(relative),
        "a": [figure(np.concatenate(list(a.values())), s) for s in STATS], "b": [figure(np.concatenate(list(b.values())), s) for s in STATS],
    }


def main():
    seed = hashlib.sha256(b"records").hexdigest()
    samples = {"many": sample("many", 60, 40, 0.5), "few": sample("few", 20, 6, 1.0)}
    slower = {"trees": samples["many"]["trees"][:-40], "values": [None if v is None else round(1.1 * v + 0.01, 6) for v in samples["many"]["values"][:-40]]}
    slower["trees"] = slower["trees"] + [999] * 3
    slower["values"] = slower["values"] + [0.5, 1.5, 2.5]
    samples["slower"] = slower
    document = {
        "seed": seed, "stats": STATS, "samples": samples,
        "intervals": {name: intervals(s, seed) for name, s in samples.items()},
        "paired": differences(slower, samples["many"], seed, True),
        "unpaired": differences(slower, samples["few"], seed, False),
    }
    with open("cmd/internal/report/interval/testdata/intervals.json", "w") as f:
        json.dump(document, f, separators=(",", ":"))
        f.write("\n")


main()
