"""What agentx capture makes of a prompt, by doc/spec/capture.md 5 and nothing else: the tokens of a body, and the numbers of blocks.

It shares no code with agentx. It knows as much of the three APIs as agent.py uses.
"""
import base64
import json

import tiktoken

PATTERN = "|".join([  # o200k_base
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
TOOL, SEP, END = 0xA0000001, 0xA000001E, 0xA000001F
ROLES = {"system": 0xA0000002, "developer": 0xA0000003, "user": 0xA0000004, "assistant": 0xA0000005, "tool": 0xA0000006}
TEXT, CALL, RESULT = 0xA0000010, 0xA0000011, 0xA0000012


def compact(value):
    """As the clients write it, which is without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without(block, *keys):
    return {k: v for k, v in block.items() if k not in keys}


class Canon:
    def __init__(self, ranks):
        with open(ranks, "rb") as lines:
            pairs = (line.split() for line in lines)
            merges = {base64.b64decode(token): int(rank) for token, rank in pairs}
        self.encode = tiktoken.Encoding("o200k_base", pat_str=PATTERN, mergeable_ranks=merges, special_tokens={}).encode_ordinary
        self.responses = {}  # by the id of a response: its tools and instructions, the tokens of its prompt and of its output

    def text(self, text):
        return [TEXT, *self.encode(text), END]

    def call(self, name, arguments):
        return [CALL, *self.encode(name), SEP, *self.encode(arguments), END]

    def tools(self, body):
        return [t for tool in body.get("tools", []) for t in [TOOL, *self.encode(compact(without(tool, "cache_control"))), END]]

    def blocks(self, content):
        """The segments of a content: a text, or a list of blocks."""
        if content is None:
            return []
        if isinstance(content, str):
            return self.text(content)
        tokens = []
        for block in content:
            kind = block["type"]
            if kind in ("text", "input_text", "output_text"):
                tokens += self.text(block["text"])
            elif kind == "tool_use":
                tokens += self.call(block["name"], compact(block["input"]))
            elif kind == "tool_result":
                tokens += self.result(block["content"], block.get("is_error"))
            else:
                raise ValueError(f"canon.py does not know blocks of type {kind}")
        return tokens

    def result(self, content, is_error=False):
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        return [RESULT, *(t for text in texts for t in self.encode(text)), *([SEP] if is_error else []), END]

    def chat(self, body):
        tokens = self.tools(body)
        for message in body["messages"]:
            tokens.append(ROLES[message["role"]])
            if message["role"] == "tool":
                tokens += self.result(message["content"])
                continue
            tokens += self.blocks(message.get("content"))
            for call in message.get("tool_calls") or []:
                tokens += self.call(call["function"]["name"], call["function"]["arguments"])
        return tokens

    def messages(self, body):
        tokens = self.tools(body)
        if body.get("system"):
            tokens += [ROLES["system"], *self.blocks(body["system"])]
        for message in body["messages"]:
            tokens += [ROLES[message["role"]], *self.blocks(message["content"])]
        return tokens

    def items(self, items):
        tokens, assistant = [], False
        for item in items:
            kind = item.get("type", "message")
            if kind == "message":
                tokens += [ROLES[item["role"]], *self.blocks(item["content"])]
                assistant = item["role"] == "assistant"
            elif kind == "function_call":
                tokens += ([] if assistant else [ROLES["assistant"]]) + self.call(item["name"], item["arguments"])
                assistant = True
            elif kind == "function_call_output":
                tokens += [ROLES["tool"], *self.result(item["output"])]
                assistant = False
            else:
                raise ValueError(f"canon.py does not know items of type {kind}")
        return tokens

    def responses_prompt(self, body):
        given = body["input"]
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        head = self.tools(body)
        if body.get("instructions"):
            head += [ROLES["system"], *self.text(body["instructions"])]
        if not body.get("previous_response_id"):
            return head + self.items(given)
        old, before = self.responses[body["previous_response_id"]]
        assert old == head, "a response of other tools or instructions"
        return before + self.items(given)

    def remember(self, body, tokens, response):
        """Keeps what a response of the Responses API makes of its prompt."""
        head = self.tools(body) + ([ROLES["system"], *self.text(body["instructions"])] if body.get("instructions") else [])
        self.responses[response["id"]] = (head, tokens + self.items(response["output"]))

    def prompt(self, path, body):
        """The tokens of the prompt of a body."""
        if path.endswith("/chat/completions"):
            return self.chat(body)
        if path.endswith("/messages"):
            return self.messages(body)
        if path.endswith("/responses"):
            return self.responses_prompt(body)
        prompt = body["prompt"]
        return self.text(prompt) if isinstance(prompt, str) else list(prompt)

    def sizes(self, path, body):
        """tool_tokens and system_tokens of a body."""
        system = [self.blocks(m["content"]) for m in body.get("messages", []) if m["role"] in ("system", "developer")]
        for text in (body.get("system"), body.get("instructions")):
            if text:
                system.append(self.blocks(text))
        return len(self.tools(body)), sum(1 + len(s) for s in system)


def inputs(body):
    """input_types of a prompt: what stands behind the last words of the assistant."""
    given = body.get("messages") or body.get("input") or body["prompt"]
    types = set()
    for item in [{"content": ""}] if isinstance(given, str) or isinstance(given[0], int) else given:
        blocks = item.get("content")
        if item.get("role") == "assistant" or item.get("type") == "function_call":
            types = set()
        elif item.get("role") == "tool" or item.get("type") == "function_call_output":
            types.add("tool_result")
        else:
            types |= {"text"} if isinstance(blocks, str) else {"tool_result" if b["type"] == "tool_result" else "text" for b in blocks}
    return sorted(types)


class Numbers:
    """Numbers the blocks of a session as they are seen first."""

    def __init__(self, size):
        self.size, self.known = size, {}

    def of(self, tokens):
        ids, last = [], -1
        for k in range(0, len(tokens) - self.size + 1, self.size):
            last = self.known.setdefault((last, tuple(tokens[k:k + self.size])), len(self.known))
            ids.append(last)
        return ids
