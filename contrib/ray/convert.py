"""Prepares a corpus on a Ray cluster: tasks build one dataset together, in a cache on a file system that all nodes see."""
import subprocess

import ray

# Edit these three.
INPUT = "/shared/traces"
CACHE = "/shared/agentx"
TASKS, CPUS = 4, 8


@ray.remote(num_cpus=CPUS, max_retries=3, scheduling_strategy="SPREAD")
def convert():
    subprocess.run(["setpriv", "--pdeathsig", "TERM", "agentx", "convert", INPUT, "--cache", CACHE, "--workers", str(CPUS)], check=True)


ray.init("auto")
ray.get([convert.remote() for _ in range(TASKS)])
