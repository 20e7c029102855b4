"""A cluster of three nodes on one machine: what make test-slurm and make test-ray share.

A node is a namespace of Linux, with a host name, an address and process numbers of its own. Files are shared, as by a cluster's file system.
A node that is killed takes all its processes along, as a machine that loses power does; the program ends, and so does every node.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

NODES = {"n0": "10.21.0.1", "n1": "10.21.0.2", "n2": "10.21.0.3"}
CONTROL = {"ctl": "10.21.0.9"}  # where this program runs
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:3.0f} s] {text}", flush=True)


def check(fine, text, *details):
    if not fine:
        for detail in details:
            print(detail, file=sys.stderr)
        sys.exit(f"failed: {text}")


def run(*command, status=0, **more):
    """Returns what a command prints. It ends the program where the command ends with another status."""
    done = subprocess.run(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | more)
    check(done.returncode == status, f"{' '.join(command)} ended with {done.returncode}, want {status}", done.stdout)
    return done.stdout


def wait(what, question, seconds=120):
    """Until the question has an answer, which it returns."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = question()
        if answer:
            return answer
        time.sleep(0.02)
    sys.exit(f"failed: {what}: not within {seconds} s")


def lacks():
    """What namespaces need and this machine has not, or None."""
    if not sys.platform.startswith("linux") or os.getuid() != 0:
        return "nodes are namespaces of Linux: want root"
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("ps", "procps")):
        if not shutil.which(program):
            return f"there is no {program} (Debian package {package})"
    return None


def enter():
    """Runs this program again, in namespaces of its own and with a folder of its own, which it returns to that second run alone.

    Outside, no port, process or name of it is seen, and all its processes end with it."""
    if "AGENTX_NODES" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="agentx-") as state:
            command = ["unshare", "--mount", "--uts", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv]
            sys.exit(subprocess.run(command, env=os.environ | {"AGENTX_NODES": state}).returncode)
    state, names = os.environ.pop("AGENTX_NODES"), NODES | CONTROL
    run("hostname", *CONTROL)
    run("ip", "link", "set", "lo", "up")
    for address in names.values():
        run("ip", "address", "add", f"{address}/24", "dev", "lo")
    hosts = os.path.join(state, "hosts")
    with open(hosts, "w") as f:
        f.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items()))
    run("mount", "--bind", hosts, "/etc/hosts")
    return state


class Node:
    """A node that runs one command, a daemon in the foreground, again if it fails. If own is a folder, the node has another of its own in its place."""

    def __init__(self, name, log, *command, own=None):
        self.name = name
        steps = ['hostname "$0"', 'until "$@"; do sleep 1; done']
        if own:
            os.makedirs(f"{own}.{name}", exist_ok=True)
            steps.insert(1, f"mount --bind '{own}.{name}' '{own}'")
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", " && ".join(steps), name, *command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def kill(self):
        self.process.kill()
        self.process.wait()


def read(path):
    with open(path) as f:
        return f.read()


def edited(file, to, **values):
    """Copies a file as a user edits it: lines NAME=... and NAME = ... get these values."""
    text = read(file)
    for name, value in values.items():
        text, lines = re.subn(rf"^({name} ?= ?).*$", lambda m: m[1] + value, text, flags=re.MULTILINE)
        check(lines == 1, f"{file} has {lines} lines {name}=, want one")
    with open(to, "w") as f:
        f.write(text)
    return to


class Dataset:
    """A corpus, what one builder makes of it, and the cache that the nodes share."""

    def __init__(self, agentx, state, files, traces):
        self.agentx, self.corpus, self.cache = agentx, os.path.join(state, "corpus"), os.path.join(state, "cache")
        os.mkdir(self.corpus)
        for i in range(files):
            run(agentx, "synth", "--traces", str(traces), "--first", str(i * traces), "--output", os.path.join(self.corpus, f"{i:02}.jsonl"), "--quiet")
        alone = run(agentx, "convert", self.corpus, "--cache", os.path.join(state, "alone"), "--quiet").splitlines()[-1]
        self.files, self.key, self.alone = files, os.path.basename(alone), os.path.join(state, "alone")
        self.path = os.path.join(self.cache, "dataset", self.key)

    def builders(self):
        """The nodes of which processes have leases in the cache."""
        owners = {os.path.basename(path).split("_")[0] for path in glob.glob(os.path.join(self.cache, ".staging", "*", "*"))}
        return sorted(owners & set(NODES))

    def whole(self, log):
        """Every builder ends with the dataset. It is what one builder makes alone, byte for byte; no shard was built twice, and nothing of the killed is left."""
        found = [int(n) for n in re.findall(rf" {self.files} shards \((\d+) found\)", log)]
        check(log.count(self.path) == len(found) == len(NODES), f"want {self.path} from each of {len(NODES)} builders", log)
        check(sum(self.files - n for n in found) <= self.files, f"want {self.files} shards built once: found were {found}", log)
        run(self.agentx, "cache", "verify", self.key, "--cache", self.cache)
        run("diff", "-r", "--exclude=provenance.json", "--exclude=.*", self.alone, self.cache)
        check(not self.builders(), "a lease is left in the cache")


class Server:
    """A mock of an inference server, which counts what all parts of a load send."""

    url = "http://ctl:8000"

    def __init__(self, agentx):
        subprocess.Popen([agentx, "mock", "--listen", CONTROL["ctl"] + ":8000", "--ttft", "20ms", "--itl", "1ms"], stdout=subprocess.DEVNULL)
        wait("the mock listens", self.counts)
        self.before = self.counts()

    def counts(self):
        try:
            with urllib.request.urlopen(self.url + "/stats") as answer:
                stats = json.load(answer)
        except OSError:
            return None
        return {name: stats[name] for name in ("requests", "prompt_tokens", "output_tokens")}

    def gained(self):
        """What it has counted since the last call."""
        now, before = self.counts(), self.before
        self.before = now
        return {name: now[name] - before[name] for name in now}


def host(out, part):
    """The host of a part, once it has written records; before, None."""
    folders = glob.glob(os.path.join(out, f"part-{part:05}-of-*"))
    if not folders or not os.path.exists(os.path.join(folders[0], "records.jsonl")) or not os.path.getsize(os.path.join(folders[0], "records.jsonl")):
        return None
    return json.loads(read(os.path.join(folders[0], "run.json")))["host"]


def essential(log):
    """The lines of a log that say what has happened, and what the whole load came to."""
    lines = re.findall(r"^.*(?:agentx: |srun: |slurmstepd|exceptions|parts  |part \d has|\d: requests |requests  |throughput  |valid  ).*$", log, re.MULTILINE)
    return "".join(f"{line[:200]}\n" for line in lines)


def running(verb):
    """Whether a node runs this verb of agentx."""
    return any(line.split()[:2] == ["agentx", verb] for line in run("ps", "-e", "-o", "args=").splitlines())


def report(agentx, out, *flags):
    """The report of a load."""
    return json.loads(run(agentx, "report", out, "--json", "--quiet", *flags, stderr=subprocess.DEVNULL))


def whole(summary, counted):
    """The summary is that of three parts that have met, and has what the server has counted."""
    check({name: summary[name] for name in counted} == counted, f"the server has counted {counted}", summary)
    check(summary["valid"] is not False and summary["parts"]["used"] == 3, "want a load of three parts", summary)
    check(0 <= summary["parts"]["clocks"]["uncertainty"] < 0.05, "want clocks that have been compared", summary["parts"])
    hosts = sorted(p["host"] for p in summary["parts"]["list"])
    check(hosts == sorted(NODES), f"want a part on each node, and not {hosts}")


def rest(summary, part):
    """The summary is that of three parts of which one was lost."""
    check(summary["valid"] is False and "part_lost" in summary["reasons"], "want a load that is not valid", summary)
    check([p["part"] for p in summary["parts"]["list"] if p.get("lost") or p.get("left_out")] == [part], f"want part {part} lost", summary["parts"])
    sent = [p["requests"] for p in summary["parts"]["list"]]
    check(all(sent[k] > sent[part] for k in range(3) if k != part), f"want parts that went on: {sent}")
