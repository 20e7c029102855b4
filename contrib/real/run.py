#!/usr/bin/env python3
"""Replays against real inference servers without a GPU, from nothing: make test-real runs it.

    run.py AGENTX DIR RANKS [TRACES]

The servers are Dynamo's OpenAI frontend with a simulated vLLM engine, and llama.cpp's. Both come from PyPI into DIR, and
serve a tiny random model with the vocabulary RANKS. Played are the embedded traces and the directory TRACES. What the
servers count must be what was recorded: token ids make prompts, outputs and prefix hits exact, to the token. Text is
tokenized anew behind a chat template: how far that drifts is printed.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = ["gguf==0.19.0", "tokenizers==0.23.3", "numpy"]
DYNAMO = ["ai-dynamo==1.6.1", "ai-dynamo-runtime==1.6.1"]  # without all that they would bring
NEEDED = ["uvloop", "pydantic<=2.13.5", "msgspec", "prometheus-client", "typing-extensions", "packaging", "pyyaml"]
LLAMA = ["xllamacpp==2026.10.11549"]
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:3.0f} s] {text}", flush=True)


def skip(why):
    print(f"test-real: skipped: {why}")
    sys.exit(0)


def install(python, *arguments):
    """Installs from the registry. The error is its last line."""
    command = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return (done.stdout.strip().splitlines() or ["pip failed"])[-1] if done.returncode else None


def prepare(directory, ranks):
    """An environment with the servers, and the model that they serve."""
    venv, complete = os.path.join(directory, "venv"), os.path.join(directory, "venv", "complete")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(complete):
        if not (3, 10) <= sys.version_info < (3, 14):
            skip(f"the servers have no wheels for Python {sys.version.split()[0]}: 3.10 to 3.13 are needed")
        if subprocess.run([sys.executable, "-m", "venv", "--clear", venv]).returncode:
            skip("python3 cannot make a virtual environment: see above")
        why = install(python, "--no-deps", *DYNAMO) or install(python, *COMMON, *NEEDED, *LLAMA)
        if why:
            skip(f"the servers cannot be had from the registry of Python packages: {why}")
        open(complete, "w").close()
    say("servers are installed")
    model = os.path.join(directory, "model")
    if not os.path.exists(os.path.join(model, "config.json")):
        subprocess.run([python, os.path.join(HERE, "model.py"), ranks, model], check=True)
    say("model is made")
    return python, model


class Server:
    """Processes that serve the model on a port, in a session of their own each."""

    def __init__(self, name, directory):
        self.name, self.log = name, os.path.join(directory, name + ".log")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url, self.processes = f"http://127.0.0.1:{self.port}", []

    def start(self, *command, **environment):
        with open(self.log, "a") as log:
            self.processes.append(subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | environment, start_new_session=True))

    def wait(self):
        """Until the model is served."""
        for _ in range(600):
            assert all(p.poll() is None for p in self.processes), f"{self.name} has ended: {self.log}"
            try:
                with urllib.request.urlopen(self.url + "/v1/models", timeout=2) as answer:
                    models = json.load(answer)["data"]
                if models and self.healthy():
                    say(f"{self.name} is up")
                    return models[0]["id"]
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"{self.name} does not come up: {self.log}")

    def healthy(self):
        with urllib.request.urlopen(self.url + "/health", timeout=2) as answer:
            return answer.status == 200

    def stop(self):
        for p in self.processes:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()


def dynamo(python, model, directory):
    s, state = Server("dynamo", directory), os.path.join(directory, "dynamo")
    shutil.rmtree(state, ignore_errors=True)
    os.makedirs(state)
    environment = dict(DYN_FILE_KV=state, DYN_DISCOVERY_BACKEND="file", DYN_REQUEST_PLANE="tcp", DYN_EVENT_PLANE="zmq", DYN_LOG="warn", HF_HUB_OFFLINE="1")
    s.start(python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(s.port), "--router-mode", "round-robin", **environment)
    s.start(python, "-m", "dynamo.mocker", "--model-path", model, "--model-name", "tiny", "--num-workers", "1", "--block-size", "64",
            "--num-gpu-blocks-override", "65536", "--speedup-ratio", "100", "--max-model-len", "262144", **environment)
    return s


def llama(python, model, directory):
    s = Server("llama.cpp", directory)
    s.start(python, os.path.join(HERE, "llama.py"), os.path.join(model, "tiny.gguf"), str(s.port))
    return s


class Traces:
    """Prepared traces, and what a server should count of them."""

    def __init__(self, agentx, source, cache):
        self.agentx, self.name, self.cache = agentx, os.path.basename(source), cache
        self.key = self.run("convert", source, "--quiet").strip().splitlines()[-1]
        block = 64  # of all inputs
        self.hits = [json.loads(line)["hit_blocks"] * block for line in self.run("inspect", self.key, "--digest").splitlines()]

    def run(self, *arguments):
        done = subprocess.run([self.agentx, *arguments, "--cache", self.cache], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"agentx {arguments[0]}: exit {done.returncode}: {done.stdout}"
        return done.stdout

    def replay(self, server, model, payload, traces, out):
        summary = json.loads(self.run(
            "replay", self.key, "--url", server.url, "--model", model, "--payload", payload, "--marker", "off", "--asap", "--concurrency",
            "4" if server.name == "dynamo" else "1", "--limit-traces", str(traces or len(self.hits)), "--quiet", "--json", "--out", out))
        with open(os.path.join(out, "records.jsonl")) as f:
            asked = sum(json.loads(line)["max_tokens"] for line in f)
        return summary, asked, sum(self.hits[:traces or None])


def check(traces, server, model, payload, limit, out):
    """Plays the first traces, all where limit is 0. What is sent as token ids must be counted exactly."""
    what = f"{server.name}, {traces.name}, {payload}"
    s, asked, hits = traces.replay(server, model, payload, limit, os.path.join(out, what.replace(", ", "-")))
    got = {"errors": s["errors"], "completed": s["completed"], "output tokens": s["output_tokens"],
           "prompt tokens": s["prompt_tokens"], "cached tokens": s["cached_tokens"]}
    want = {"errors": {}, "completed": s["requests"], "output tokens": asked,
            "prompt tokens": s["recorded_prompt_tokens"], "cached tokens": hits}
    if payload == "chat":
        drift = ", ".join(f"{name} {got[name] - want[name]:+} ({(got[name] - want[name]) / want[name]:+.2%})" for name in ("prompt tokens", "cached tokens"))
        want |= {name: got[name] for name in ("prompt tokens", "cached tokens")}
    wrong = [f"{name} {got[name]}, want {want[name]}" for name in want if got[name] != want[name]]
    assert not wrong, f"{what}: " + "; ".join(wrong)
    if payload == "chat":
        say(f"{what}: {s['requests']} requests: {drift}")
    else:
        say(f"{what}: {s['requests']} requests: {hits:,} of {s['prompt_tokens']:,} prompt tokens cached, {asked:,} output tokens: exact")


def first_hits(traces, server, model, warmup, out):
    """Begins in the middle of the traces, and returns which share of each lane's first prompt the server had cached."""
    traces.run("replay", traces.key, "--url", server.url, "--model", model, "--payload", "ids", "--marker", "system_prefix", "--concurrency", "8", "--asap",
               "--start", "sampled", "--warmup", warmup, "--set", "system-idle-cap=1s", "--trees", "8", "--quiet", "--json", "--out", out)
    first = {}
    with open(os.path.join(out, "records.jsonl")) as f:
        for r in map(json.loads, f):
            lane = r["lane"]
            if r["phase"] == "profiling" and (lane not in first or r["sent"] < first[lane]["sent"]):
                first[lane] = r
    return sum(r.get("cached_tokens", 0) for r in first.values()) / sum(r["prompt_tokens"] for r in first.values())


def check_warmup(traces, server, model, out):
    """Primers bring the prefix cache of the server to the state in which lanes begin; nothing else does."""
    cold, warm = (first_hits(traces, server, model, w, os.path.join(out, "warmup-" + w)) for w in ("none", "primers"))
    what = f"{server.name}, {traces.name}, sampled: {cold:.1%} of the first prompts cached without warmup, {warm:.1%} with primers"
    assert cold == 0 and warm > 0.5, what
    say(what)


def check_dynamo(server, inputs, out):
    model = server.wait()
    check_warmup(inputs[0], server, model, out)
    for traces in inputs:
        for payload in ("ids", "chat"):
            check(traces, server, model, payload, 0, out)


def check_llama(server, inputs, out):
    """The tokens of this server cost time: it gets fewer."""
    model, traces = server.wait(), inputs[-1]
    check(traces, server, model, "ids", 3 if len(inputs) == 1 else 0, out)
    check(traces, server, model, "chat", 1, out)


def main():
    agentx, directory, ranks = map(os.path.abspath, sys.argv[1:4])
    os.makedirs(directory, exist_ok=True)
    python, model = prepare(directory, ranks)
    out = os.path.join(directory, "out")
    shutil.rmtree(out, ignore_errors=True)
    servers = []
    try:
        servers = [dynamo(python, model, directory), llama(python, model, directory)]
        inputs = [Traces(agentx, source, os.path.join(directory, "cache")) for source in ["demo", *map(os.path.abspath, sys.argv[4:])]]
        with ThreadPoolExecutor() as pool:
            checks = [pool.submit(f, server, inputs, out) for f, server in zip((check_dynamo, check_llama), servers)]
            wrong = [str(c.exception()) for c in checks if c.exception()]
    finally:
        for server in servers:
            server.stop()
    for line in wrong:
        say(f"failed: {line}")
    if wrong:
        sys.exit(1)
    say("all counts are exact")


main()
