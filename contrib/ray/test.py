#!/usr/bin/env python3
"""Runs the files of this folder on a Ray of three nodes: make test-ray, whose environment has Ray, runs it.

    test.py AGENTX

It skips, with the reason, where a machine cannot have nodes.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import nodes
from nodes import check, run, say, wait

RAY = os.path.join(os.path.dirname(sys.executable), "ray")
HEAD = "ctl:6379"


class Ray:
    """A head, which runs no task, and three nodes."""

    def __init__(self, state):
        self.state, self.files = state, os.path.join(state, "ray")
        os.mkdir(self.files)
        os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ADDRESS=HEAD, PYTHONUNBUFFERED="1", RAY_DEDUP_LOGS="0", RAY_COLOR_PREFIX="0")
        self.start("ctl", "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={self.files}")
        self.up("ctl")
        self.nodes = {name: self.add(name) for name in nodes.NODES}
        self.up("ctl", *nodes.NODES)
        say(f"{run(RAY, '--version').strip()}: three nodes are up")

    def start(self, name, *arguments, **more):
        return nodes.Node(name, os.path.join(self.state, name + ".log"), RAY, "start", "--block", f"--node-ip-address={name}", *arguments, **more)

    def add(self, name):
        return self.start(name, f"--address={HEAD}", "--num-cpus=8", own=self.files)

    def up(self, *names):
        """Waits until the head takes these nodes for alive, and no other."""
        ask = ("import ray, sys, time; ray.init('auto', log_to_driver=False)\n"
               "while sorted(n['NodeName'] for n in ray.nodes() if n['Alive']) != sys.argv[1:]: time.sleep(0.1)")
        done = subprocess.run(["timeout", "300", sys.executable, "-c", ask, *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(done.returncode == 0, f"not up within 300 s: {', '.join(names)}", done.stdout, *(nodes.read(os.path.join(self.state, n + ".log")) for n in names))

    def drive(self, script):
        return subprocess.Popen([sys.executable, script], cwd=self.state, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def convert(cluster, data):
    """Three tasks build a dataset. A node whose task has a lease is killed."""
    script = nodes.edited(os.path.join(HERE, "convert.py"), os.path.join(cluster.state, "convert.py"),
                          INPUT=repr(data.corpus), CACHE=repr(data.cache), **{"TASKS, CPUS": "3, 8"})
    driver = cluster.drive(script)
    name = wait("a task has a lease", data.builders)[0]
    cluster.nodes[name].kill()
    check(not os.path.exists(data.path), f"the dataset was complete before {name} was killed: want more traces")
    say(f"killed {name}, which had a lease")
    cluster.nodes[name] = cluster.add(name)
    out, _ = driver.communicate(timeout=300)
    lines = [line for line in out.splitlines() if line.startswith(("(convert ", "(raylet) Task "))]
    print("".join(f"    {line[:200]}\n" for line in lines), end="")
    check(driver.returncode == 0, f"convert.py ended with {driver.returncode}", out)
    check(sum(data.path in line for line in lines) == 3 and any("retried" in line for line in lines), "want the dataset from each of three tasks, and one that is retried", out)
    data.whole()
    say("the dataset is that of one builder")


def main():
    agentx = os.path.abspath(sys.argv[1])
    why = nodes.lacks()
    if why:
        print(f"test-ray: skipped: {why}")
        return
    state = nodes.enter()
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(agentx), os.environ["PATH"]])
    data = nodes.Dataset(agentx, state, files=12, traces=100)
    cluster = Ray(state)
    convert(cluster, data)
    say("Ray: done")


main()
