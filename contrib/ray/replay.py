"""Plays one load from several nodes of a Ray cluster, a part on each. They meet on the node of part 0 and begin together."""
import secrets
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

# Edit these: the dataset, the server, the model, and the load, which is that of all parts together.
DATASET = "/shared/agentx/dataset/KEY"
SERVER = "http://HOST:8000"
MODEL = "NAME"
LOAD = ["--concurrency", "256", "--duration", "10m"]
OUT = "/shared/results/first"
PARTS, CPUS, PORT = 4, 8, 7878


@ray.remote(num_cpus=CPUS, max_retries=0)
def play(part, host):
    which = ["--part", f"{part}/{PARTS}", "--meet", f"{host}:{PORT}"]
    return subprocess.run(["agentx", "replay", DATASET, "--url", SERVER, "--model", MODEL, *LOAD, "--out", OUT, *which]).returncode


ray.init("auto", runtime_env={"env_vars": {"AGENTX_MEET_TOKEN": secrets.token_hex(16)}})
group = placement_group([{"CPU": CPUS}] * PARTS, strategy="STRICT_SPREAD")
ray.get(group.ready())
bundles = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i) for i in range(PARTS)]
host = ray.get(ray.remote(num_cpus=CPUS)(ray.util.get_node_ip_address).options(scheduling_strategy=bundles[0]).remote())
parts = [play.options(scheduling_strategy=bundles[i]).remote(i, host) for i in range(PARTS)]
ray.wait(parts, num_returns=PARTS)  # where a part is lost the others go on
subprocess.run(["agentx", "report", OUT, "--partial"])
sys.exit(max(ray.get(parts)))
