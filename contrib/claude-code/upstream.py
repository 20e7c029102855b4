"""An upstream for Claude Code that keeps the bodies it gets: to what a user says it answers with two calls of Bash, to their results with a
text.

    upstream.py BODIES PORT    # files: a body a line; the port that it listens on
"""
import http.server
import json
import os
import sys


def answer(body, n):
    """The blocks of the answer to a body."""
    content = body["messages"][-1]["content"]
    last = content if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in last) or not any(tool.get("name") == "Bash" for tool in body.get("tools", [])):
        return [{"type": "text", "text": "That is all."}]
    calls = [{"type": "tool_use", "id": f"toolu_{n}_{word}", "name": "Bash", "input": {"command": f"echo {word} > {word}; cat {word}", "description": "try"}}
             for word in ("one", "two")]
    return [{"type": "text", "text": "I look."}, *calls]


def events(message, blocks, stop):
    """The answer as a stream."""
    yield "message_start", {"message": message}
    for k, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_start", {"index": k, "content_block": empty}
        yield "content_block_delta", {"index": k, "delta": delta}
        yield "content_block_stop", {"index": k}
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 20}}
    yield "message_stop", {}


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = 0

    def log_message(self, *_):
        pass

    def respond(self, status, kind, data):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.respond(404, "application/json", b"{}")

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.partition("?")[0] != "/v1/messages":
            return self.do_GET()
        body = json.loads(data)
        with open(sys.argv[1], "a") as bodies:
            bodies.write(json.dumps(body) + "\n")
        Upstream.requests += 1
        blocks = answer(body, Upstream.requests)
        stop = "tool_use" if len(blocks) > 1 else "end_turn"
        usage = {"input_tokens": len(data) // 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
        message = {"id": f"msg_{Upstream.requests}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return self.respond(200, "application/json", json.dumps({**message, "content": blocks, "stop_reason": stop}).encode())
        stream = "".join(f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n" for name, members in events(message, blocks, stop))
        self.respond(200, "text/event-stream", stream.encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
with open(sys.argv[2] + ".new", "w") as port:
    port.write(str(server.server_port))
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.serve_forever()
