#!/usr/bin/env python3
"""Holds ids and bytes of agentx against the libraries `tokenizers` and `tiktoken`. TestLibrariesAgree of internal/tokenizer runs it.

    check.py DIR OURS

DIR has tokenizer.json, tiktoken.model or NAME.tiktoken; its name says which pattern the ranks have. A line of OURS is
{"text", "ids", "bytes"}: the ids of a text, or random ids with an empty text, and their bytes in base64.
"""

import base64
import importlib.util
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("vectors", os.path.join(here, "..", "tokenizer-vectors.py"))
vectors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vectors)


def library(folder):
    """Two functions of the library: text to ids, and ids to text."""
    name = os.path.basename(folder)
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        t = vectors.Tokenizer.from_file(path)
        return (lambda text: t.encode(text, add_special_tokens=False).ids), (lambda ids: t.decode(ids, skip_special_tokens=False)), t
    ranks = "tiktoken.model" if name == "kimi" else name + ".tiktoken"
    pattern = {"kimi": "kimi", "o200k_base": "o200k", "cl100k_base": "cl100k"}[name]
    t = vectors.tiktoken_of(name, pattern, vectors.read_ranks(os.path.join(folder, ranks)))
    return t.encode_ordinary, (lambda ids: t.decode_bytes(ids).decode("utf-8", "replace")), None


def main():
    encode, decode, hf = library(sys.argv[1])
    texts = size = lists = wrong = 0
    added = set(hf.get_added_tokens_decoder()) if hf else set()
    with open(sys.argv[2], encoding="utf-8") as ours:
        for line in ours:
            row = json.loads(line)
            got = base64.b64decode(row["bytes"]).decode("utf-8", "replace")
            if row["text"]:
                texts, size = texts + 1, size + len(row["text"].encode("utf-8"))
                ids = encode(row["text"])
                if ids != row["ids"]:
                    wrong += 1
                    if wrong <= 10:
                        k = next((k for k, (a, b) in enumerate(zip(ids, row["ids"])) if a != b), min(len(ids), len(row["ids"])))
                        print(f"differs: {row['text'][:200]!r}: at {k}: library {ids[k:k+8]}, agentx {row['ids'][k:k+8]}")
            elif added.intersection(row["ids"]):
                continue  # the library puts blanks around added tokens
            if row["ids"]:
                lists += 1
                if decode(row["ids"]) != got:
                    wrong += 1
                    if wrong <= 10:
                        print(f"bytes differ: ids {row['ids'][:20]}: library {decode(row['ids'])[:100]!r}, agentx {got[:100]!r}")
    print(f"{os.path.basename(sys.argv[1])}: {texts} texts ({size / 1e6:.1f} MB) encoded, {lists} lists of ids decoded, {wrong} differ")
    sys.exit(1 if wrong or not texts or not lists else 0)


main()
