"""Writes a prompt corpus of an installed AIPerf, or of its fork agentx-harness, as token ids.

agentx corpus aiperf runs it: CORPUS SEED TOKENIZER OUT. OUT gets the ids as unsigned 32-bit little-endian numbers, and the last line of
standard output is the program that made them, with its version.
"""

import struct
import sys
from importlib.metadata import PackageNotFoundError, version


def program():
    """Name and version of what provides the module aiperf."""
    for name in ("aiperf", "agentx-harness"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            pass
    return "aiperf"


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


def main(corpus, seed, tokenizer, out):
    ids = tokens(corpus, int(seed), tokenizer)
    with open(out, "wb") as f:
        f.write(struct.pack(f"<{len(ids)}I", *ids))
    print(program())


if __name__ == "__main__":
    main(*sys.argv[1:])
