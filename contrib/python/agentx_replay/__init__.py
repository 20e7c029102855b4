"""agentx from Python: run it, and read what it measured and what it prepared.

Tables are of pyarrow, or of pandas where asked for. Both are optional: pip install 'agentx-replay[pandas]'.
"""
import os  # others where they are used: python -m is to start at once

__all__ = ["Cache", "Results", "binary", "open_cache", "run"]

NAME = "agentx-replay.exe" if os.name == "nt" else "agentx-replay"


def binary():
    """The path of the program, which is a script of this distribution: beside the interpreter, or where its installer put it."""
    import sysconfig
    for folder in sysconfig.get_path("scripts"), os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"):  # the latter: --target
        if os.path.isfile(os.path.join(folder, NAME)):
            return os.path.join(folder, NAME)
    from importlib.metadata import files
    for file in files("agentx-replay") or ():
        if file.name == NAME and os.path.isfile(file.locate()):
            return os.path.realpath(file.locate())
    raise FileNotFoundError(f"{NAME} is not where agentx-replay was installed: install it again")


def run(args, check=True, **options):
    """Runs agentx with a list of arguments; returns a subprocess.CompletedProcess, whose stdout is text.

    What agentx tells people goes to standard error as it comes. With check, an exit status but 0 raises CalledProcessError. Options are
    those of subprocess.run.
    """
    import subprocess
    return subprocess.run([binary(), *map(str, args)], check=check, **{"stdout": subprocess.PIPE, "encoding": "utf-8", **options})


class Results:
    """The results of a run: a directory of replay --out, also that of a load of several parts, or of a run that was killed."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)
        if not os.path.isdir(self.directory):
            raise NotADirectoryError(f"{self.directory}: want a directory that agentx replay --out wrote")

    @property
    def summary(self):
        """The object of summary.json; where there is none, what agentx report makes of the records."""
        import json
        if os.path.exists(path := os.path.join(self.directory, "summary.json")):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        return json.loads(run(["report", self.directory, "--json", "--quiet"]).stdout)

    def figures(self):
        """The numbers of the summary by their path, as in {"ttft.p95": 0.21}: what trackers of experiments take."""
        found, rest = {}, [("", {k: v for k, v in self.summary.items() if k != "run"})]
        for name, value in rest:  # rest grows
            if isinstance(value, dict):
                rest += [(f"{name}.{key}".lstrip("."), of) for key, of in value.items()]
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                found[name] = value
        return found

    def records(self, kind="pyarrow"):
        """A row for each request; doc/spec/results.md names the columns."""
        import tempfile
        parquet = _module("pyarrow.parquet")
        with tempfile.TemporaryDirectory() as scratch:
            run(["report", self.directory, "--format", "parquet", "--out", scratch, "--quiet"])
            return _as(kind, parquet.read_table(os.path.join(scratch, "records.parquet")))

    def lanes(self, kind="pyarrow"):
        """A row for each lane of a run that ended."""
        import json
        with open(os.path.join(self.directory, "lanes.jsonl"), encoding="utf-8") as lines:
            return _as(kind, _module("pyarrow").Table.from_pylist([json.loads(line) for line in lines]))

    def tables(self, kind="pyarrow"):
        """{name: table} of all that the run has."""
        has_lanes = os.path.exists(os.path.join(self.directory, "lanes.jsonl"))
        return {"records": self.records(kind), **({"lanes": self.lanes(kind)} if has_lanes else {})}


class Cache:
    """The Arrow tables of a cache, each a method, as in cache.turns("pandas"); doc/tables.md names the columns.

    The shards of a cache are one table, in the order of the traces. There first_session and its like count rows of the whole table.
    """
    names = ("traces", "sessions", "turns", "segments", "blocks", "tools")

    def __init__(self, structures):
        self.structures = structures  # a directory of Arrow files for each shard

    def __getattr__(self, name):
        if name not in self.names:
            raise AttributeError(name)
        return lambda kind="pyarrow": self.table(name, kind)

    def table(self, name, kind="pyarrow"):
        pa, pc = _module("pyarrow"), _module("pyarrow.compute")
        table = pa.concat_tables([_spell(pa, os.path.join(s, name + ".arrow")) for s in self.structures], promote_options="default")
        for first in table.column_names if len(self.structures) > 1 and name == "traces" else ():
            if first.startswith("first_"):
                counts = table[first[len("first_"):] + "s"].cast(pa.int64())
                before = pc.subtract(pc.cumulative_sum(counts), counts)
                table = table.set_column(table.schema.get_field_index(first), first, before)
        return _as(kind, table)


def open_cache(cache, *flags):
    """Opens a cache by the path that agentx convert printed, or by 8 characters of its key; flags such as "--cache", ROOT go to agentx."""
    import json
    info = json.loads(run(["cache", "info", cache, "--shards", "--json", *flags]).stdout)
    whole = [d["path"] for d in info["directories"] if d["manifest"]["kind"] == "structure"]
    return Cache([s["path"] for s in (info.get("shards") or {}).get("list") or []] or whole)


def _spell(pa, path):
    """A file, mapped, with the strings of its words."""
    import json
    table = pa.ipc.open_file(pa.memory_map(path)).read_all()
    for k, field in enumerate(table.schema):
        if b"words" in (field.metadata or {}):
            words = pa.array(json.loads(field.metadata[b"words"]), pa.string())
            table = table.set_column(k, field.name, words.take(table[k].combine_chunks()))
    return table


def _as(kind, table):
    if kind not in ("pyarrow", "pandas"):
        raise ValueError(f"{kind}: want pyarrow or pandas")
    return table if kind == "pyarrow" else _module("pandas") and table.to_pandas()


def _module(name):
    import importlib
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise ImportError(f"tables want {name}: pip install {name.partition('.')[0]} ({err})") from err
