"""Prepares a corpus on a Ray cluster: tasks build one dataset together, in a cache on a file system that all nodes see."""
import subprocess

import ray

# Edit these three.
INPUT = "/shared/traces"
CACHE = "/shared/agentx"
TASKS, CPUS = 4, 8


@ray.remote(num_cpus=CPUS, max_retries=3, scheduling_strategy="SPREAD")
def convert(part):
    subprocess.run(["agentx", "convert", INPUT, "--cache", CACHE, "--part", f"{part}/{TASKS}", "--workers", str(CPUS)], check=True)


ray.init("auto")
ray.get([convert.remote(part) for part in range(TASKS)])
