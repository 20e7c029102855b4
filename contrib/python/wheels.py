#!/usr/bin/env python3
"""Makes wheels of agentx for PyPI: make wheels.

    wheels.py OUT VERSION COMMIT [OS/ARCH...]    builds, and writes a wheel for each platform
    wheels.py --licences FILE                    writes the licences of all modules that any of the platforms links

A wheel has the one static binary as the script agentx-replay, which installers copy and do not wrap: an entry point would start Python
first, which costs ten times what the binary needs to start. The script agentx is of the shell, and becomes the binary; Windows has no shell,
and there it is an entry point. The same binary gives the same bytes of a wheel.
"""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PLATFORMS = {  # Go 1.26 wants macOS 12; a static binary runs with either libc of Linux
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
}
LICENCE = re.compile(r"(?i)^(un)?licen[cs]e|^copying|^notice|^patents")
TAGS = "arrow_json_stdlib"  # arrow's JSON by the standard library: 1.4 MB less


def go(platform, *args):
    system, arch = platform.split("/")
    env = {**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": arch, "GOFLAGS": "-tags=" + TAGS}
    return subprocess.run(["go", *args], check=True, stdout=subprocess.PIPE, encoding="utf-8", cwd=ROOT, env=env).stdout


def packages(platform):
    """The packages that the binary links, as go list has them."""
    text, at, decoder = go(platform, "list", "-deps", "-json=ImportPath,Dir,Module,Standard,EmbedFiles", "./cmd/agentx"), 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        package, at = decoder.raw_decode(text, at)
        yield package
        at += 1


def licences(platforms):
    """The licence files of Go, and of every module, above and beside the packages that are linked. A module without is an error."""
    folders, texts, without = {}, {}, set()
    for package in (p for platform in platforms for p in packages(platform) if not p.get("Standard")):
        module = package["Module"]
        name, top = f"{module['Path']} {module.get('Version', '')}".strip(), module["Dir"]
        for file in ["", *package.get("EmbedFiles", [])]:
            folder = os.path.dirname(os.path.join(package["Dir"], file))
            while folder.startswith(top):
                folders.setdefault(name, set()).add((folder, top))
                folder = os.path.dirname(folder)
    goroot = go("linux/amd64", "env", "GOROOT").strip()
    folders["Go " + go("linux/amd64", "env", "GOVERSION").strip()] = {(goroot, goroot)}
    for name, found in sorted(folders.items()):
        files = sorted((os.path.relpath(os.path.join(folder, f), top), os.path.join(folder, f))
                       for folder, top in found for f in os.listdir(folder) if LICENCE.match(f) and os.path.isfile(os.path.join(folder, f)))
        if not any(os.sep not in file for file, _ in files):
            without.add(name)
        for file, path in files:
            with open(path, encoding="utf-8", errors="replace") as text:
                texts[f"{name}: {file}"] = text.read().replace("\r\n", "\n").strip("\n")
    if without:
        sys.exit(f"wheels.py: modules without a licence: {', '.join(sorted(without))}")
    rule = "=" * 100
    return "\n\n".join(f"{rule}\n{title}\n{rule}\n\n{text}" for title, text in texts.items()) + "\n"


def pep440(version):
    """A version of PyPI for one of git describe: v1.2.3, v1.2.3-rc.1, v1.2.3-4-gHASH, HASH."""
    if m := re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?", version):
        number, stage, n, commits, commit, dirty = m.groups()
        local = ".".join(filter(None, [commit and "g" + commit, dirty and "dirty"]))
        pre = {"alpha": "a", "beta": "b", "rc": "rc"}[stage] + n if stage else ""
        return number + pre + (f".post{commits}" if commits else "") + ("+" + local if local else "")
    return "0.0.0.dev0+" + re.sub(r"[^0-9A-Za-z]+", ".", version)


def write(path, files):
    """A zip of {name: (bytes, mode)}: names in order, one date, so that the same files are the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, (0o100000 | mode) << 16
            wheel.writestr(entry, content)


def wheel(out, binary, platform, version, third):
    """Writes the wheel of a binary, and returns its path."""
    read = lambda *names: open(os.path.join(*names), "rb").read()
    info, data, tags = f"agentx_replay-{version}.dist-info", f"agentx_replay-{version}.data/scripts", PLATFORMS[platform]
    tag_lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
    files = {f"agentx_replay/{name}": (read(HERE, "agentx_replay", name), 0o644) for name in ("__init__.py", "__main__.py")}
    if platform.startswith("windows"):
        files[f"{data}/agentx-replay.exe"] = (read(binary), 0o755)
        files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nagentx = agentx_replay.__main__:agentx\n", 0o644)
    else:
        files[f"{data}/agentx-replay"] = (read(binary), 0o755)
        files[f"{data}/agentx"] = (read(HERE, "agentx.sh"), 0o755)
    files[f"{info}/licenses/LICENSE"] = (read(ROOT, "LICENSE"), 0o644)
    files[f"{info}/licenses/THIRD-PARTY.txt"] = (third.encode(), 0o644)
    files[f"{info}/METADATA"] = (read(HERE, "METADATA").replace(b"VERSION", version.encode(), 1) + b"\n" + read(HERE, "README.md"), 0o644)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: agentx\nRoot-Is-Purelib: false\n{tag_lines}".encode(), 0o644)
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, (content, _) in files.items())
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    path = os.path.join(out, f"agentx_replay-{version}-py3-none-{tags}.whl")
    write(path, files)
    return path


def main(out, version, commit, *platforms):
    os.makedirs(out, exist_ok=True)
    for platform in platforms or PLATFORMS:
        if platform not in PLATFORMS:
            sys.exit(f"wheels: {platform}: want one of {' '.join(PLATFORMS)}")
        binary = os.path.join(out, platform.replace("/", "-"))
        go(platform, "build", "-trimpath", "-ldflags", f"-s -w -X main.version={version.removeprefix('v')} -X main.commit={commit}",
           "-o", os.path.abspath(binary), "./cmd/agentx")
        print(wheel(out, binary, platform, pep440(version), licences([platform])), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--licences"]:
        with open(sys.argv[2], "w", encoding="utf-8") as out:
            out.write(licences(PLATFORMS))
    else:
        main(*sys.argv[1:])
