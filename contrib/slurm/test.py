#!/usr/bin/env python3
"""Runs the files of this folder on a Slurm of three nodes: make test-slurm.

    test.py AGENTX DIR

Slurm comes from Debian, is unpacked into DIR and not installed. It skips, with the reason, where that cannot be had.
"""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import nodes
from nodes import check, run, say, wait

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge"]
CONF = """
ClusterName=agentx
SlurmctldHost=ctl
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge.sock
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={state}/ctl
SlurmdSpoolDir={state}/%n
SlurmctldPidFile={state}/ctl.pid
SlurmdPidFile={state}/%n.pid
SlurmctldLogFile={state}/ctl.log
SlurmdLogFile={state}/%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1,bf_interval=1
ReturnToService=2
NodeName=n[0-2] Port=[7000-7002] CPUs=8 RealMemory=64000
PartitionName=main Nodes=ALL Default=YES State=UP
"""


def skip(why):
    print(f"test-slurm: skipped: {why}")
    sys.exit(0)


def call(*command):
    """Returns what a command says last where it fails, or None."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return (done.stdout.strip().splitlines() or [f"{command[0]} failed"])[-1] if done.returncode else None


def unpack(root):
    """Unpacks those packages of Slurm that this machine lacks. Returns why it cannot, or None."""
    complete, debs = os.path.join(root, "complete"), os.path.join(root, "debs")
    if os.path.exists(complete):
        return None
    for program in ("apt-get", "dpkg"):
        if not shutil.which(program):
            return f"there is no {program}"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(os.path.join(debs, "partial"))
    download = ["apt-get", "install", "--yes", "--quiet", "--download-only", "--no-install-recommends", "-o", f"Dir::Cache::archives={debs}", *PACKAGES]
    why = call(*download) and (call("apt-get", "update", "--quiet") or call(*download))
    for deb in glob.glob(os.path.join(debs, "*.deb")):
        why = why or call("dpkg", "-x", deb, root)
    if not why:
        shutil.rmtree(debs)
        open(complete, "w").close()
    return why


def use(root):
    """Puts the programs of Slurm on the path. Returns the folder of its plugins."""
    libraries = glob.glob(os.path.join(root, "usr/lib/*-linux-gnu"))
    plugins = [p for folder in (root, "/") for p in glob.glob(os.path.join(folder, "usr/lib/*-linux-gnu/slurm*/auth_munge.so"))]
    check(plugins, "the packages have no plugins of Slurm")
    folder = os.path.dirname(plugins[0])
    os.environ["PATH"] = os.pathsep.join([os.path.join(root, "usr/bin"), os.path.join(root, "usr/sbin"), os.environ["PATH"], "/usr/sbin"])
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join([*libraries, folder])
    return folder


def program(name):
    """The path of a daemon, which Debian calls NAME-wlm."""
    return shutil.which(name + "-wlm") or shutil.which(name)


class Slurm:
    """A controller here, and a daemon on each node."""

    def __init__(self, state, plugins):
        self.state = state
        os.environ["SLURM_CONF"] = self.write("slurm.conf", CONF.format(state=state, plugins=plugins))
        self.write("cgroup.conf", f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={state}\n")  # nothing uses it
        key = self.write("munge.key", os.urandom(64).hex())
        os.chmod(key, 0o400)
        os.mkdir(os.path.join(state, "ctl"))
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", *(f"--{what}={state}/munge.{end}" for what, end in (
            ("socket", "sock"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))))
        wait("munged comes up", lambda: os.path.exists(os.path.join(state, "munge.sock")))
        self.daemon(program("slurmctld"), "-D", "-c")
        self.nodes = {name: self.node(name) for name in nodes.NODES}
        wait("three nodes are idle", lambda: self.states() == ["idle"] * 3)
        say(f"{run('sinfo', '--version').strip()}: three nodes are up")

    def write(self, name, text):
        with open(os.path.join(self.state, name), "w") as f:
            f.write(text)
        return f.name

    def daemon(self, *command):
        with open(os.path.join(self.state, os.path.basename(command[0]) + ".out"), "w") as out:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def node(self, name):
        os.makedirs(os.path.join(self.state, name), exist_ok=True)
        return nodes.Node(name, os.path.join(self.state, name + ".out"), program("slurmd"), "-D", "-N", name, "-d", program("slurmstepd"))

    def states(self):
        return sorted(subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"], stdout=subprocess.PIPE, text=True).stdout.split())

    def submit(self, *arguments):
        return run("sbatch", "--parsable", *arguments, cwd=self.state).strip()

    def tasks(self, job):
        """State and node of each task of a job, by its number in the array: N/A if it is none."""
        lines = run("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%K %T %N").splitlines()
        return {task: (state, "".join(node)) for task, state, *node in map(str.split, lines)}

    def ended(self, job):
        wait(f"job {job} ends", lambda: not {s for s, _ in self.tasks(job).values()} & {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}, 300)
        return {task: state for task, (state, _) in self.tasks(job).items()}

    def log(self, pattern):
        text = ""
        for path in sorted(glob.glob(os.path.join(self.state, pattern))):
            with open(path) as f:
                text += "".join(f"    {os.path.basename(path)}: {line}" for line in f)
        return text


def convert(slurm, data):
    """An array of three builds a dataset. The first that has a lease is killed, and requeued."""
    script = nodes.edited(os.path.join(HERE, "convert.sbatch"), os.path.join(slurm.state, "convert.sbatch"), INPUT=data.corpus, CACHE=data.cache)
    job = slurm.submit("--array=0-2", script)
    say(f"sbatch --array=0-2 convert.sbatch: job {job}")
    node = wait("a task has a lease", data.builders)[0]
    task = next(t for t, (_, n) in slurm.tasks(job).items() if n == node)
    run("scancel", "--signal=KILL", "--batch", f"{job}_{task}")
    check(not os.path.exists(data.path), f"the dataset was complete before task {task} was killed: want more traces")
    wait("the task ends", lambda: slurm.tasks(job)[task][0] in ("FAILED", "CANCELLED"))
    say(f"scancel --signal=KILL: task {task} on {node}, which had a lease; squeue: {slurm.tasks(job)}")
    run("scontrol", "requeue", f"{job}_{task}")
    run("scontrol", "update", f"JobId={job}_{task}", "StartTime=now+5")  # sooner, Slurm takes its credential for that of the killed
    states = slurm.ended(job)
    log = slurm.log(f"agentx-convert-{job}_*.log")
    print(log, end="")
    check(set(states.values()) == {"COMPLETED"}, f"job {job}: {states}", slurm.log("ctl.log"))
    data.whole(log)
    say(f"task {task} was requeued; three tasks printed the dataset, which is that of one builder")


def replay(slurm, data, server, load):
    """Submits replay.sbatch on three nodes. Returns the job and the folder of its results."""
    results = os.path.join(slurm.state, "results")
    script = nodes.edited(os.path.join(HERE, "replay.sbatch"), os.path.join(slurm.state, "replay.sbatch"), DATASET=data.path,
                          SERVER=server.url, MODEL="m", LOAD=f'"--concurrency 12 --no-preflight --asap {load}"', RESULTS=results)
    job = slurm.submit("--nodes=3", script)
    say(f"sbatch --nodes=3 replay.sbatch, {load}: job {job}")
    return job, os.path.join(results, job)


def ended(slurm, job, state):
    """Waits for a replay, which must end so. Returns its log, and prints what of it is not a table."""
    states, log = slurm.ended(job), slurm.log(f"agentx-replay-{job}.log")
    print(nodes.essential(log), end="")
    check(states == {"N/A": state}, f"job {job}: {states}", slurm.log("ctl.log"))
    return log


def whole(slurm, data, server):
    """Three parts play one load. Their report has what the server counts."""
    server.gained()
    job, out = replay(slurm, data, server, "--requests 300")
    ended(slurm, job, "COMPLETED")
    nodes.whole(nodes.report(data.agentx, out), server.gained())
    say("the report of three parts has what the server has counted")


def lost(slurm, data, server):
    """A node dies while three parts play. The others go on to their bound, and the load is not valid."""
    job, out = replay(slurm, data, server, "--duration 15s")
    wait("all parts play", lambda: all(nodes.host(out, part) for part in range(3)))
    name = nodes.host(out, 2)
    slurm.nodes[name].kill()
    say(f"killed {name}, which played part 2")
    ended(slurm, job, "FAILED")
    nodes.rest(nodes.report(data.agentx, out, "--partial"), 2)
    slurm.nodes[name] = slurm.node(name)
    wait("three nodes are idle", lambda: slurm.states() == ["idle"] * 3)
    say("the other parts went on, and the report names the one that was lost")


def interrupted(slurm, data, server):
    """scancel --signal=INT ends all parts, with their results."""
    job, out = replay(slurm, data, server, "--duration 10m")
    wait("all parts play", lambda: all(nodes.host(out, part) for part in range(3)))
    run("scancel", "--signal=INT", job)
    log = ended(slurm, job, "FAILED")
    check("interrupted" in log and nodes.report(data.agentx, out)["parts"]["used"] == 3, "want results of all parts", log)
    say("scancel --signal=INT: all parts have ended, and have results")


def contradict(slurm):
    """An environment of Slurm that names no part, or contradicts itself, is refused before any traffic."""
    for options, want in (
        (("--nodes=3", "--ntasks=3"), "a batch script is one process, and srun starts the parts"),
        (("--array=0-1", "--ntasks=1"), "SLURM_NTASKS=1 in an array of 2"),
        ((), "SLURM_PROCID=0 without SLURM_NTASKS"),
    ):
        job = slurm.submit(*options, "--output=wrong-%A.log", "--wrap=agentx replay demo --url http://ctl:1 --model m --concurrency 3 --part auto --out wrong; test $? = 2")
        states, log = slurm.ended(job), slurm.log(f"wrong-{job}.log")
        check(set(states.values()) == {"COMPLETED"} and want in log, f"job {job}: want status 2 and {want!r}", states, log)
        print(log.splitlines()[0])


def main():
    agentx, directory = map(os.path.abspath, sys.argv[1:3])
    why = nodes.lacks() or unpack(os.path.join(directory, "root"))
    if why:
        skip(why)
    state = nodes.enter()
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(agentx), os.environ["PATH"]])
    plugins = use(os.path.join(directory, "root"))
    data = nodes.Dataset(agentx, state, files=12, traces=100)
    slurm = Slurm(state, plugins)
    convert(slurm, data)
    contradict(slurm)
    server = nodes.Server(agentx)
    for scenario in (whole, lost, interrupted):
        scenario(slurm, data, server)
    say("Slurm: done")


main()
