"""A model server that fails in every way by turns. It speaks Chat Completions over bare sockets, because it has to reset
connections, close them in the middle and know whether who asked is still there.

What it answers follows from the request alone: the newest `TASK name steps=N` of the user and the results of that task's
calls that the request holds. So it can be asked again without end, and says the same.
"""

import hashlib
import json
import os
import random
import re
import socket
import struct
import threading
import time
import uuid
import zlib

TASK = re.compile(r"TASK (\S+) steps=(\d+)")
CALL = re.compile(r"call_(.+)_(\d+)_[0-9a-f]+$")
SUMMARY_ORDER = "The conversation is about to be shortened"
HEALTHY, KILLED, STALL, RESET, EOF, SLOW, UNAVAILABLE, LIMITED, OVERFLOW, SMALL_4XX = (
    "healthy", "killed", "stalled", "reset", "eof", "slow", "503", "429", "overflow", "4xx",
)
FAULTS = [KILLED, STALL, RESET, EOF, SLOW, UNAVAILABLE, LIMITED, OVERFLOW, SMALL_4XX]
# The true window in the phases in which the server refuses what is longer, in tokens of four bytes.
TRUE_WINDOW = 12_000
# Models that refuse tools, and those that refuse pictures: each can be asked once before its refusal is known.
REFUSING, SPARE_MODELS = ("toolless", "blind"), 400
# Files to read in the workspace.
NOTES = 40
# How often an answer to one request breaks off in one phase: a step survives five broken answers.
MAX_BROKEN = 2
STALL_SECONDS, SLOW_SECONDS, PACE_SECONDS = 4, 6, 0.02
# The silence in the middle of an answer after which the client gives it up is ten minutes.
HANG_SECONDS = 700


def marker(task, step):
    """The end of an answer; an answer that lacks it is not whole."""
    return f"<<{task}.{step}>>"


def calls_effect(task, step):
    """What the tool of a step leaves behind."""
    return f"{task}.{step}"


def note_of(task, step):
    """The file that a step reads: the same call again and again would be taken for a loop."""
    return f"note-{(zlib.crc32(task.encode()) + step) % NOTES}.txt"


class Live:
    """A request that is being answered."""

    def __init__(self, connection):
        self.connection = connection

    def has_left(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class ModelServer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.phase, self.phase_number = HEALTHY, 0
        self.may_hang = False
        self.listener, self.port = None, 0
        self.connections = set()
        self.live = {}
        self.broken = {}
        self.dealt = {name: 0 for name in FAULTS}
        self.dealt.update({"no-tools": 0, "no-pictures": 0, "hung": 0})
        self.requests = self.answers = self.summaries = 0
        self.violations = []
        self.is_ending = False
        self.open()

    # -- the phases

    def open(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(256)
        self.port, self.listener = listener.getsockname()[1], listener
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def kill(self):
        """As if the process had died: no connection is taken, the ones that are open are reset."""
        listener, self.listener = self.listener, None
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        with self.lock:
            connections = list(self.connections)
            self.live.clear()
        for connection in connections:
            reset(connection)

    def turn(self, phase):
        before, self.phase = self.phase, phase
        self.phase_number += 1
        with self.lock:
            self.broken.clear()
        if phase == KILLED:
            self.dealt[KILLED] += 1
            self.kill()
        elif before == KILLED:
            self.open()

    def play(self, until, seconds):
        """Turns from fault to fault until `until`, healthy before, in between and at the end: which models there are can be
        asked only of a server that is there."""
        time.sleep(seconds)
        while time.monotonic() < until:
            for fault in self.random.sample(FAULTS, len(FAULTS)):
                for phase in (fault, HEALTHY):
                    if time.monotonic() >= until:
                        break
                    self.turn(phase)
                    time.sleep(seconds)
        self.turn(HEALTHY)

    # -- connections

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with self.lock:
            self.connections.add(connection)
        try:
            self.answer(connection)
        except OSError:
            pass
        except Exception as error:
            self.complain(f"the model server failed: {error!r}")
        finally:
            with self.lock:
                self.connections.discard(connection)
            connection.close()

    def complain(self, text):
        with self.lock:
            self.violations.append(text[:600])

    def answer(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")
        line = stream.readline().decode("latin-1").split(" ")
        if len(line) < 2:
            return
        headers = {}
        while (header := stream.readline().strip()):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length") or 0))
        if line[0] == "GET":
            names = ["fake-model", *(f"{kind}-{number}" for kind in REFUSING for number in range(SPARE_MODELS))]
            models = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
            is_list = line[1].endswith("/models")
            return send_json(connection, 200 if is_list else 404, models if is_list else {})
        if not line[1].endswith("/chat/completions"):
            return send_json(connection, 404, {"error": {"message": "no such path"}})
        request = json.loads(body)
        key = hashlib.sha256(json.dumps([request["model"], request["messages"]]).encode()).hexdigest()
        mine = Live(connection)
        with self.lock:
            self.requests += 1
            earlier = [live for live in self.live.get(key, []) if not live.has_left()]
            self.live.setdefault(key, []).append(mine)
        if earlier:
            self.complain(f"asked again in the phase {self.phase} while the first request was alive: {newest_words(request)!r}")
        try:
            check_request(request, self.complain)
            self.reply(connection, request, len(body), key)
        finally:
            with self.lock:
                lives = self.live.get(key, [])
                if mine in lives:
                    lives.remove(mine)
                if not lives:
                    self.live.pop(key, None)

    # -- answers

    def reply(self, connection, request, length, key):
        phase, model, tokens = self.phase, request["model"], length // 4
        if phase == UNAVAILABLE:
            self.dealt[phase] += 1
            return send_json(connection, 503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
        if phase == LIMITED:
            self.dealt[phase] += 1
            error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
            return send_json(connection, 429, {"error": error}, {"Retry-After": "1"})
        if phase == OVERFLOW and tokens > TRUE_WINDOW:
            self.dealt[phase] += 1
            words = (
                f"This model's maximum context length is {TRUE_WINDOW} tokens. However, your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages."
            )
            error = {"message": words, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
            return send_json(connection, 400, {"error": error})
        if model.startswith("toolless-") and request.get("tools"):
            self.dealt["no-tools"] += 1
            words = f"registry.ollama.ai/library/{model} does not support tools"
            return send_json(connection, 400, {"error": {"message": words, "type": "api_error"}})
        if model.startswith("blind-") and has_picture(request):
            self.dealt["no-pictures"] += 1
            words = "You uploaded an unsupported image. Please make sure your image is valid."
            return send_json(connection, 400, {"error": {"message": words, "type": "invalid_request_error"}})
        if phase == SMALL_4XX and self.breaks(key, most=1):
            # Such as a balancer in front of servers that are being changed says: it passes by.
            self.dealt[phase] += 1
            return send_json(connection, 408, {"error": {"message": "Request Timeout"}})
        text, call = self.words(request)
        if phase == SLOW:
            self.dealt[phase] += 1
            time.sleep(SLOW_SECONDS)
        if not request.get("stream"):
            if phase in (RESET, STALL, EOF) and self.breaks(key):
                self.dealt[phase] += 1
                time.sleep(STALL_SECONDS if phase == STALL else 0.2)
                if phase != STALL:
                    return self.end_early(connection, phase)
            self.answers += 1
            return send_json(connection, 200, whole(request, text, call, tokens))
        chunks = streamed(request, text, call, tokens)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        connection.sendall(head)
        breaks_at = self.random.randrange(1, len(chunks) - 1) if phase in (RESET, EOF, STALL) and self.breaks(key) else None
        hangs = phase == STALL and self.may_hang and request.get("tools") and model == "fake-model"
        for number, chunk in enumerate(chunks):
            if number == breaks_at:
                self.dealt[phase] += 1
                if hangs:
                    self.may_hang = False
                    self.dealt["hung"] += 1
                    return wait_until_left(connection)
                if phase == STALL:
                    time.sleep(STALL_SECONDS)
                if phase != STALL or self.random.random() < 0.5:
                    return self.end_early(connection, RESET if phase == STALL else phase)
            connection.sendall(b"data: " + chunk + b"\n\n")
            time.sleep(PACE_SECONDS)
        connection.shutdown(socket.SHUT_WR)
        self.answers += 1

    def breaks(self, key, most=MAX_BROKEN):
        with self.lock:
            self.broken[key] = self.broken.get(key, 0) + 1
            return self.broken[key] <= most

    def end_early(self, connection, phase):
        with self.lock:
            for lives in self.live.values():
                lives[:] = [live for live in lives if live.connection is not connection]
        if phase == EOF:
            connection.shutdown(socket.SHUT_WR)
        else:
            reset(connection)

    def words(self, request):
        """The text and the tool call that the request gets."""
        if SUMMARY_ORDER in newest_words(request):
            self.summaries += 1
            return summary_of(request), None
        task, steps = newest_task(request)
        if task is None:
            return "There is no task here.", None
        step = steps_done(request, task)
        filler = " ".join(f"word{number}" for number in range(24))
        if step >= steps or not request.get("tools"):
            return f"The task {task} is done. {filler} {marker(task, 'end')}", None
        effect = calls_effect(task, step)
        command = f"echo {effect} >> effects.txt; seq -s ' ' 1 {300 + 40 * step}; echo {effect}"
        tool = ("read", {"path": note_of(task, step)}) if step % 3 == 2 else ("bash", {"command": command})
        call = {"id": f"call_{task}_{step}_{uuid.uuid4().hex[:8]}", "name": tool[0], "arguments": json.dumps(tool[1])}
        return f"Step {step} of {task}. {filler} {marker(task, step)}", call


def reset(connection):
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # `close` would wait for the file object that reads the request: no reset would be sent.
        os.close(connection.detach())
    except OSError:
        pass


def wait_until_left(connection):
    until = time.monotonic() + HANG_SECONDS
    live = Live(connection)
    while time.monotonic() < until and not live.has_left():
        time.sleep(0.5)


def send_json(connection, status, value, headers=None):
    body = json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {text}" for name, text in (headers or {}).items()]
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def usage_of(text, tokens):
    said = len(text) // 4 + 20
    return {"prompt_tokens": tokens, "completion_tokens": said, "total_tokens": tokens + said}


def tool_call(call):
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}


def whole(request, text, call, tokens):
    message = {"role": "assistant", "content": text}
    if call:
        message["tool_calls"] = [tool_call(call)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    return {
        "id": "chatcmpl-" + uuid.uuid4().hex, "object": "chat.completion", "created": int(time.time()),
        "model": request["model"], "choices": [choice], "usage": usage_of(text, tokens),
    }


def streamed(request, text, call, tokens):
    """The payloads of a streamed answer."""
    base = {"id": "chatcmpl-" + uuid.uuid4().hex, "object": "chat.completion.chunk", "created": int(time.time()), "model": request["model"]}

    def chunk(delta, finish=None):
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    deltas = [chunk({"role": "assistant", "content": ""})]
    deltas += [chunk({"content": piece}) for piece in re.findall(r"\S+\s*", text)]
    if call:
        head = tool_call({**call, "arguments": ""})
        deltas.append(chunk({"tool_calls": [{"index": 0, **head}]}))
        arguments = call["arguments"]
        for start in range(0, len(arguments), 16):
            deltas.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[start:start + 16]}}]}))
    deltas.append(chunk({}, "tool_calls" if call else "stop"))
    deltas.append({**base, "choices": [], "usage": usage_of(text, tokens)})
    return [json.dumps(delta).encode() for delta in deltas] + [b"[DONE]"]


# -- what a request holds


def text_of(message):
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""


def summary_of(request):
    """A summary as a model would write it: under headings, with names of what it replaces."""
    said = "\n".join(text_of(message) for message in request["messages"])
    names = sorted(set(re.findall(r"note-\d+\.txt|\b[a-z]+\d*-\d+\.\d+\b", said)))[-24:]
    return (
        "Goal: do the steps of each task that the user names, one after another.\n"
        f"Done: {', '.join(names)}.\n"
        "State: every step so far ended well; its output was read and nothing of it is open. The command of a step writes "
        "its name into effects.txt, and each third step reads a file of notes instead.\n"
        f"Files: effects.txt, {', '.join(name for name in names if name.endswith('.txt')) or 'no notes yet'}.\n"
    )


def newest_words(request):
    users = [message for message in request["messages"] if message["role"] == "user"]
    return text_of(users[-1]) if users else ""


def newest_task(request):
    for message in reversed(request["messages"]):
        found = TASK.findall(text_of(message)) if message["role"] == "user" else []
        if found:
            # A summary that stands before the task is sent in the same message.
            return found[-1][0], int(found[-1][1])
    return None, 0


def steps_done(request, task):
    """By the names of the task's calls, of which a compaction keeps the newest; clients of other dialects name them anew,
    so by the results behind the task too."""
    ids = [message.get("tool_call_id") or "" for message in request["messages"] if message["role"] == "tool"]
    named = [int(found[2]) + 1 for found in map(CALL.match, ids) if found and found[1] == task]
    behind = 0
    for message in reversed(request["messages"]):
        if message["role"] == "user" and f"TASK {task} " in text_of(message):
            break
        behind += message["role"] == "tool"
    return max([behind, *named])


def has_picture(request):
    contents = [message.get("content") for message in request["messages"]]
    return any(part.get("type") == "image_url" for content in contents if isinstance(content, list) for part in content)


def check_request(request, complain):
    """Each call has its result directly behind it, in order, and no result stands alone."""
    waiting = []
    for number, message in enumerate(request["messages"]):
        if message["role"] == "tool":
            if not waiting or waiting.pop(0) != message.get("tool_call_id"):
                complain(f"message {number} of a request is a result without its call")
        elif waiting:
            complain(f"message {number} of a request stands where results of {waiting} belong")
            waiting = []
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or []]
    if waiting:
        complain(f"a request ends where results of {waiting} belong")
