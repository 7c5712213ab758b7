"""A scripted model server in three dialects. It refuses what is longer than its window, in the words of the real ones,
checks each request by the rules of its dialect, and answers with numbered words."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import rules

# How the gateway's own questions begin, by which it has old messages shortened.
ORDERS = ["You prune the history of an agent's conversation", "The conversation is about to be shortened"]
PATHS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
MARK = re.compile(r"mk(\d+)x(\d+)m")
FILL = ["the gauge", "reads steady", "über alles", "— noted —", "“ok”", "naïve\nlines", "done ✓", "次 step", "a 🙂 b", "tab\tend"]


def words(number, marks):
    """The text of an answer: its number, a running mark, and something in between."""
    return " ".join(f"mk{number}x{at}m {FILL[(number + at) % len(FILL)]}" for at in range(marks)) + "."


def pieces(text, number):
    """The text as it is streamed: in pieces of changing length."""
    at, step = 0, 1
    while at < len(text):
        step = step % 11 + 1 + number % 3
        yield text[at : at + step]
        at += step


class Backend:
    """`script` says what to answer: `marks` (in a text), `steps` (calls of tools in a turn), `call(number, tools)` (the
    tool and its arguments, or None), `most` (answers after which no tool is called), `finish(number, tools)` (a call in place of a closing text), `is_main(body)`
    (whether the request is of the conversation), `pair` (every so many steps has two calls), `think` (whether
    reasoning comes with it)."""

    def __init__(self, dialect, window, script, overflow="own"):
        self.dialect, self.window, self.script, self.overflow = dialect, window, script, overflow
        self.lock = threading.Lock()
        self.issued, self.faults = [], []
        self.requests = self.refused = self.summaries = self.side = self.longest = self.step = self.open = 0
        self.kept, self.sent, self.last, self.doubled = 0, 0, "", 0
        self.signed, self.calls = {}, {}
        self.keep = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.get(self)

            def do_HEAD(self):
                reply(self, 200, {})

            def do_POST(self):
                outer.post(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, handler):
        if handler.path.rstrip("/").endswith("/models"):
            model = {"id": "fake-model", "object": "model", "created": 1700000000, "owned_by": "check"}
            return reply(handler, 200, {"object": "list", "data": [model]})
        reply(handler, 404, {"error": {"message": "no such path", "type": "not_found_error"}})

    def post(self, handler):
        with self.lock:
            self.open += 1
        try:
            self.answered(handler)
        finally:
            with self.lock:
                self.open -= 1

    def answered(self, handler):
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        path = handler.path.split("?")[0].removeprefix("/v1")
        dialect = PATHS.get(path)
        tokens = len(raw) // 4
        if path == "/messages/count_tokens":
            return reply(handler, 200, {"input_tokens": tokens})
        if dialect != self.dialect:
            return reply(handler, 404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}})
        body = json.loads(raw)
        with self.lock:
            self.requests += 1
            if self.keep:
                (self.keep / f"{self.requests:04d}.{'refused.' * (tokens > self.window)}json").write_bytes(raw)
            limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
            too_long = tokens > self.window
            too_much = self.overflow == "sum" and tokens + limit > self.window
            if too_long or too_much:
                self.refused += 1
                code, said = self.refusal(tokens, limit if not too_long else 0)
                if self.dialect == "responses" and body.get("stream") and self.overflow == "own":
                    return failed_stream(handler, said["error"], body)
                return reply(handler, code, said)
            self.longest = max(self.longest, tokens)
            # Instructions of the client may stand behind what a person is told last.
            items = [item for item in body.get("messages") or body.get("input") or [""] if not (isinstance(item, dict) and item.get("role") == "system")]
            last = json.dumps(items[-1] if items else "")
            is_summary = next((at for at, order in enumerate(ORDERS) if json.dumps(order)[1:-1] in last), None)
            found = rules.check(dialect, body, self)
            self.faults += [f"request {self.requests}: {fault}" for fault in found]
            # Two messages of one speaker are merged by the maker's own server and refused by others: counted, not refused.
            found = [fault for fault in found if "must alternate" not in fault]
            if found:
                return reply(handler, 400, invalid(dialect, found[0]))
            self.doubled += dialect == "chat" and is_summary is None and not rules.alternates(body)
            answer = self.answer(body, is_summary)
            cached = self.prefix(body) if answer["kind"] == "main" else 0
        answer.update(tokens=tokens, cached=cached, body=body)
        WRITERS[dialect](handler, answer)

    def prefix(self, body):
        """How much of the request is as in the one before, as a provider's cache sees it, in tokens."""
        head = [body.get(key) for key in ("tools", "system", "instructions")]
        whole = bare(head, body.get("messages") or body.get("input"))
        low, high = 0, min(len(whole), len(self.last))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if whole[:middle] == self.last[:middle] else (low, middle - 1)
        self.kept, self.sent, self.last = self.kept + low, self.sent + len(whole), whole
        return min(low // 4, len(json.dumps(body)) // 4)

    def refusal(self, tokens, output):
        window = self.window
        if self.dialect == "messages":
            said = f"prompt is too long: {tokens} tokens > {window} maximum"
            if output:
                said = f"input length and `max_tokens` exceed context limit: {tokens} + {output} > {window}, decrease input length or `max_tokens` and try again"
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": said}, "request_id": "req_check"}
        if self.overflow == "llama":
            said = f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
            error = {"code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": tokens, "n_ctx": window}
            return 400, {"error": error}
        if self.dialect == "responses":
            said = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return 400, {"error": {"message": said, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}}
        said = f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        if output:
            said = f"This model's maximum context length is {window} tokens. However, you requested {tokens + output} tokens ({tokens} in the messages, {output} in the completion). Please reduce the length of the messages or completion."
        return 400, {"error": {"message": said, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}

    def answer(self, body, is_summary):
        script = self.script
        if is_summary is not None:
            self.summaries += 1
            text = pruned(body) if is_summary == 0 else summary(body)
            return {"kind": "summary", "text": text, "calls": [], "number": 0}
        if not script.is_main(body):
            self.side += 1
            return {"kind": "side", "text": "A short title", "calls": [], "number": 0}
        number = len(self.issued)
        self.step = self.step + 1 if rules.ends_with_result(self.dialect, body) else 0
        tools = rules.tool_names(self.dialect, body)
        calls = []
        if self.step < script.steps and number < script.most:
            count = 2 if script.pair and number % script.pair == 1 else 1
            calls = [call for at in range(count) if (call := script.call(number * 10 + at, tools))]
        elif script.finish:
            calls = [call for call in [script.finish(number, tools)] if call]
        calls = [(f"{prefix_of(self.dialect)}{number:04d}{at}", name, args) for at, (name, args) in enumerate(calls)]
        text = words(number, script.marks)
        self.issued.append(text)
        thought = f"thinking of {number}, step {self.step}" if script.think else ""
        if thought:
            self.signed[f"sig-{number}-{'x' * 40}"] = thought
        return {"kind": "main", "text": text, "calls": calls, "number": number, "thought": thought, "signature": f"sig-{number}-{'x' * 40}"}


def bare(head, items):
    """A request without marks for caches and without what a client writes anew each time."""
    text = json.dumps([head, items], ensure_ascii=False)
    text = re.sub(r',? ?"cache_control": \{[^}]*\}', "", text)
    return re.sub(r"x-anthropic-billing-header:[^\"]*", "", text)


def pruned(body):
    """A model's answer to the gateway's own question: every fourth message stays, the rest becomes a line."""
    found = re.findall(r'\\*"index\\*":(\d+)', json.dumps(body).replace('\\\\"', '"').replace('\\"', '"'))
    kept = [{"keep": int(index)} for index in found if int(index) % 4 == 0]
    return json.dumps({"prunedConversation": kept, "summary": f"{len(found)} messages were looked at.", "originalTokens": 1, "prunedTokens": 1})


def summary(body):
    """A summary in the words of what it is about: the newest running marks of the request, and its longest words."""
    text = json.dumps(body.get("messages") or body.get("input"))
    marks = list(dict.fromkeys(re.findall(r"mk\d+x\d+m", text)))[-40:]
    names = sorted(set(re.findall(r"[a-z_]{5,}", text)), key=len)[-60:]
    lines = [f"- {' '.join(names[at : at + 6])}" for at in range(0, len(names), 6)]
    done = [f"- {' '.join(marks[at : at + 4])}" for at in range(0, len(marks), 4)]
    return "\n".join(["Goal: read the stations and say what they read.", "Done:"] + done + ["State:"] + lines + ["Next steps: read the next station."])


def prefix_of(dialect):
    return "toolu_" if dialect == "messages" else "call_"


def invalid(dialect, fault):
    error = {"type": "invalid_request_error", "message": f"check: {fault}"}
    return {"type": "error", "error": error} if dialect == "messages" else {"error": {**error, "code": None, "param": None}}


def reply(handler, code, body):
    raw = json.dumps(body).encode()
    handler.send_response(code)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(raw)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(raw)


def stream(handler, events, named):
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()
    for at, event in enumerate(events):
        if isinstance(event, dict) and named == "responses":
            event["sequence_number"] = at
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if named and isinstance(event, dict) else ""
        handler.wfile.write(f"{name}data: {data}\n\n".encode())
        if at % 8 == 0:
            handler.wfile.flush()
    handler.close_connection = True


def failed_stream(handler, error, body):
    base = {"id": "resp_failed", "object": "response", "created_at": int(time.time()), "model": body.get("model"), "output": [], "tools": [], "parallel_tool_calls": True, "tool_choice": "auto", "metadata": {}}
    said = {"code": error["code"], "message": error["message"]}
    events = [
        {"type": "response.created", "response": {**base, "status": "in_progress", "error": None}},
        {"type": "response.failed", "response": {**base, "status": "failed", "error": said}},
    ]
    stream(handler, events, "responses")


def chat(handler, answer):
    body, text, number = answer["body"], answer["text"], answer["number"]
    output = max(1, len(text) // 4)
    usage = {"prompt_tokens": answer["tokens"], "completion_tokens": output, "total_tokens": answer["tokens"] + output, "prompt_tokens_details": {"cached_tokens": answer["cached"]}}
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}} for id, name, args in answer["calls"]]
    base = {"id": f"chatcmpl-{time.monotonic_ns():x}", "created": int(time.time()), "model": body.get("model")}
    finish = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        message = {"role": "assistant", "content": text, **({"reasoning_content": answer["thought"]} if answer.get("thought") else {})}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return reply(handler, 200, {**base, "object": "chat.completion", "choices": [choice], "usage": usage})
    base["object"] = "chat.completion.chunk"
    chunk = lambda delta, end=None: {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}]}
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": answer["thought"]})] if answer.get("thought") else []
    events += [chunk({"content": piece}) for piece in pieces(text, number)]
    for at, call in enumerate(calls):
        args = call["function"]["arguments"]
        head = {**call, "index": at, "function": {"name": call["function"]["name"], "arguments": ""}}
        events.append(chunk({"tool_calls": [head]}))
        events += [chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in pieces(args, number)]
    events.append(chunk({}, finish))
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**base, "choices": [], "usage": usage})
    stream(handler, events + ["[DONE]"], None)


def responses(handler, answer):
    body, text, number, stamp = answer["body"], answer["text"], answer["number"], f"{time.monotonic_ns():x}"
    output = max(1, len(text) // 4)
    items = []
    if answer.get("thought") and "reasoning.encrypted_content" in (body.get("include") or []):
        items.append({"type": "reasoning", "id": f"rs_{stamp}", "summary": [], "encrypted_content": answer["signature"]})
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    items.append({"type": "message", "id": f"msg_{stamp}", "role": "assistant", "status": "completed", "content": [part]})
    for at, (id, name, args) in enumerate(answer["calls"]):
        items.append({"type": "function_call", "id": f"fc_{stamp}{at}", "call_id": id, "name": name, "arguments": json.dumps(args), "status": "completed"})
    whole = {
        "id": f"resp_{stamp}", "object": "response", "created_at": int(time.time()), "model": body.get("model"), "status": "completed",
        "output": items, "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
        "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": {"input_tokens": answer["tokens"], "input_tokens_details": {"cached_tokens": answer["cached"]}, "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": answer["tokens"] + output},
    }
    if not body.get("stream"):
        return reply(handler, 200, whole)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        if item["type"] == "message":
            events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "status": "in_progress", "content": []}})
            events.append({"type": "response.content_part.added", **place, "content_index": 0, "part": {**part, "text": ""}})
            events += [{"type": "response.output_text.delta", **place, "content_index": 0, "delta": piece, "logprobs": []} for piece in pieces(text, number)]
            events.append({"type": "response.output_text.done", **place, "content_index": 0, "text": text, "logprobs": []})
            events.append({"type": "response.content_part.done", **place, "content_index": 0, "part": part})
        elif item["type"] == "function_call":
            events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "status": "in_progress", "arguments": ""}})
            events += [{"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in pieces(item["arguments"], number)]
            events.append({"type": "response.function_call_arguments.done", **place, "name": item["name"], "arguments": item["arguments"]})
        else:
            events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    stream(handler, events + [{"type": "response.completed", "response": whole}], "responses")


def messages(handler, answer):
    body, text, number = answer["body"], answer["text"], answer["number"]
    blocks = []
    if answer.get("thought") and (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        blocks.append({"type": "thinking", "thinking": answer["thought"], "signature": answer["signature"]})
    blocks.append({"type": "text", "text": text})
    blocks += [{"type": "tool_use", "id": id, "name": name, "input": args} for id, name, args in answer["calls"]]
    reason = "tool_use" if answer["calls"] else "end_turn"
    output = max(1, len(text) // 4)
    usage = {"input_tokens": answer["tokens"] - answer["cached"], "cache_creation_input_tokens": 0, "cache_read_input_tokens": answer["cached"], "output_tokens": output}
    whole = {"id": f"msg_{time.monotonic_ns():x}", "type": "message", "role": "assistant", "model": body.get("model"), "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage}
    if not body.get("stream"):
        return reply(handler, 200, whole)
    events = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}}, {"type": "ping"}]
    for at, block in enumerate(blocks):
        delta = lambda kind, key, value: {"type": "content_block_delta", "index": at, "delta": {"type": kind, key: value}}
        empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}[block["type"]]
        events.append({"type": "content_block_start", "index": at, "content_block": {**block, **empty}})
        if block["type"] == "thinking":
            events += [delta("thinking_delta", "thinking", block["thinking"]), delta("signature_delta", "signature", block["signature"])]
        elif block["type"] == "text":
            events += [delta("text_delta", "text", piece) for piece in pieces(text, number)]
        else:
            events += [delta("input_json_delta", "partial_json", piece) for piece in pieces(json.dumps(block["input"]), number)]
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": output}})
    stream(handler, events + [{"type": "message_stop"}], "messages")


WRITERS = {"chat": chat, "responses": responses, "messages": messages}
