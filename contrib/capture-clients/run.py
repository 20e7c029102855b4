#!/usr/bin/env python3
"""Holds agentx capture against the official clients of OpenAI and Anthropic: make test-capture-clients runs it.

    run.py AGENTX DIR RANKS [AIPERF]

agent.py runs against agentx mock, directly and through agentx capture. What the clients return is the same. The traces have what canon.py
computes from the bodies that the clients sent; they are good, conversion takes them in both profiles, and a replay of them through a
second capture gives the same blocks. RANKS is o200k_base.tiktoken, as the Go module tiktoken-go-loader has it. AIPERF is a Python with
AIPerf 0.13.0, which then reads the traces as well.
"""
import collections
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import anthropic
import openai

import agent
import canon

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 16
MOCK = ["mock", "--cache-blocks", "-1", "--itl", "5ms", "--fault", "status=529:0.12", "--seed", "3"]


def check(fine, text, *details):
    if not fine:
        for detail in details:
            print(detail, file=sys.stderr)
        sys.exit(f"test-capture-clients: {text}")


class Server:
    """A verb of agentx that serves until it is interrupted. Its first lines on standard output are NAME URL."""

    def __init__(self, lines, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.urls = [self.process.stdout.readline().split()[-1] for _ in range(lines)]

    def end(self):
        """Interrupts it, and returns what it printed since."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        check(self.process.returncode in (0, 130), f"{self.process.args[1]} ended with {self.process.returncode}", err)
        return out


@contextlib.contextmanager
def serving(*arguments):
    server = Server(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def agentx(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}", done.stdout, done.stderr)
    return done.stdout


def play(program, out=None):
    """Runs the agent against a mock, through a capture if out names its directory. Returns its sessions and what the capture came to."""
    with serving(1, program, *MOCK) as mock:
        if out is None:
            return agent.run(mock.urls[0], through=False), None
        with serving(2, program, "capture", "--upstream", mock.urls[0], "--out", out, "--block-size", str(BLOCK), "--json") as capture:
            sessions = agent.run(capture.urls[0], through=True)
            return sessions, json.loads(capture.end())


def same_replies(direct, through):
    for a, b in zip(direct, through):
        check(list(a.records) == list(b.records) or sorted(a.records) == sorted(b.records), f"{a.name}: other calls", a.records.keys(), b.records.keys())
        for call, want in a.records.items():
            check(b.records[call] == want, f"{a.name}: {call}: through the capture the client returned something else", want, b.records[call])
    return sum(len(r) for s in direct for r in s.records.values())


def counts(sessions, summary):
    """Every request is accounted for, as the clients saw it."""
    statuses = collections.Counter(code for s in sessions for code in s.statuses)
    attempts = sum(len(s.attempts) for s in sessions)
    recorded, partial = sum(len(s.sent) for s in sessions), sum(q.partial for s in sessions for q in s.sent)
    check(set(statuses) == {200, 529} and statuses[529] > 0, f"statuses are {dict(statuses)}: want some that were retried")
    check(summary["sessions"] == summary["traces"] == len(sessions), "one trace per session is wanted", summary)
    check((summary["requests"], summary["recorded"]) == (attempts, recorded), f"the clients made {attempts} requests, of which {recorded} belong into traces", summary)
    check(summary["not_recorded"] == {"status": statuses[529], "endpoint": 1}, f"want {statuses[529]} for their status, and the list of models", summary)
    check(summary["marks"] == {"partial": partial, "out_counted": partial} and summary["incomplete"] == 0, f"want {partial} replies that were cancelled", summary)
    return attempts, recorded, statuses[529]


class Expected:
    """What the trace of a session must have."""

    def __init__(self, reader, session):
        self.session, self.agents, self.encode = session, {}, reader.encode
        for name in ["", *agent.AGENTS]:
            for sent in session.of(name):
                tokens = reader.prompt(sent.path, sent.body)
                if sent.response:
                    reader.remember(sent.body, tokens, sent.outcome)
                self.agents.setdefault(name, []).append((sent, tokens))
        self.sizes = reader.sizes(session.of("")[0].path, session.of("")[0].body)

    def agent_of(self, entry):
        """The subagent whose first prompt is as long as that of an entry."""
        return next((n for n, list in self.agents.items() if n and len(list[0][1]) == entry["requests"][0]["in"]), None)

    def holds(self, trace):
        name, numbers = self.session.name, canon.Numbers(BLOCK)
        left = {n: list(requests) for n, requests in self.agents.items()}
        check((trace["tool_tokens"], trace["system_tokens"]) == self.sizes, f"{name}: tools and system have {self.sizes} tokens", trace["tool_tokens"], trace["system_tokens"])
        for entry in trace["requests"]:
            which = ""
            if entry["type"] == "subagent":
                which = self.agent_of(entry)
                check(which is not None, f"{name}: a subagent that no client ran", entry)
                inner = entry["requests"]
                check(entry["total_tokens"] == sum(q["in"] + q["out"] for q in inner) and entry["status"] == "completed", f"{name}: {which}", entry)
            for got in entry.get("requests", [entry]):
                check(left[which], f"{name}: {which or 'main'} has a request that no client sent", got)
                self.request(got, *left[which].pop(0), numbers, f"{name}: {which or 'main'}")
        check(not any(left.values()), f"{name}: the trace lacks requests", left)

    def request(self, got, sent, tokens, numbers, where):
        want = {"in": len(tokens), "hash_ids": numbers.of(tokens), "type": "s" if sent.body.get("stream") else "n", "model": sent.body["model"],
                "input_types": sent.inputs or canon.inputs(sent.body), "output_types": sent.outputs, "stop": sent.stop, "out": sent.out}
        if sent.partial:
            check(len(self.encode(sent.seen)) <= got["out"] < 2000, f"{where}: out {got['out']} of a stream that was cancelled after {sent.seen!r}")
            want["out"] = got["out"]
        for key, value in want.items():
            check(got.get(key) == value, f"{where}: {key} is {got.get(key)}, want {value}", got, sent.body)
        check(not sent.body.get("stream") or 0 <= got["ttft"] <= got["api_time"], f"{where}: times", got)


def silent(out, sessions):
    """Nothing of what was said, and of who said it, is on disk."""
    secret = ["careful", "parser", "secret", "Find all", "1111", *(s.name for s in sessions), "naïve", "call_", "msg_", "127.0.0.1"]
    for path in glob.glob(os.path.join(out, "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for word in secret:
                check(word not in text and word not in path, f"{path} has {word!r}")


def tries(program, *inputs):
    files = json.loads(agentx(program, "capture", "check", "--trie", "--json", *inputs))["files"]
    return sorted((f["digest"], f["nodes"], f["requests"]) for f in files)


def round_trip(program, directory, traces):
    """Converts the traces, in both profiles, and replays them through another capture."""
    cache, out = os.path.join(directory, "cache"), os.path.join(directory, "again")
    agentx(program, "convert", traces, "--cache", cache, "--profile", "aiperf", "--strict", "--quiet")
    key = agentx(program, "convert", traces, "--cache", cache, "--strict", "--quiet").splitlines()[-1]
    with serving(1, program, "mock") as mock, \
            serving(2, program, "capture", "--upstream", mock.urls[0], "--out", out, "--block-size", str(BLOCK), "--json") as capture:
        agentx(program, "replay", key, "--cache", cache, "--url", capture.urls[0], "--model", "m", "--once", "--asap", "--marker", "off", "--payload", "ids",
               "--session-header", "X-Dynamo-Session-ID", "--no-preflight", "--scrape", "off", "--out", os.path.join(directory, "results"), "--quiet")
        capture.end()
    return tries(program, traces), tries(program, out)


def read_by_aiperf(program, directory, traces, ranks, python):
    """AIPerf makes of the traces what conversion makes of them."""
    corpus, reader = os.path.join(directory, "coding.u32le"), os.path.join(HERE, "..", "aiperf", "check.py")
    lines = ""
    for path in sorted(glob.glob(os.path.join(traces, "*.json"))):
        with open(path, encoding="utf-8") as file:
            lines += file.read()
    done = subprocess.run([python, reader, "--seed", "42", "--ranks", ranks, "--corpus", corpus], input=lines, capture_output=True, text=True)
    check(done.returncode == 0, "AIPerf refuses the traces", done.stderr)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    key = agentx(program, "convert", traces, "--cache", os.path.join(directory, "cache"), "--profile", "aiperf", "--strict", "--corpus", corpus, "--quiet").splitlines()[-1]
    digests = agentx(program, "inspect", key, "--cache", os.path.join(directory, "cache"), "--digest", "--model", "test-model").splitlines()
    check(len(theirs) == len(digests), "AIPerf reads another number of traces", theirs)
    for line, want in zip(digests, theirs):
        ours = json.loads(line)
        differ = [k for k, value in want.items() if ours.get(k) != value]
        check(not differ, f"{ours['id']}: AIPerf reads something else: {differ}", want, ours)
    return len(theirs)


def main(program, directory, ranks, aiperf=""):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    began, out = time.monotonic(), os.path.join(directory, "captured")
    direct, _ = play(program)
    through, summary = play(program, out)
    replies = same_replies(direct, through)
    attempts, recorded, retried = counts(through, summary)
    silent(out, through)

    traces = {}
    for path in glob.glob(os.path.join(out, "traces", "*")):
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        traces[trace["models"][0]] = trace
    reader = canon.Canon(ranks)
    for session in through:
        Expected(reader, session).holds(traces[session.model])
    before, after = round_trip(program, directory, os.path.join(out, "traces"))
    check(before == after, "the round trip gave other tries", before, after)
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}: {len(through)} sessions, {attempts} requests, {retried} of them answered 529 and tried again, "
          f"{recorded} in traces as predicted; {replies} objects and events as without capture; round trip equal; {time.monotonic() - began:.0f} s")
    for digest, nodes, requests in before:
        print(f"  {digest} {nodes} blocks, {requests} requests")
    if aiperf:
        print(f"AIPerf reads {read_by_aiperf(program, directory, os.path.join(out, 'traces'), ranks, aiperf)} traces as conversion does")
    else:
        print("without AIPerf: make test-oracle installs it")


if __name__ == "__main__":
    main(*sys.argv[1:])
