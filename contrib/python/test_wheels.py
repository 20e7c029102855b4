#!/usr/bin/env python3
"""Installs the wheel of this machine as people do, and uses it: make test-wheels.

    test_wheels.py DIST SCRATCH    with pip and with uv, beside the distributions agentx and agentx-harness; others run in QEMU if it is there

pyarrow, pandas, uv and the two distributions come from PyPI; a part whose packages cannot be had is skipped, with the reason.
"""
import glob
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import wheels

MAX_BINARY = 30_000_000
USE = '''
import importlib.util, os, sys, agentx_replay as agentx
url, cache_root, out = sys.argv[1:]
agentx.run(["replay", "demo", "--cache", cache_root, "--url", url, "--model", "m", "--concurrency", "4", "--asap", "--requests", "200",
            "--no-calibrate", "--quiet", "--out", out])
results = agentx.Results(out)
assert results.summary["completed"] >= 200, results.summary
assert results.figures()["ttft.p95"] == results.summary["ttft"]["p95"] and all(type(v) in (int, float) for v in results.figures().values())
cache = agentx.run(["convert", "demo", "--cache", cache_root, "--quiet"]).stdout.splitlines()[-1]
opened = agentx.open_cache(cache, "--cache", cache_root)
if not importlib.util.find_spec("pyarrow"):
    try:
        results.records()
    except ImportError as err:
        assert "pip install pyarrow" in str(err), err
        sys.exit()
    sys.exit("records without pyarrow: want an error")
records, all_tables = results.records("pandas"), results.tables()
assert len(records) == results.summary["requests"] == all_tables["records"].num_rows, len(records)
assert list(results.lanes("pandas")["lane"]) == [0, 1, 2, 3]
assert records["output_tokens"].sum() == results.summary["output_tokens"]
assert opened.traces().num_rows == 16 and opened.turns().num_rows == 197, opened.turns()
assert sorted(set(opened.turns("pandas")["model"])) == ["demo-large", "demo-small"]
whole = {name: opened.table(name) for name in opened.names}
os.mkdir(cache_root + "/shards")
for k in range(3):
    agentx.run(["synth", "--quiet", "--traces", 2, "--first", 2 * k, "--output", f"{cache_root}/shards/{k}.jsonl"])
sharded = agentx.run(["convert", cache_root + "/shards", "--cache", cache_root, "--quiet"]).stdout.splitlines()[-1]
opened = agentx.open_cache(sharded, "--cache", cache_root)
traces, sessions = opened.traces("pandas"), opened.sessions("pandas")
assert len(opened.structures) > 1 and list(traces["first_session"])[1:] == list(traces["sessions"].cumsum())[:-1], traces
assert len(sessions) == traces["sessions"].sum() and all(sessions["parent"][list(traces["first_session"])] == -1)
try:
    agentx.run(["replay", "nosuch"], stderr=-3)
except Exception as err:
    assert err.returncode == 2, err
else:
    sys.exit("a wrong command line: want CalledProcessError")
'''


def run(*command, path=None, **options):
    env = {**os.environ, "PATH": os.pathsep.join(filter(None, [path, os.environ["PATH"]])), **options.pop("env", {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=env, **options)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def venv(folder, *packages, installer=("pip",)):
    """A fresh environment with packages, or None, with the reason, where these cannot be had."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", folder)
    python = os.path.join(folder, "bin", "python")
    pip = [python, "-m", "pip"] if installer == ("pip",) else [*installer, "pip"]
    target = [] if installer == ("pip",) else ["--python", python]
    done = subprocess.run([*pip, "install", "--quiet", *target, *packages], stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        print(f"test-wheels: skipped {os.path.basename(folder)}: {done.stderr.strip().splitlines()[-1]}")
        return None
    return folder


def check_files(wheel):
    """The bytes of a wheel: RECORD, modes, licences, tags, the binary."""
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        record = dict(line.split(",", 1) for line in z.read(names[-1]).decode().splitlines())
        assert names[-1].endswith("RECORD") and sorted(record) == sorted(names), names
        assert {i.date_time for i in z.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        binary = next(n for n in names if "/scripts/" in n)
        assert z.getinfo(binary).external_attr >> 16 == 0o100755 and z.getinfo(binary).file_size < MAX_BINARY, z.getinfo(binary)
        tags = os.path.basename(wheel)[:-4].split("-", 2)[2].rsplit("-", 1)[1].split(".")
        text = z.read(next(n for n in names if n.endswith("/WHEEL"))).decode()
        assert [t.rsplit("-", 1)[1] for t in text.splitlines() if t.startswith("Tag")] == tags, text
        third = z.read(next(n for n in names if n.endswith("THIRD-PARTY.txt"))).decode()
        for module in "apache/arrow-go/v18", "go-resty/resty/v2", "spf13/cobra", "internal/tokenizer/packed/LICENSE", "\nGo go1":
            assert module in third, module
        return hashlib.sha256(z.read(binary)).hexdigest()


def use(name, python, mock, scratch):
    root, out = os.path.join(scratch, name + "-cache"), os.path.join(scratch, name + "-run")
    for folder in root, out:
        shutil.rmtree(folder, ignore_errors=True)
    run(python, "-c", USE, mock, root, out)
    print(f"ok  {name}")


def check_scripts(bin_folder, others):
    """agentx, agentx-replay and python -m, and the note on other programs of the name."""
    for command in ["agentx"], ["agentx-replay"], [os.path.join(bin_folder, "python"), "-m", "agentx_replay"]:
        done = run(*command, "--version", path=bin_folder, env={"PATH": bin_folder + os.pathsep + "/usr/bin:/bin"})
        assert done.stdout.startswith("agentx ") and not done.stderr, done
    for other in others:
        path = os.pathsep.join([bin_folder, os.path.join(other, "bin"), "/usr/bin:/bin"])
        done = run("agentx", "--version", env={"PATH": path})
        assert os.path.join(other, "bin", "agentx") in done.stderr and done.stdout.startswith("agentx "), done
        assert not run("agentx-replay", "--version", env={"PATH": path}).stderr
        assert not run("agentx", "--version", "--quiet", env={"PATH": path}).stderr
        print(f"ok  beside {os.path.basename(other)}")


def main(dist, scratch):
    os.makedirs(scratch, exist_ok=True)
    found = {tags.split(".")[0]: glob.glob(os.path.join(glob.escape(dist), f"*-{tags}.whl")) for tags in wheels.PLATFORMS.values()}
    for wheel in sorted(sum(found.values(), [])):
        check_files(wheel)
    native = {"x86_64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}[platform.machine()]
    (wheel,) = found[native]
    plain = venv(os.path.join(scratch, "plain"), "--no-index", wheel)
    bin_folder = os.path.join(plain, "bin")
    target = os.path.join(scratch, "target")
    run(os.path.join(bin_folder, "python"), "-m", "pip", "install", "--quiet", "--no-index", "--upgrade", "--target", target, wheel)
    assert run(sys.executable, "-m", "agentx_replay", "--version", env={"PYTHONPATH": target}).stdout.startswith("agentx ")
    others = [venv(os.path.join(scratch, name), "--no-deps", name) for name in ("agentx", "agentx-harness")]
    check_scripts(bin_folder, list(filter(None, others)))
    mock = subprocess.Popen([os.path.join(bin_folder, "agentx-replay"), "mock"], stdout=subprocess.PIPE, encoding="utf-8")
    try:
        url = mock.stdout.readline().split()[-1]
        use("without-pyarrow", os.path.join(bin_folder, "python"), url, scratch)
        if full := venv(os.path.join(scratch, "pandas"), f"{wheel}[pandas]"):
            use("pandas", os.path.join(full, "bin", "python"), url, scratch)
        if tools := venv(os.path.join(scratch, "uv"), "uv"):
            uv = os.path.join(tools, "bin", "uv")
            if by_uv := venv(os.path.join(scratch, "by-uv"), "--no-index", wheel, installer=(uv,)):
                check_scripts(os.path.join(by_uv, "bin"), [])
                use("uv", os.path.join(by_uv, "bin", "python"), url, scratch)
            done = run(uv, "tool", "run", "--offline", "--no-index", "--from", wheel, "agentx", "--version",
                       env={"UV_CACHE_DIR": os.path.join(scratch, "uv-cache")})
            assert done.stdout.startswith("agentx "), done
            print("ok  uvx")
    finally:
        mock.kill()
    other = {"x86_64": ("aarch64", "arm64"), "aarch64": ("x86_64", "amd64")}[platform.machine()]
    emulator = shutil.which(f"qemu-{other[0]}-static") or shutil.which(f"qemu-{other[0]}")
    for wheel in found[f"manylinux_2_17_{other[0]}"]:
        if not emulator:
            print(f"test-wheels: skipped {other[1]}: there is no qemu-{other[0]}")
            break
        with zipfile.ZipFile(wheel) as z:
            path = z.extract(next(n for n in z.namelist() if "/scripts/" in n), scratch)
        os.chmod(path, 0o755)
        for args in ["--version"], ["demo", "--quiet", "--cache", os.path.join(scratch, other[1] + "-cache")]:
            run(emulator, path, *args)
        print(f"ok  {other[1]} in QEMU")


if __name__ == "__main__":
    main(*sys.argv[1:])
