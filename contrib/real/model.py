#!/usr/bin/env python3
"""A tiny Llama with random weights whose vocabulary is tiktoken's o200k_base, so that token ids mean there what they mean
in agentx: tokenizer and configuration for servers that read those of Hugging Face, and the whole model as GGUF.

    model.py RANKS DIR

RANKS is o200k_base.tiktoken, as the Go module tiktoken-go-loader has it.
"""
import base64
import json
import os
import sys

import gguf
import numpy
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

HIDDEN, LAYERS, HEADS, KEYS, CONTEXT = 64, 2, 2, 1, 262144
SIZE = 200064  # the ids of o200k_base up to 200018, those of the chat template, padding
END = 199999
SPECIAL = {END: "<|endoftext|>", 200018: "<|endofprompt|>", 200019: "<|im_start|>", 200020: "<|im_end|>"}
CHAT = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
PATTERN = "|".join([
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""])


def letters():
    """The letter that stands for each byte in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + k) for k, b in enumerate(others)}


def read(path):
    """The vocabulary by id, and the merges that make it, in their order."""
    with open(path, "rb") as f:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, f)}
    letter = letters()
    text = {token: "".join(letter[b] for b in token) for token in ranks}
    names = [SPECIAL.get(k, f"<|reserved_{k}|>") for k in range(SIZE)]
    merges = []
    for token, rank in ranks.items():
        names[rank] = text[token]
        halves = [(token[:k], token[k:]) for k in range(1, len(token))]
        known = sorted((ranks[a], ranks[b], a, b) for a, b in halves if a in ranks and b in ranks)
        merges += [(rank, k, text[a], text[b]) for k, (_, _, a, b) in enumerate(known)]
    return names, [(a, b) for _, _, a, b in sorted(merges)]


def write_tokenizer(directory, names, merges):
    t = Tokenizer(models.BPE(vocab={name: k for k, name in enumerate(names)}, merges=merges, ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[END - 1:]])
    t.save(os.path.join(directory, "tokenizer.json"))
    write_json(directory, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "eos_token": SPECIAL[END],
        "clean_up_tokenization_spaces": False, "chat_template": CHAT})


def write_config(directory):
    write_json(directory, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KEYS, "head_dim": HIDDEN // HEADS,
        "vocab_size": SIZE, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "hidden_act": "silu",
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": None, "eos_token_id": END, "pad_token_id": END,
        "attention_bias": False, "mlp_bias": False})
    write_json(directory, "generation_config.json", {"eos_token_id": END})


def write_json(directory, name, value):
    with open(os.path.join(directory, name), "w") as f:
        json.dump(value, f)


def write_gguf(directory, names, merges):
    w = gguf.GGUFWriter(os.path.join(directory, "tiny.gguf"), "llama")
    w.add_name("tiny")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(2 * HIDDEN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KEYS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(1e6)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    w.add_vocab_size(SIZE)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-4o")
    w.add_token_list([name.encode() for name in names])
    w.add_token_types([gguf.TokenType.CONTROL if k >= END - 1 else gguf.TokenType.NORMAL for k in range(SIZE)])
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_eos_token_id(END)
    w.add_pad_token_id(END)
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT)
    random, size = numpy.random.default_rng(1), HIDDEN // HEADS
    shapes = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (KEYS * size, HIDDEN), "attn_v": (KEYS * size, HIDDEN),
              "attn_output": (HIDDEN, HIDDEN), "ffn_gate": (2 * HIDDEN, HIDDEN), "ffn_up": (2 * HIDDEN, HIDDEN),
              "ffn_down": (HIDDEN, 2 * HIDDEN)}
    ones = numpy.ones(HIDDEN, numpy.float32)
    weights = lambda shape: (random.standard_normal(shape) * 0.08).astype(numpy.float16)
    w.add_tensor("token_embd.weight", weights((SIZE, HIDDEN)))
    w.add_tensor("output_norm.weight", ones)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{layer}.{norm}.weight", ones)
        for name, shape in shapes.items():
            w.add_tensor(f"blk.{layer}.{name}.weight", weights(shape))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


ranks, directory = sys.argv[1:]
os.makedirs(directory, exist_ok=True)
names, merges = read(ranks)
write_tokenizer(directory, names, merges)
write_gguf(directory, names, merges)
write_config(directory)  # the last file: it says that the others are there
