#!/usr/bin/env python3
"""Read the tables of a prepared cache with programs that know nothing of agentx.

    python3 contrib/arrow/check.py $(agentx convert demo | tail -n 1)

Every structure/KEY/*.arrow is opened with pyarrow through a memory map: all buffers must lie inside the map, and nothing
may be allocated for them. Row counts and sums are held against agentx inspect --stats and agentx cache info; polars and
duckdb, where they are installed, must find the same. So must the worked questions of doc/tables.md, which are run as they
stand there. `make test-arrow` runs this in an environment of its own.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc

ALLOCATED = 64 << 10  # bytes that reading all tables may allocate: far below any table worth mapping

problems = []


def check(what, got, want):
    """One comparison; a difference is printed at the end."""
    if got != want:
        problems.append(f"{what}: {got}, want {want}")
    return got


def words(table, name):
    """The strings of a column of words: indices, and the set as a JSON list in the metadata of the field."""
    field = table.schema.field(name)
    return pa.array(json.loads(field.metadata[b"words"])).take(table.column(name).combine_chunks())


def counts(values):
    """How often each value stands in a column."""
    return {e["values"]: e["counts"] for e in pc.value_counts(values).to_pylist()}


def total(table, name):
    """The sum of a column, which is 0 where there is no row."""
    return pc.sum(table.column(name)).as_py() or 0


def mapped(path):
    """A table read in place: how many bytes of its buffers lie in the map of the file, and how many do not."""
    file = pa.memory_map(str(path))
    whole = file.read_buffer()
    file.seek(0)
    reader = pa.ipc.open_file(file)
    check(f"{path.name}: record batches", reader.num_record_batches, 1)
    table = reader.read_all()
    inside = outside = 0
    for buffer in (b for column in table.columns for chunk in column.chunks for b in chunk.buffers() if b):
        if whole.address <= buffer.address <= whole.address + whole.size - buffer.size:
            inside += buffer.size
        else:
            outside += buffer.size
    check(f"{path.name}: bytes of its columns outside of the map", outside, 0)
    return table, inside


def distinct_blocks(blocks):
    """Different hash ids of all scopes."""
    ends, n = {}, 0
    runs = zip(words(blocks, "scope").to_pylist(), blocks["hash_id"].to_pylist(), blocks["count"].to_pylist())
    for scope, first, count in sorted(runs):
        end = max(first, ends.get(scope, first))
        n += max(0, first + count - end)
        ends[scope] = max(end, first + count)
    return n


def unique_tokens(tables):
    """Tokens of all blocks, as far as a prompt holds them, and of all fillers: every segment is in a prompt."""
    traces, segments, blocks = (tables[n].to_pylist() for n in ("traces", "segments", "blocks"))
    held, fillers = {}, 0
    for t in traces:
        names = [(r["scope"], r["hash_id"] + k) for r in blocks[t["first_run"]:][:t["runs"]] for k in range(r["count"])]
        for s in segments[t["first_segment"]:][:t["segments"]]:
            if s["part"] & 2:  # the filler of a turn
                fillers += s["count"]
                continue
            head = s["part"] & 4  # of one block
            for name in names[s["first"]:][:1 if head else s["count"]]:
                held[name] = max(held.get(name, 0), s["count"] if head else t["block_size"])
    return sum(held.values()) + fillers


def held_tokens(tables):
    """Prompt tokens that an unlimited prefix cache would have held."""
    turns = tables["turns"].to_pylist()
    return sum(min(u["cache_hits"] * t["block_size"], u["in"])
               for t in tables["traces"].to_pylist() for u in turns[t["first_turn"]:][:t["turns"]])


def compare(tables, stats, facts):
    """Tables against what agentx says of them."""
    traces, sessions, turns, blocks = (tables[n] for n in ("traces", "sessions", "turns", "blocks"))
    rows = {name: table.num_rows for name, table in tables.items()}
    kinds = {0: "weka_main", 1: "weka_subagent", 2: "weka_flat"}
    child = pc.not_equal(sessions["parent"], -1)
    waited = pc.not_equal(sessions["join_turn"], -1)
    found = {
        "traces": rows["traces"],
        "sessions": {kinds[k]: n for k, n in counts(sessions["kind"]).items()},
        "joined": pc.sum(pc.and_(child, waited)).as_py() or 0,
        "background": pc.sum(pc.and_not(child, waited)).as_py() or 0,
        "turns": rows["turns"],
        "prompt_tokens": total(turns, "in"),
        "output_tokens": total(turns, "out"),
        "largest_prompt": pc.max(turns["in"]).as_py() or 0,
        "hash_ids": total(turns, "hash_ids"),
        "blocks": distinct_blocks(blocks),
        "block_runs": rows["blocks"],
        "segments": rows["segments"],
        "unique_tokens": unique_tokens(tables),
        "scopes": counts(words(traces, "hash_id_scope")),
        "theoretical_hit_rate": total(turns, "cache_hits") / max(1, total(turns, "hash_ids")),
        "theoretical_block_hit_rate": total(turns, "cache_hits") / max(1, total(turns, "hash_ids")),
        "theoretical_token_hit_rate": held_tokens(tables) / max(1, total(turns, "in")),
    }
    for name, value in found.items():
        check(f"inspect --stats: {name}", value, stats[name])
    for name in ("traces", "turns", "prompt_tokens", "output_tokens"):
        check(f"cache info: {name}", found[name], facts[name])
    check("cache info: blocks, trace by trace", total(traces, "blocks"), facts["blocks"])
    check("cache info: sessions", rows["sessions"], facts["sessions"])
    check("blocks in blocks.arrow", total(blocks, "count"), total(traces, "blocks"))
    for name in ("sessions", "turns", "segments", "tools"):  # of all traces, they are the table
        check(f"{name} of all traces", total(traces, name), rows[name])
    check("a path of models", pc.count(words(turns, "model")).as_py(), rows["turns"])
    return found


def with_polars(directory, tables, found):
    """The same files through polars."""
    try:
        import polars
    except ImportError:
        return "polars is not installed"
    for name, table in tables.items():
        frame = polars.scan_ipc(directory / f"{name}.arrow").collect()
        check(f"polars: rows of {name}", frame.height, table.num_rows)
        if name == "turns":
            check("polars: prompt tokens", frame["in"].cast(polars.Int64).sum(), found["prompt_tokens"])
            check("polars: api_time missing", frame["api_time"].null_count(), table["api_time"].null_count)
    return f"polars {polars.__version__}: rows, tokens and nulls agree"


def with_duckdb(tables, found):
    """The mapped tables through SQL."""
    try:
        import duckdb
    except ImportError:
        return "duckdb is not installed"
    db = duckdb.connect()
    for name in ("traces", "turns"):
        db.register(name, tables[name])
    got = db.sql('select count(*), sum("in"), sum("out") from turns').fetchall()[0]
    check("duckdb: turns, tokens", tuple(int(v or 0) for v in got), (found["turns"], found["prompt_tokens"], found["output_tokens"]))
    most = db.sql("select id, turns from traces order by turns desc, id limit 1").fetchall()
    return f"duckdb {duckdb.__version__}: tokens agree; most turns: " + "".join(f"{id!r} with {n}" for id, n in most)


def worked_questions(document, directories, stats, demo):
    """The code of a document, run as it stands: DuckDB and polars must agree, and on the demo with the answers there."""
    try:
        import duckdb, polars  # noqa: F401
    except ImportError as missing:
        return f"questions of {document.name}: not run: {missing}"
    names, answers, asked = {"structures": [str(d) for d in directories]}, {}, 0
    for kind, code in re.findall(r"^```(?:python )?(setup|duckdb|polars|answer)\n(.*?)^```$", document.read_text(), re.S | re.M):
        if kind == "answer":
            asked += 1
            check(f"{document.name}: question {asked}: polars", answers["polars"], answers["duckdb"])
            if demo:
                check(f"{document.name}: question {asked}: the answer there", "".join(f"{row}\n" for row in answers["duckdb"]), code)
            answers = {}
            continue
        exec(compile(code, f"{document.name}: {kind}", "exec"), names)
        if kind != "setup":
            answers[kind] = names["answer"]
    check(f"{document.name}: questions", asked, 2)
    check(f"{document.name}: turns with a trace and session", names["duckdb"].sql("select count(*) from played").fetchall()[0][0], stats["turns"])
    return f"{asked} questions of {document.name}: duckdb and polars agree" + (", with the answers there" if demo else "")


def check_structure(directory, manifest, stats):
    """The tables of a cache without shards."""
    before = pa.total_allocated_bytes()
    tables, inside = {}, 0
    for path in sorted(directory.glob("*.arrow")):
        tables[path.stem], n = mapped(path)
        inside += n
    allocated = pa.total_allocated_bytes() - before
    if allocated > ALLOCATED:
        problems.append(f"{allocated} bytes were allocated to read the tables")
    check("tables", sorted(f"{name}.arrow" for name in tables), sorted(f["name"] for f in manifest["files"]))

    found = compare(tables, stats, manifest["facts"])
    print(f"{'table':10} {'rows':>9} {'columns':>8} {'bytes':>11}")
    for name, table in tables.items():
        print(f"{name:10} {table.num_rows:9,} {table.num_columns:8} {(directory / (name + '.arrow')).stat().st_size:11,}")
    print(f"{found['prompt_tokens']:,} prompt tokens, {found['output_tokens']:,} output tokens, {found['blocks']:,} blocks")
    for model, turns in sorted(counts(words(tables["turns"], "model")).items(), key=lambda e: (-e[1], e[0]))[:5]:
        print(f"  model {model!r}: {turns:,} turns")
    print(f"pyarrow {pa.__version__}: {inside:,} bytes of columns lie in the maps; {allocated:,} bytes were allocated to read them")
    print(with_polars(directory, tables, found))
    print(with_duckdb(tables, found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agentx", default="./agentx", help="the program to compare with")
    parser.add_argument("--questions", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "doc" / "tables.md", help="the document whose questions are run")
    parser.add_argument("cache", metavar="CACHE_DIR", type=pathlib.Path, help="the path that convert printed")
    args = parser.parse_args()

    def agentx(*words):
        return json.loads(subprocess.run([args.agentx, *words], check=True, stdout=subprocess.PIPE).stdout)

    stats = agentx("inspect", str(args.cache), "--stats", "--json")
    info = agentx("cache", "info", str(args.cache), "--shards", "--json")
    structures = [d for d in info["directories"] if d["manifest"]["kind"] == "structure"]
    if structures:
        check_structure(pathlib.Path(structures[0]["path"]), structures[0]["manifest"], stats)
        demo = [s["path"] for s in structures[0]["provenance"]["sources"]] == ["demo"]
        print(worked_questions(args.questions, [structures[0]["path"]], stats, demo))
    else:
        shards = [pathlib.Path(s["path"]) for s in info["shards"]["list"]]
        inside = sum(mapped(path)[1] for shard in shards for path in sorted(shard.glob("*.arrow")))
        print(f"pyarrow {pa.__version__}: {inside:,} bytes of columns of {len(shards)} shards lie in the maps")
        print(worked_questions(args.questions, shards, stats, False))
    if problems:
        sys.exit("\n".join(f"check-arrow: {p}" for p in problems))


if __name__ == "__main__":
    main()
