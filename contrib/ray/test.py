#!/usr/bin/env python3
"""Runs the files of this folder on a Ray of three nodes: make test-ray, whose environment has Ray, runs it.

    test.py AGENTX

It skips, with the reason, where a machine cannot have nodes.
"""
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import nodes
from nodes import check, run, say, wait

RAY = os.path.join(os.path.dirname(sys.executable), "ray")
ADDRESSES = nodes.NODES | nodes.CONTROL
HEAD = ADDRESSES["ctl"] + ":6379"


class Ray:
    """A head, which runs no task, and three nodes."""

    def __init__(self, state):
        self.state, self.files = state, os.path.join(state, "ray")
        os.mkdir(self.files)
        os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ADDRESS=HEAD, PYTHONUNBUFFERED="1", RAY_DEDUP_LOGS="0", RAY_COLOR_PREFIX="0")
        self.start("ctl", "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={self.files}")
        self.up("ctl")
        self.nodes = {}
        for name in nodes.NODES:  # one after the other: a node gives up where its agents take longer than 15 s to start
            self.nodes[name] = self.add(name)
            self.up("ctl", *self.nodes)
        say(f"{run(RAY, '--version').strip()}: three nodes are up")

    def start(self, name, *arguments, **more):
        return nodes.Node(name, os.path.join(self.state, name + ".log"), RAY, "start", "--block",
                          f"--node-name={name}", f"--node-ip-address={ADDRESSES[name]}", *arguments, **more)

    def add(self, name):
        return self.start(name, f"--address={HEAD}", "--num-cpus=8", own=self.files)

    def up(self, *names):
        """Waits until the head takes these nodes for alive, and no other."""
        ask = ("import ray, sys, time; ray.init('auto', log_to_driver=False)\n"
               "while sorted(n['NodeName'] for n in ray.nodes() if n['Alive']) != sys.argv[1:]: time.sleep(0.1)")
        asked = ["timeout", "60", sys.executable, "-c", ask, *names]
        wait(f"{', '.join(names)} are up", lambda: subprocess.run(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0, 300)

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
    lines = show(out, "(convert ", "(raylet) Task ")
    check(driver.returncode == 0, f"convert.py ended with {driver.returncode}", out)
    check(any("retried" in line for line in lines), "want a task that is retried", out)
    data.whole(out)
    say("the dataset is that of one builder")


def show(out, *begins):
    """Prints those lines of a program that begin so, and returns them."""
    lines = [line for line in out.splitlines() if line.startswith(begins)]
    print("".join(f"    {line[:200]}\n" for line in lines), end="")
    return lines


def replay(cluster, data, server, *load):
    """Starts replay.py on three nodes. Returns it, and the folder of its results."""
    out = os.path.join(cluster.state, "results", str(len(glob.glob(os.path.join(cluster.state, "results", "*")))))
    script = nodes.edited(os.path.join(HERE, "replay.py"), os.path.join(cluster.state, "replay.py"),
                          DATASET=repr(data.path), SERVER=repr(server.url), MODEL="'m'", LOAD=repr(["--concurrency", "12", "--no-preflight", "--asap", *load]),
                          OUT=repr(out), **{"PARTS, CPUS, PORT": "3, 8, 7878"})
    say(f"replay.py, {' '.join(load)}")
    return cluster.drive(script), out


def whole(cluster, data, server):
    """Three parts play one load. Their report has what the server counts."""
    server.gained()
    driver, out = replay(cluster, data, server, "--requests", "300")
    text, _ = driver.communicate(timeout=300)
    print(nodes.essential(text), end="")
    check(driver.returncode == 0, f"replay.py ended with {driver.returncode}", text)
    nodes.whole(nodes.report(data.agentx, out), server.gained())
    say("the report of three parts has what the server has counted")


def lost(cluster, data, server):
    """A node dies while three parts play. The others go on to their bound, and the load is not valid."""
    driver, out = replay(cluster, data, server, "--duration", "15s")
    wait("all parts play", lambda: all(nodes.host(out, part) for part in range(3)))
    name = nodes.host(out, 2)
    cluster.nodes[name].kill()
    say(f"killed {name}, which played part 2")
    text, _ = driver.communicate(timeout=300)
    print(nodes.essential(text), end="")
    check(driver.returncode != 0, "replay.py ended with 0", text)
    nodes.rest(nodes.report(data.agentx, out, "--partial"), 2)
    cluster.nodes[name] = cluster.add(name)
    cluster.up("ctl", *nodes.NODES)
    say("the other parts went on, and the report names the one that was lost")


def interrupted(cluster, data, server):
    """The program is killed: no part plays on."""
    driver, out = replay(cluster, data, server, "--duration", "10m")
    wait("all parts play", lambda: all(nodes.host(out, part) for part in range(3)))
    driver.kill()
    driver.wait()
    wait("the parts end", lambda: not nodes.running("replay"))
    check(nodes.report(data.agentx, out, "--partial")["parts"]["used"] == 3, "want what all parts have written")
    say("killed replay.py: no part plays on, and the report has what they had written")


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
    server = nodes.Server(agentx)
    for scenario in (whole, lost, interrupted):
        scenario(cluster, data, server)
    say("Ray: done")


main()
