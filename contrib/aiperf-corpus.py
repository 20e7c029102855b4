#!/usr/bin/env python3
"""Export the prompt corpus of an installed AIPerf as token ids, for `agentx convert --corpus FILE.u32le`.

AIPerf cuts the prompts of Weka traces out of a text that it generates itself (coding) or ships (sonnet). With that text as
token ids, the profile `aiperf` makes AIPerf's own prompts:

    pip install aiperf==0.13.0
    python3 contrib/aiperf-corpus.py --seed 42 --tokenizer o200k_base coding.u32le
    agentx convert TRACES --profile aiperf --seed 42 --tokenizer o200k_base --corpus coding.u32le

Give convert the same seed, for the coding text depends on it, and write sonnet:FILE.u32le for the sonnet corpus. The
file holds the ids as unsigned 32-bit little-endian numbers and nothing else. The tokenizer is whatever AIPerf takes for its own
--tokenizer: a tiktoken encoding, or a Hugging Face name or path.
"""

import argparse
import hashlib
import struct
import sys

# What the release gives: (corpus, seed, tokenizer, version) -> SHA-256 of the file.
KNOWN = {
    ("coding", 42, "o200k_base", "0.13.0"): "a0723f748cb5208ba53d90060896cc1d2891c2c73ffffc8f5b5400c637434406",
    ("sonnet", 42, "o200k_base", "0.13.0"): "f379b397de451dfcbb98f1a46edf6e16fc28e465494ec37b76f7717397730f90",
}


def tokens(corpus, seed, tokenizer):
    """The ids of a corpus, made by AIPerf's own generators."""
    from aiperf.common import random_generator
    from aiperf.common.tokenizer import Tokenizer
    from aiperf.config.dataset.content import PromptConfig
    from aiperf.dataset.generator.coding_content import CodingContentGenerator
    from aiperf.dataset.generator.prompt import PromptGenerator

    random_generator.init(seed)
    inner = Tokenizer.from_pretrained(tokenizer)
    if corpus == "coding":
        return CodingContentGenerator(PromptConfig(), inner)._tokenized_corpus
    return PromptGenerator(prompts=PromptConfig(), prefix_prompts=None, tokenizer=inner)._tokenized_corpus


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=["coding", "sonnet"], default="coding")
    parser.add_argument("--seed", type=int, default=42, help="AIPerf's --random-seed")
    parser.add_argument("--tokenizer", default="o200k_base")
    parser.add_argument("out", metavar="FILE.u32le")
    args = parser.parse_args()
    if not args.out.endswith(".u32le"):
        parser.error("the name must end in .u32le: convert knows the file by that")
    try:
        from importlib.metadata import version

        release = version("aiperf")
        ids = tokens(args.corpus, args.seed, args.tokenizer)
    except ImportError as e:
        sys.exit(f"aiperf-corpus: {e}: is AIPerf 0.13.0 installed here? pip install aiperf==0.13.0")
    data = struct.pack(f"<{len(ids)}I", *ids)
    digest = hashlib.sha256(data).hexdigest()
    known = KNOWN.get((args.corpus, args.seed, args.tokenizer, release))
    if known not in (None, digest):
        sys.exit(f"aiperf-corpus: SHA-256 {digest}, but AIPerf {release} gives {known}: nothing written")
    with open(args.out, "wb") as f:
        f.write(data)
    print(f"{args.out}: {len(ids)} ids, {args.corpus} corpus of AIPerf {release}, seed {args.seed}, {args.tokenizer}, SHA-256 {digest}")


if __name__ == "__main__":
    main()
