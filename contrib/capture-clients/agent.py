"""A scripted agent, by the official clients of OpenAI and Anthropic: tools, streams, two subagents at once, a rewind, a stream that is
cancelled, requests of which some are answered 529 and tried again.

Each session keeps what the clients return, and what they sent.
"""
import json
import re
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

SYSTEM = "You are a careful engineer. Read before you write, and run the tests."
TASK = "Fix the failing test in parser.go, please. It began to fail with the commit of Tuesday: naïve 日本 texts are cut."
RESULT = "func parse() error {\n\treturn errors.New(\"no such rule\") // line 42\n}"
AGENTS = {"one": "Find all callers of parse.", "two": "Find all callers of parse in tests, and say for each what it wants to see, and why."}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "of the file"}}, "required": ["path"]}
TOOLS = [("read", "Read a file."), ("Task", "Let an agent do a task.")]
RETRIES = 12
CANCELLED_AFTER = 6  # events


class Sent:
    """A request that was answered with 200: what of it must be in the trace."""

    def __init__(self, agent, path, body):
        self.agent, self.path, self.body = agent, path, body
        self.out, self.stop, self.outputs, self.partial, self.response = None, "", [], False, None
        self.inputs = None  # input_types; None: of what stands behind the last words of the assistant
        self.seen = ""  # of a stream that was cancelled


class Session:
    """The requests of one session. base is the URL of a server; records has what each call returned, by its name."""

    def __init__(self, name, base):
        self.name, self.base = name, base
        self.attempts, self.statuses, self.sent, self.records = [], [], [], {}  # of agents, which append at the same time

    def hooks(self, module, agent):
        """A client of HTTP that notes what passes. Clients of one agent are used by one thread."""
        def request(r):
            self.attempts.append(r.url.path)

        def response(r):
            self.statuses.append(r.status_code)
            if r.status_code == 200 and r.request.method == "POST":
                self.sent.append(Sent(agent, r.request.url.path, json.loads(r.request.read())))
        return module.DefaultHttpxClient(event_hooks={"request": [request], "response": [response]})

    def note(self, name, value):
        """Keeps what a call returned. Numbers of replies and instants differ between two runs."""
        self.records.setdefault(name, []).append(plain(value.model_dump(mode="json") if hasattr(value, "model_dump") else value))

    def cancelled(self):
        """Notes that the last request of the main agent was given up, after what its client returned."""
        sent = self.of("")[-1]
        sent.partial, sent.outputs = True, ["text"]
        sent.seen = "".join(text_of(event) for event in self.records["cancelled"])
        assert sent.seen

    def of(self, agent):
        return [s for s in self.sent if s.agent == agent]


def plain(value):
    if isinstance(value, dict):
        return {k: 0 if k in ("created", "created_at", "completed_at") else plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"^((?:chatcmpl|cmpl|msg|call|toolu|resp|fc)[-_])\d+$", r"\g<1>N", value)
    return value


def text_of(event):
    """The text that an event adds, as each API has it."""
    if event.get("choices"):
        return event["choices"][0]["delta"].get("content") or ""
    delta = event.get("delta") or ""
    return delta if isinstance(delta, str) else delta.get("text") or ""


def parallel(work):
    """Runs both subagents at once."""
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        for done in [pool.submit(work, name, task) for name, task in AGENTS.items()]:
            done.result()


class Chat(Session):
    """OpenAI's chat; the session and its agents stand in the URL."""
    model = "m-chat"
    tools = [{"type": "function", "function": {"name": n, "description": d, "parameters": SCHEMA}} for n, d in TOOLS]

    def client(self, agent=""):
        path = f"/s/{self.name}" + (f"/a/{agent}" if agent else "") if self.through else ""
        return openai.OpenAI(base_url=f"{self.base}{path}/v1", api_key="secret-of-the-openai-client", max_retries=RETRIES, http_client=self.hooks(openai, agent))

    def whole(self, client, name, messages, **more):
        reply = client.chat.completions.create(model=self.model, messages=messages, **more)
        self.note(name, reply)
        self.ended(self.of(name if name in AGENTS else "")[-1], reply.choices[0], reply.usage)
        return reply.choices[0].message

    def ended(self, sent, choice, usage, calls=None):
        sent.out, sent.stop = usage.completion_tokens, {"tool_calls": "tool_use", "stop": "end_turn"}.get(choice.finish_reason, "")
        sent.outputs = ["tool_use"] if choice.finish_reason == "tool_calls" else ["text"]

    def stream(self, client, name, messages, **more):
        text, usage, last = "", None, None
        chunks = client.chat.completions.create(model=self.model, messages=messages, stream=True, stream_options={"include_usage": True}, **more)
        for chunk in chunks:
            self.note(name, chunk)
            for choice in chunk.choices:
                text += choice.delta.content or ""
                last = choice if choice.finish_reason else last
            usage = chunk.usage or usage
        self.ended(self.of(name if name in AGENTS else "")[-1], last, usage)
        return {"role": "assistant", "content": text}

    def run(self):
        main = self.client()
        self.note("models", [m.model_dump(mode="json") for m in main.models.list().data])
        talk = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        call = self.whole(main, "call", talk, tools=self.tools, tool_choice={"type": "function", "function": {"name": "read"}})
        talk += [{"role": "assistant", "content": None, "tool_calls": [c.model_dump(mode="json") for c in call.tool_calls]},
                 {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": RESULT}]
        talk.append(self.stream(main, "stream", talk, tools=self.tools, max_tokens=20))

        def subagent(name, task):
            client, own = self.client(name), [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
            for k in range(2):
                own += [self.stream(client, name, own, max_tokens=12), {"role": "user", "content": f"Go on, {k}."}]
        parallel(subagent)
        talk += [{"role": "user", "content": [{"type": "text", "text": "The agents are back."}, {"type": "text", "text": "Mend it."}]}]
        self.stream(main, "again", talk, tools=self.tools)
        talk[-1] = {"role": "user", "content": "Rather leave it, and write a test that shows it."}  # a rewind
        talk.append(self.stream(main, "rewound", talk, tools=self.tools, max_completion_tokens=9))
        talk.append({"role": "user", "content": "Explain."})
        with main.chat.completions.create(model=self.model, messages=talk, tools=self.tools, stream=True, max_tokens=2000) as chunks:
            for _, chunk in zip(range(CANCELLED_AFTER), chunks):
                self.note("cancelled", chunk)
        self.cancelled()
        talk.append({"role": "user", "content": "Never mind."})
        self.whole(main, "last", talk, tools=self.tools, max_tokens=5)


class Claude(Session):
    """Anthropic's Messages, with the headers of Claude Code."""
    model = "m-claude"
    tools = [{"name": n, "description": d, "input_schema": SCHEMA} for n, d in TOOLS]
    tools[-1]["cache_control"] = {"type": "ephemeral"}
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]

    def client(self, agent=""):
        headers = {"X-Claude-Code-Session-Id": "11111111-2222-3333-4444-" + self.name}
        if agent:
            headers["x-claude-code-agent-id"] = agent
        return anthropic.Anthropic(base_url=self.base, api_key="secret-of-the-anthropic-client", max_retries=RETRIES, default_headers=headers,
                                   http_client=self.hooks(anthropic, agent))

    def ended(self, sent, message):
        sent.out, sent.stop = message.usage.output_tokens, {"tool_use": "tool_use", "end_turn": "end_turn", "stop_sequence": "end_turn"}.get(message.stop_reason, "")
        sent.outputs = sorted({block.type for block in message.content})

    def ask(self, client, name, messages, stream=True, **more):
        arguments = {"model": self.model, "system": self.system, "messages": messages, "max_tokens": 15, **more}
        if stream:
            with client.messages.stream(**arguments) as events:
                for event in events:
                    self.note(name, event)
                message = events.get_final_message()
        else:
            message = client.messages.create(**arguments)
        self.note(name, message)
        self.ended(self.of(name if name in AGENTS else "")[-1], message)
        return {"role": "assistant", "content": [self.given(block) for block in message.content]}

    @staticmethod
    def given(block):
        return {"type": "text", "text": block.text} if block.type == "text" else {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}

    def run(self):
        main = self.client()
        talk = [{"role": "user", "content": TASK}]
        call = self.ask(main, "call", talk, tools=self.tools, tool_choice={"type": "tool", "name": "read"})
        talk += [call, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["content"][0]["id"], "content": [{"type": "text", "text": RESULT}],
                                                     "is_error": True, "cache_control": {"type": "ephemeral"}}]}]
        call = self.ask(main, "whole call", talk, stream=False, tools=self.tools, tool_choice={"type": "tool", "name": "Task"})
        talk += [call, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["content"][0]["id"], "content": RESULT}, {"type": "text", "text": "Now."}]}]
        talk.append(self.ask(main, "stream", talk, tools=self.tools))

        def subagent(name, task):
            client, own = self.client(name), [{"role": "user", "content": task}]
            for k in range(2):
                own += [self.ask(client, name, own), {"role": "user", "content": f"Go on, {k}."}]
        parallel(subagent)
        talk.append({"role": "user", "content": "The agents are back. Mend it."})
        self.ask(main, "again", talk, tools=self.tools)
        talk[-1] = {"role": "user", "content": "Rather leave it, and write a test that shows it."}  # a rewind
        talk.append(self.ask(main, "rewound", talk, tools=self.tools))
        talk.append({"role": "user", "content": "Explain."})
        with main.messages.create(model=self.model, system=self.system, messages=talk, tools=self.tools, stream=True, max_tokens=2000) as events:
            for _, event in zip(range(CANCELLED_AFTER), events):
                self.note("cancelled", event)
        self.cancelled()
        talk.append({"role": "user", "content": "Never mind."})
        self.ask(main, "last", talk, stream=False, tools=self.tools)


class Responses(Session):
    """OpenAI's Responses, with previous_response_id; the session and its agents stand in the URL."""
    model = "m-responses"
    tools = [{"type": "function", "name": n, "description": d, "parameters": SCHEMA, "strict": False} for n, d in TOOLS]
    client = Chat.client

    def ended(self, response):
        sent = next(s for s in self.sent if s.response == response.id)
        called = any(item.type == "function_call" for item in response.output)
        sent.out, sent.stop = response.usage.output_tokens, "tool_use" if called else "end_turn" if response.status == "completed" else ""
        sent.outputs, sent.outcome = ["tool_use" if called else "text"], response.model_dump(mode="json")

    def ask(self, client, name, given, stream=True, **more):
        arguments = {"model": self.model, "instructions": SYSTEM, "input": given, "tools": self.tools, **more}
        response = None
        if stream:
            for event in client.responses.create(**arguments, stream=True):
                self.note(name, event)
                response = getattr(event, "response", None) or response
        else:
            response = client.responses.create(**arguments)
            self.note(name, response)
        self.of(name if name in AGENTS else "")[-1].response = response.id
        self.ended(response)
        return response

    def run(self):
        main = self.client()
        talk = [{"role": "user", "content": TASK}]
        first = self.ask(main, "call", talk, tool_choice={"type": "function", "name": "read"})
        call = first.output[0]
        talk += [{"type": "function_call", "id": call.id, "call_id": call.call_id, "name": call.name, "arguments": call.arguments, "status": "completed"},
                 {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
        second = self.ask(main, "whole", talk, stream=False, max_output_tokens=16)
        third = self.ask(main, "goes on", "Mend it, then.", previous_response_id=second.id)
        self.ask(main, "goes on whole", [{"role": "user", "content": "And test it."}], stream=False, previous_response_id=third.id)

        def subagent(name, task):
            client, own = self.client(name), [{"role": "user", "content": task}]
            for k in range(2):
                reply = self.ask(client, name, own, max_output_tokens=17)
                own += [{"role": "assistant", "content": [{"type": "output_text", "text": reply.output_text}]}, {"role": "user", "content": f"Go on, {k}."}]
        parallel(subagent)
        self.ask(main, "rewound", [*talk, {"role": "user", "content": "Rather leave it."}])
        self.of("")[-1].inputs = ["text"]  # the result of the tool was there before
        talk.append({"role": "user", "content": "Explain."})
        with main.responses.create(model=self.model, instructions=SYSTEM, input=talk, tools=self.tools, stream=True, max_output_tokens=2000) as events:
            for _, event in zip(range(CANCELLED_AFTER), events):
                self.note("cancelled", event)
        self.cancelled()
        self.of("")[-1].inputs = ["text"]
        self.ask(main, "last", [*talk, {"role": "user", "content": "Never mind."}], stream=False)
        self.of("")[-1].inputs = ["text"]


class Completions(Session):
    """OpenAI's completions, by a text and by token ids."""
    model = "m-completions"
    client = Chat.client

    def run(self):
        main = self.client()
        ids = [k * 7919 % 200_000 for k in range(130)]
        for name, prompt, stream in [("text", TASK, False), ("ids", ids, True), ("more ids", ids + ids[:50], False)]:
            reply = main.completions.create(model=self.model, prompt=prompt, max_tokens=7, stream=stream, **({"stream_options": {"include_usage": True}} if stream else {}))
            for part in reply if stream else [reply]:
                self.note(name, part)
                usage = part.usage
            sent = self.of("")[-1]
            sent.out, sent.outputs = usage.completion_tokens, ["text"]


def run(base, through):
    """Runs a session of each API, all at once, and returns them."""
    sessions = []
    for kind in (Chat, Claude, Responses, Completions):
        session = kind(kind.model + "-secret", base)
        session.through = through
        sessions.append(session)
    with ThreadPoolExecutor(len(sessions)) as pool:
        for done in [pool.submit(s.run) for s in sessions]:
            done.result()
    return sessions
