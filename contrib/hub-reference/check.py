#!/usr/bin/env python3
"""What the Python client of the hub makes of a cache and of a hub: make test-hub-reference runs it.

    check.py snapshot|offline|scan|prune|behaves REPO FILE SHA256 [FILE SHA256]...
"""
import hashlib
import os
import subprocess
import sys

import huggingface_hub
from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError


def check(path, digest):
    with open(path, "rb") as f:
        got = hashlib.sha256(f.read()).hexdigest()
    assert got == digest, f"{path}: {got}, want {digest}"


def raises(kind, f):
    try:
        f()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


verb, repo, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
files = dict(zip(rest[::2], rest[1::2]))
if verb == "snapshot":  # online: all of it; offline: what we have fetched
    where = snapshot_download(repo, repo_type="dataset")
    for name, digest in files.items():
        check(os.path.join(where, name), digest)
    print("snapshot", where)
elif verb == "offline":
    for name, digest in files.items():
        check(hf_hub_download(repo, name, repo_type="dataset"), digest)
        check(hf_hub_download(repo, name, repo_type="dataset", revision="main"), digest)
    print("offline", len(files), "files")
elif verb == "scan":
    info = scan_cache_dir()
    assert not info.warnings, info.warnings
    (found,) = info.repos
    assert found.repo_id == repo and found.repo_type == "dataset", found
    assert "main" in found.refs, found.refs
    (revision,) = found.revisions
    names = {str(f.file_path.relative_to(revision.snapshot_path)) for f in revision.files}
    assert set(files) <= names, names
    print("scan", found.size_on_disk, "bytes,", len(names), "files")
elif verb == "prune":
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "hf"), "cache", "prune", "--yes"], check=True)
elif verb == "behaves":
    api = HfApi()
    listed = {f.path for f in api.list_repo_tree(repo, repo_type="dataset", recursive=True) if hasattr(f, "blob_id")}
    assert set(files) <= listed, listed
    assert len(api.get_paths_info(repo, list(files), repo_type="dataset")) == len(files)
    api.auth_check(repo, repo_type="dataset")
    hf_hub_download(repo, "default/train/0000.parquet", repo_type="dataset", revision="refs/convert/parquet")
    raises(EntryNotFoundError, lambda: hf_hub_download(repo, "none", repo_type="dataset"))
    raises(RevisionNotFoundError, lambda: hf_hub_download(repo, "README.md", repo_type="dataset", revision="none"))
    raises(RepositoryNotFoundError, lambda: hf_hub_download("no/such", "README.md", repo_type="dataset"))
    raises(GatedRepoError, lambda: hf_hub_download("o/gated", "README.md", repo_type="dataset"))
    for name, digest in files.items():
        check(hf_hub_download(repo, name, repo_type="dataset"), digest)
    print("behaves", len(listed), "files listed")
print("huggingface_hub", huggingface_hub.__version__)
