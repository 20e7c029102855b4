#!/usr/bin/env python3
"""Write the traces of a JSON-lines file as Parquet, as the library datasets does, and with it the hub.

    python3 contrib/datasets/to-parquet.py traces.jsonl traces.parquet

`make test-datasets` converts both files and holds the digests of their traces against each other.
"""

import sys
import tempfile

import datasets

with tempfile.TemporaryDirectory() as cache:
    rows = datasets.load_dataset("json", data_files=sys.argv[1], split="train", cache_dir=cache)
    print(rows.features["requests"])
    rows.to_parquet(sys.argv[2])
