"""A server that speaks the two interfaces of language models and says what a script tells it to.

Real HTTP on the loopback. A script is a list of steps, one a request, or a function from the
request's body to a step. A step is a dict:

  text, calls        what the model answers: calls are (name, arguments), arguments a dict or text
  status, headers, body, type
                     an answer of its own, byte for byte
  cut                how many of a stream's pieces are sent before the connection ends
  hang               seconds before anything is sent
  pieces             into how many deltas a call's arguments are cut (3)

Every request is kept: path, headers and body.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def arguments_text(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def pieces_of(text, count):
    size = max(1, -(-len(text) // count))
    return [text[i:i + size] for i in range(0, len(text), size)] or [""]


def usage_of(body, step):
    words = step.get("text") or ""
    for _, arguments in step.get("calls", []):
        words += arguments_text(arguments)
    return len(json.dumps(body)) // 4, len(words) // 4 + 1


def openai_whole(body, step, number):
    message = {"role": "assistant", "content": step.get("text"), "refusal": None}
    calls = step.get("calls", [])
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{i}", "type": "function",
             "function": {"name": name, "arguments": arguments_text(arguments)}}
            for i, (name, arguments) in enumerate(calls)]
    used = usage_of(body, step)
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None,
                         "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": used[0], "completion_tokens": used[1],
                      "total_tokens": sum(used)}}


def openai_chunks(body, step, number):
    def chunk(delta, finish=None):
        return {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "delta": delta, "logprobs": None,
                             "finish_reason": finish}]}

    out = [chunk({"role": "assistant", "content": ""})]
    for piece in pieces_of(step["text"], 3) if step.get("text") else []:
        out.append(chunk({"content": piece}))
    calls = step.get("calls", [])
    # Parallel calls begin one after the other; their arguments then come in turns.
    for i, (name, _) in enumerate(calls):
        out.append(chunk({"tool_calls": [{"index": i, "id": f"call_{number}_{i}",
                                          "type": "function",
                                          "function": {"name": name, "arguments": ""}}]}))
    cut = [pieces_of(arguments_text(a), step.get("pieces", 3)) for _, a in calls]
    for turn in range(max(map(len, cut), default=0)):
        for i, parts in enumerate(cut):
            if turn < len(parts):
                out.append(chunk({"tool_calls": [{"index": i,
                                                  "function": {"arguments": parts[turn]}}]}))
    out.append(chunk({}, "tool_calls" if calls else "stop"))
    if body.get("stream_options", {}).get("include_usage"):
        used = usage_of(body, step)
        last = chunk({})
        last["choices"] = []
        last["usage"] = {"prompt_tokens": used[0], "completion_tokens": used[1],
                         "total_tokens": sum(used)}
        out.append(last)
    return ["data: " + json.dumps(c) + "\n\n" for c in out] + ["data: [DONE]\n\n"]


def anthropic_content(step, number):
    content = [{"type": "text", "text": step["text"]}] if step.get("text") else []
    for i, (name, arguments) in enumerate(step.get("calls", [])):
        content.append({"type": "tool_use", "id": f"toolu_{number}_{i}", "name": name,
                        "input": json.loads(arguments_text(arguments))})
    return content


def anthropic_whole(body, step, number):
    used = usage_of(body, step)
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"],
            "content": anthropic_content(step, number),
            "stop_reason": "tool_use" if step.get("calls") else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": used[0], "output_tokens": used[1]}}


def anthropic_chunks(body, step, number):
    whole = anthropic_whole(body, step, number)
    events = [{"type": "message_start",
               "message": {**whole, "content": [], "stop_reason": None,
                           "usage": {**whole["usage"], "output_tokens": 1}}},
              {"type": "ping"}]
    for i, block in enumerate(whole["content"]):
        if block["type"] == "text":
            events.append({"type": "content_block_start", "index": i,
                           "content_block": {"type": "text", "text": ""}})
            for piece in pieces_of(block["text"], 3):
                events.append({"type": "content_block_delta", "index": i,
                               "delta": {"type": "text_delta", "text": piece}})
        else:
            events.append({"type": "content_block_start", "index": i,
                           "content_block": {**block, "input": {}}})
            for piece in pieces_of(json.dumps(block["input"]), step.get("pieces", 3)):
                events.append({"type": "content_block_delta", "index": i,
                               "delta": {"type": "input_json_delta", "partial_json": piece}})
        events.append({"type": "content_block_stop", "index": i})
    events.append({"type": "message_delta",
                   "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
                   "usage": {"output_tokens": whole["usage"]["output_tokens"]}})
    events.append({"type": "message_stop"})
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events]


WIRES = {"/v1/chat/completions": (openai_whole, openai_chunks),
         "/v1/messages": (anthropic_whole, anthropic_chunks)}


class ModelServer:
    """`with ModelServer(script) as server:` listens at server.url until the block ends."""

    def __init__(self, script):
        self.script = script
        self.requests = []
        self.faults = []  # of the server itself: a test looks that there are none
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                try:
                    outer.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                except Exception as e:  # said by the test, not by a thread
                    outer.faults.append(repr(e))
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.url = self.origin + "/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def next_step(self, body):
        if callable(self.script):
            return self.script(body)
        return self.script.pop(0) if self.script else {"status": 500, "body": "the script is over"}

    def answer(self, handler):
        raw = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        body = json.loads(raw)
        self.requests.append({"path": handler.path, "headers": dict(handler.headers), "body": body})
        # Of the talk, not of the server: identifiers are the same when a talk is taken up again.
        number = 1 + sum(1 for m in body.get("messages", []) if m.get("role") == "assistant")
        step = self.next_step(body)
        if step.get("hang"):
            self.closing.wait(step["hang"])
        if "status" in step or "body" in step:
            return self.send(handler, step.get("status", 200), step.get("type", "application/json"),
                             [step.get("body", "{}")], step.get("headers", {}))
        whole, chunks = WIRES[handler.path]
        if body.get("stream"):
            return self.send(handler, 200, "text/event-stream", chunks(body, step, number),
                             step.get("headers", {}), chunked=True, cut=step.get("cut"),
                             pause=step.get("pause", 0))
        return self.send(handler, 200, "application/json", [json.dumps(whole(body, step, number))],
                         step.get("headers", {}))

    def send(self, handler, status, kind, parts, headers, chunked=False, cut=None, pause=0):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name, value)
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(sum(len(p.encode()) for p in parts)))
        handler.end_headers()
        for i, part in enumerate(parts):
            if cut is not None and i == cut:
                handler.close_connection = True
                return
            data = part.encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
            handler.wfile.flush()
            if pause:
                time.sleep(pause)
        if chunked:
            handler.wfile.write(b"0\r\n\r\n")
