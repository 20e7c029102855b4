#!/usr/bin/env python3
"""Writes internal/tokenizer/testdata: small tokenizers of each known pattern, and the ids that the libraries `tokenizers` and `tiktoken`
give tricky texts, with the small ones and with real ones.

    pip install tokenizers==0.23.3 tiktoken==0.14.0
    python3 contrib/tokenizer-vectors.py REAL

REAL has a folder for each real tokenizer, as `make test-tokenizers` fetches them: qwen3, llama3, deepseek_v3 with tokenizer.json, kimi
with tiktoken.model, o200k_base and cl100k_base with NAME.tiktoken. Their licences allow to publish ids, and not all of them the files.
"""

import base64
import glob
import json
import os
import random
import sys

import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OUT = os.path.join(ROOT, "internal", "tokenizer", "testdata")

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def o200k(no, slash):
    """The pattern of o200k, or of Kimi: without Han characters in words."""
    head, tail = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + no + "]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + no + "]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{before}{head}*{tail}+{CONTRACTIONS}?|{before}{head}+{tail}*{CONTRACTIONS}?"
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n" + slash + "]*" + SPACES
    )


def cl100k(digits):
    return CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES


KIMI = r"[\p{Han}]+|" + o200k(r"&&[^\p{Han}]", "")
PATTERNS = {
    "cl100k": [cl100k(r"\p{N}{1,3}")],
    "qwen2": [cl100k(r"\p{N}")],
    "o200k": [o200k("", "/")],
    "kimi": [KIMI],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    ],
}

# name: pattern, NFC, ignore_merges, merges as strings
SMALL = {
    "small-cl100k": ("cl100k", False, True, False),
    "small-qwen2": ("qwen2", True, False, True),
    "small-o200k": ("o200k", False, False, False),
    "small-kimi": ("kimi", False, False, True),
    "small-deepseek-v3": ("deepseek-v3", False, False, False),
}

# Tokens that no merges make: only ignore_merges finds them.
UNREACHABLE = ["Ġquasiwhole", "wholepiece", "éĢļéĢļ"]
ADDED = [
    AddedToken("<|end|>", normalized=False, special=True),
    AddedToken("<|end|>x", normalized=False, special=True),
    AddedToken("<think>", normalized=False, special=False),
    AddedToken("[e\u0301]", normalized=True, special=False),
    AddedToken("Straße", normalized=True, special=False),
]

# Texts on which tokenizers have been seen to differ, with ¦ between them.
TRICKY = [
    "a¦ ¦  ¦   ¦\t¦\n¦\r\n¦\n\n¦\r\n\r\n¦\n  \n¦  \n\t\n  x¦trailing   ¦   leading¦a  b¦a   b¦a\n b¦a \n b¦a\n\n  b¦\u00a0¦\u2003¦a\u00a0b¦\u3000x¦\u200b¦a\u200bb¦\u2028¦\u0085x¦\x00¦\x7f¦\x1f¦a\x00b",
    "it's¦IT'S¦it'S¦we're¦we'RE¦I'm¦they'll¦they'LL¦o'clock¦'¦''¦'s¦'sx¦don't¦don'ts¦'tis¦ſ'ſ¦don'ſ¦x'ſy¦y'all'd've¦'d'd'd¦' s¦'re're¦'l¦'lx¦'v¦l'été¦L'ÉTÉ¦’s",
    "HTTPServer¦fooBAR¦camelCase¦PascalCaseName¦snake_case¦SCREAMING_CASE¦aB¦Ab¦AB¦ABc¦aBC¦ǅ¦ǅa¦aǅ¦ʰ¦ʰA¦Aʰ¦ﬁ¦İ¦ß¦ẞ¦ªº¦ⅷ¦Ⅻ¦e\u0301¦E\u0301¦n\u0303o¦\u0301¦\u0301a¦ \u0301¦Z̸̡̛͉a̶¦Å¦Å¦ÅA¦가¦ᄀ\u1161\u11a8¦ﬀ¦①¦½x",
    "1¦12¦123¦1234¦12345¦1234567890¦3.14159¦0x1F¦1e-9¦1,234,567¦١٢٣٤¦²³¹⁴¦१२३४५¦v1.2.3¦a1b2¦1a¦1 2¦12 345 678¦二〇二六¦２０２６",
    "日本語のテキスト¦中文混排，標點。¦한국어 텍스트¦ひらがな¦カタカナ¦ｶﾀｶﾅ¦漢字とABC¦中A文b¦A中文¦中 文¦。。。¦「引用」¦々¦〇¦㐀¦𠀀𠀁¦ー¦アー¦中ー¦日本語123中文¦你好吗？你好！¦通通¦通",
    "😀¦👩‍👩‍👧‍👦¦🏳️‍🌈¦🇩🇪¦🫠🫠¦a😀b¦ 😀¦☃️¦©®™¦→⇒¦└──¦├─¦═╬═¦…¦✓✗¦§¶¦€100¦£¦₿",
    "العربية¦עברית¦हिन्दी¦ไทย¦த மிழ்¦ქართული¦հայերեն¦ελληνικά¦Ελλάδα¦кириллица¦КИРИЛЛИЦА¦Приве́т¦မြန်မာ¦አማርኛ¦ខ្មែរ¦བོད་ཡིག¦ᏣᎳᎩ¦ᚠᚢᚦ",
    "!¦!!¦!!!¦!a¦!A¦!1¦?!¦(x)¦[x]¦{x}¦<x>¦x.y¦x..y¦x->y¦x=>y¦x::y¦a/b¦a//b¦//¦///\n¦/\n/\n¦./path/to/file.go:12:3¦C:\\x\\y¦https://example.org/a?b=c&d=e#f¦user@example.org¦#include <x>¦$x¦%d%s¦^&*¦~/.x¦`code`¦\"q\"¦'q'¦\\n¦a_b¦__init__¦--flag¦-1¦+1¦=1¦a=1¦if(x){y}¦</div>¦<!-- x -->¦===========¦-----------¦!\n¦!\r\n¦! \n¦.\n\n¦;\n  ¦)\n}\n¦/\r\n¦a/\n",
    "{\"a\":[1,2,{\"b\":null}],\"c\":\"\\u00e9\\n\"}¦def f(x):\n    return x\n¦func (s *T) M() error {\n\treturn nil\n}\n¦SELECT * FROM t WHERE a = 'b';¦@@ -1,3 +1,4 @@\n-a\n+b\n¦2026-11-23T01:27:00Z ERROR x¦    at f (a.js:1:2)¦$ ls -la\ntotal 0\n¦#!/bin/sh\nset -eu\n¦\tint x = 0;  // y\n",
    "<|end|>¦<|end|>x¦a<|end|>b¦<|end¦<|end|>¦<|endoftext|>¦<think>x</think>¦[e\u0301]¦[é]¦[é¦Straße¦Straßen¦STRASSE¦ quasiwhole¦wholepiece¦a wholepiece quasiwhole¦<|im_start|>user¦\ufeffbom¦\ufffd¦\U0010ffff¦\ue000¦\u00ad¦a\u00adb",
    "the quick brown fox¦The Quick Brown Fox.¦THE QUICK¦thethethe¦th e¦  the  the  ¦the\tthe¦the\u00a0the¦ the¦ The¦\nthe¦\n the¦.the¦. the¦_the¦(the¦1the¦the1¦thé¦théthe",
]


def tricky():
    """The hand-made texts, and random ones of the characters on which patterns differ."""
    raw = [text for line in TRICKY for text in line.split("¦")]
    rng = random.Random(17)
    alphabet = list(" \t\n\r'/.,-_=<>(){}[]\"#;:!?aAzZsStTdDlLrReEvVmM019éÉßſǅʰ中文あアー한😀\u0301\u200d\u00a0\u3000\u2028½Ⅻ١ªﬁ")
    for _ in range(120):
        raw.append("".join(rng.choice(alphabet) for _ in range(rng.randint(2, 14))))
    seen = set()
    return [t for t in raw if not (t in seen or seen.add(t))]


def corpus():
    """What the small tokenizers are trained on: texts of this repository, and some of other scripts."""
    files = sorted(glob.glob(os.path.join(ROOT, "internal/corpus/grammar/*.txt"))) + sorted(glob.glob(os.path.join(ROOT, "doc/*.md")))[:4]
    for path in files:
        with open(path, encoding="utf-8") as f:
            yield f.read()
    for text in tricky():
        yield text * 3


def train(pattern, nfc, whole):
    t = Tokenizer(models.BPE(ignore_merges=whole))
    if nfc:
        t.normalizer = normalizers.NFC()
    steps = [pre_tokenizers.Split(Regex(p), "isolated", invert=False) for p in PATTERNS[pattern]]
    t.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=256 + 1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_tokens(ADDED)
    return t


def small(name):
    """Trains a small tokenizer, adds the tokens that no merges make, writes it, and returns it as it was read again."""
    pattern, nfc, whole, strings = SMALL[name]
    f = json.loads(train(pattern, nfc, whole).to_str())
    vocab = f["model"]["vocab"]
    for token in UNREACHABLE:
        if token not in vocab:
            vocab[token] = len(vocab)
    for k, a in enumerate(f["added_tokens"]):
        a["id"] = len(vocab) + k + 7  # a gap, as real files have
    if strings:
        f["model"]["merges"] = [" ".join(m) for m in f["model"]["merges"]]
    text = json.dumps(f, ensure_ascii=False, separators=(",", ":"))
    path = os.path.join(OUT, name + ".json")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text + "\n")
    return Tokenizer.from_file(path)


def byte_of():
    """The bytes that the characters of byte-level tokens stand for."""
    keep = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, n = {chr(b): b for b in keep}, 0
    for b in range(256):
        if b not in keep:
            table[chr(256 + n)] = b
            n += 1
    return table


def ranks_of(name):
    """The vocabulary of a small tokenizer as a file of ranks, by id."""
    with open(os.path.join(OUT, name + ".json"), encoding="utf-8") as f:
        model = json.load(f)["model"]
    table = byte_of()
    order = sorted(c for c in table)
    tokens = [bytes([table[c]]) for c in order]
    for merge in model["merges"]:
        a, b = merge.split(" ") if isinstance(merge, str) else merge
        tokens.append(bytes(table[c] for c in a + b))
    assert len(set(tokens)) == len(tokens)
    return {token: k for k, token in enumerate(tokens)}


def write_ranks(name, ranks):
    with open(os.path.join(OUT, name + ".tiktoken"), "w", encoding="ascii") as out:
        for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
            out.write(base64.b64encode(token).decode("ascii") + f" {rank}\n")


def read_ranks(path):
    with open(path, encoding="ascii") as f:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in f if line.strip())}


def tiktoken_of(name, pattern, ranks):
    return tiktoken.Encoding(name, pat_str=PATTERNS[pattern][0], mergeable_ranks=ranks, special_tokens={})


def main():
    real = sys.argv[1]
    list_ = tricky()
    encode = {}
    for name in SMALL:
        encode[name] = lambda text, t=small(name): t.encode(text, add_special_tokens=False).ids
    ranks = ranks_of("small-kimi")
    write_ranks("small-kimi", ranks)
    encode["small-kimi.tiktoken"] = tiktoken_of("small-kimi", "kimi", ranks).encode_ordinary
    for name in ["qwen3", "llama3", "deepseek_v3"]:
        t = Tokenizer.from_file(os.path.join(real, name, "tokenizer.json"))
        encode[name] = lambda text, t=t: t.encode(text, add_special_tokens=False).ids
    for name, pattern in [("o200k_base", "o200k"), ("cl100k_base", "cl100k")]:
        encode[name] = tiktoken_of(name, pattern, read_ranks(os.path.join(real, name, name + ".tiktoken"))).encode_ordinary
    encode["kimi"] = tiktoken_of("kimi", "kimi", read_ranks(os.path.join(real, "kimi", "tiktoken.model"))).encode_ordinary

    with open(os.path.join(OUT, "vectors.jsonl"), "w", encoding="utf-8") as out:
        head = {"made_by": f"contrib/tokenizer-vectors.py with tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}", "tokenizers": list(encode)}
        out.write(json.dumps(head) + "\n")
        for text in list_:
            row = [text] + [" ".join(map(str, encode[name](text))) for name in encode]
            out.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"{len(list_)} texts, {len(encode)} tokenizers")


if __name__ == "__main__":
    main()
