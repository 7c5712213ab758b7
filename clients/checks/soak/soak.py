"""Sessions and clients of the gateway at work while the model server fails in every way by turns, and what is checked at
the end. Exits with 1 if anything was violated."""

import argparse
import base64
import collections
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import zlib

from model import FAULTS, NOTES, REFUSING, SPARE_MODELS, ModelServer, calls_effect, marker

# A run that takes longer is stuck. The endless silence in the middle of one answer takes ten minutes.
RUN_SECONDS, HUNG_RUN_SECONDS = 240, 900
# Clients of the gateway try a failed request again, as the SDKs do.
CLIENT_SECONDS = 180
# Between two tasks of a player in a soak that is not short: other work on the machine goes on.
PAUSE_SECONDS, SHORT_SECONDS = 1.5, 600
# The requests after which a client of the gateway begins another conversation.
CONVERSATION_TURNS = 12
MARKER = re.compile(r"<<([^<>]+)>>")

CONFIG = """\
name: check
model: {{ name: fake-model, base_url: "http://127.0.0.1:{port}/v1", context_window: 24000, max_output_tokens: 1500 }}
models: {{ {models} }}
retry: {{ patience: 120s, maxDelay: 2s }}
"""


class Ended(Exception):
    """The time is over."""


class Soak:
    def __init__(self, binary, minutes, seed):
        self.binary, self.seconds, self.seed = binary, minutes * 60, seed
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-soak-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        (self.folder / "home").mkdir()
        for number in range(NOTES):
            (self.work / f"note-{number}.txt").write_text(f"note {number}: " + "a line of notes\n" * 60)
        self.model = ModelServer(seed)
        spare = [f"{kind}-{number}: {{ window: 24000, tools: true, media: [images] }}" for kind in REFUSING for number in range(SPARE_MODELS)]
        (self.folder / "longhaul.yml").write_text(CONFIG.format(port=self.model.port, models=", ".join(spare)))
        self.lock = threading.Lock()
        self.violations = []
        self.tasks = collections.Counter()
        self.waits = self.client_errors = self.notes = 0
        self.sessions = {}
        self.is_over = threading.Event()

    # -- the server

    def command(self, data, *args):
        return [self.binary, "--config", self.folder / "longhaul.yml", "--data-dir", self.folder / data, "--workspace", self.work, *args]

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LONGHAUL_LOG": "warn"}

    def start(self):
        self.err = open(self.folder / "err", "wb")
        self.server = subprocess.Popen(
            self.command("data", "serve", "--addr", "127.0.0.1:0", "--yes"),
            cwd=self.work, stdout=subprocess.PIPE, stderr=self.err, text=True, env=self.environment(),
        )
        line = self.server.stdout.readline().strip()
        if not line.startswith("http"):
            raise SystemExit(f"the server did not start:\n{(self.folder / 'err').read_text()}")
        self.address = urllib.parse.urlsplit(line).netloc
        self.token = (self.folder / "data" / "token").read_text().strip()

    def memory_mb(self):
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def ask(self, method, path, body=None, headers=None, seconds=60):
        """One request to the server; the status and the body."""
        connection = http.client.HTTPConnection(self.address, timeout=seconds)
        try:
            payload = None if body is None else json.dumps(body)
            given = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, payload, given)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def api(self, method, path, body=None):
        status, answer = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer)

    def violated(self, text):
        with self.lock:
            self.violations.append(text[:600])

    # -- sessions

    def player(self, name, play):
        """Has `play` do one task after another until the time is over."""
        dice, number = random.Random(f"{self.seed} {name}"), 0
        while not self.is_over.is_set():
            try:
                play(f"{name}-{number}", dice)
                with self.lock:
                    self.tasks[play.__name__] += 1
            except Exception as error:
                self.violated(f"{name}-{number}: {type(error).__name__}: {error}")
                time.sleep(1)
            number += 1
            self.is_over.wait(PAUSE_SECONDS if self.seconds > SHORT_SECONDS else 0)

    def wait_for_stop(self, session, task):
        """Waits until the session rests, and has its run ended by its answer."""
        began, waited = time.monotonic(), False
        while True:
            state = self.api("GET", f"/api/sessions/{session}")
            waited |= state["status"] == "waiting_for_server"
            if state["status"] == "idle" and not state["queued"]:
                break
            limit = HUNG_RUN_SECONDS if self.model.dealt["hung"] else RUN_SECONDS
            if time.monotonic() - began > limit:
                raise RuntimeError(f"the run of {task} is stuck: {state}")
            time.sleep(0.2)
        with self.lock:
            self.waits += waited
        if state.get("lastFinishReason") != "stop":
            self.violated(f"{task} ended with {state.get('lastFinishReason')}: {state.get('lastError')}")

    def expect(self, session, task, steps, note=None):
        with self.lock:
            self.sessions.setdefault(session, []).append((task, steps, note))

    def message(self, session, content):
        body = {"content": content} | ({"sessionId": session} if session else {})
        return self.api("POST", "/api/message", body)["sessionId"]

    def session_player(self, name):
        session = None

        def session_task(task, dice):
            nonlocal session
            steps = dice.randrange(1, 7)
            session = self.message(session, f"TASK {task} steps={steps}")
            note = None
            if dice.random() < 0.2:
                # It enters at the next step, or begins a run of its own if there is none.
                note = f"NOTE-{task}."
                self.message(session, f"{note} Go on, please.")
                self.notes += 1
            self.expect(session, task, steps, note)
            self.wait_for_stop(session, task)

        self.player(name, session_task)

    def variety_player(self, name):
        """Sessions with a model that refuses tools, and with one that refuses a picture."""
        count = 0

        def refused_task(task, dice):
            nonlocal count
            kind = REFUSING[count % 2]
            model, count = f"{kind}-{count // 2 % SPARE_MODELS}", count + 1
            session = self.api("POST", "/api/sessions", {})["id"]
            self.api("POST", f"/api/sessions/{session}/llm", {"model": model})
            steps = 0 if kind == "toolless" else 2
            text = {"type": "text", "text": f"TASK {task} steps=2"}
            picture = {"type": "image", "data": base64.b64encode(png(dice)).decode()}
            self.message(session, [text, picture] if kind == "blind" else [text])
            self.expect(session, task, steps)
            self.wait_for_stop(session, task)

        self.player(name, refused_task)

    def agent_player(self, name):
        """The agent as a model: one request is one run."""
        session = None

        def agent_task(task, dice):
            nonlocal session
            steps = dice.randrange(1, 4)
            body = {"model": "agent/check", "messages": [{"role": "user", "content": f"TASK {task} steps={steps}"}]}
            if session is None:
                session = self.api("POST", "/api/sessions", {})["id"]
            self.expect(session, task, steps)
            status, answer = self.ask("POST", "/v1/chat/completions", body, {"x-longhaul-session": session}, HUNG_RUN_SECONDS)
            text = json.loads(answer)["choices"][0]["message"]["content"] if status == 200 else ""
            if marker(task, "end") not in text:
                self.violated(f"{task} was answered with {status} {answer[:300]!r}")

        self.player(name, agent_task)

    def command_player(self, name):
        """`longhaul run`, once a task, in one session of a data folder of its own."""
        first = True

        def command_task(task, dice):
            nonlocal first
            steps = dice.randrange(1, 4)
            more = [] if first else ["--session", "last"]
            first = False
            command = self.command("own", "run", "--yes", *more, f"TASK {task} steps={steps}")
            done = subprocess.run(command, cwd=self.work, env=self.environment(), capture_output=True, text=True, timeout=HUNG_RUN_SECONDS, stdin=subprocess.DEVNULL)
            if done.returncode != 0 or done.stdout.count(marker(task, "end")) != 1:
                self.violated(f"{task}: `longhaul run` ended with {done.returncode}: {done.stdout[-200:]!r} {done.stderr[-300:]!r}")
            with self.lock:
                self.effects_expected.update(effects_of(task, steps))

        self.player(name, command_task)

    # -- clients of the gateway

    def client_player(self, name, dialect, stream):
        """A client that runs its tools itself and keeps its history itself."""
        history, turns = [], 0

        def client_turn(task, dice):
            nonlocal history, turns
            if turns % CONVERSATION_TURNS == 0:
                history = []
            turns += 1
            history.append({"role": "user", "content": f"TASK {task} steps=2"})
            for step in (0, 1, "end"):
                text, call = self.exchange(dialect, stream, history, task)
                if text.count(marker(task, step)) != 1 or len(MARKER.findall(text)) != 1:
                    raise RuntimeError(f"step {step} of {task} was answered with {text[-200:]!r}")
                if (call is None) != (step == "end"):
                    raise RuntimeError(f"step {step} of {task} came with the call {call}")
                history += dialect.turn(text, call, "a result of the client's own tool. " * 80)

        self.player(name, client_turn)

    def exchange(self, dialect, stream, history, task):
        until = time.monotonic() + CLIENT_SECONDS
        while True:
            try:
                status, answer = self.ask("POST", dialect.path, dialect.request(history, stream), seconds=CLIENT_SECONDS)
                if status == 200:
                    return dialect.read_stream(answer) if stream else dialect.read_whole(answer)
                failure = f"{status} {answer[:300]!r}"
            except (OSError, http.client.HTTPException, Broken) as error:
                failure = f"{type(error).__name__}: {error}"
            with self.lock:
                self.client_errors += 1
            if time.monotonic() > until:
                raise RuntimeError(f"{task} of a client was never answered: {failure}")
            time.sleep(1)

    # -- the whole

    def run(self):
        self.effects_expected = collections.Counter()
        self.start()
        began = time.monotonic()
        chat, messages = Chat(), Messages()
        players = [threading.Thread(target=self.session_player, args=(f"api{number}",)) for number in range(4)]
        players += [
            threading.Thread(target=self.variety_player, args=("variety",)),
            threading.Thread(target=self.agent_player, args=("agent",)),
            threading.Thread(target=self.command_player, args=("command",)),
            threading.Thread(target=self.client_player, args=("chat", chat, False)),
            threading.Thread(target=self.client_player, args=("chat-stream", chat, True)),
            threading.Thread(target=self.client_player, args=("messages-stream", messages, True)),
        ]
        for player in players:
            player.start()
        self.model.may_hang = self.seconds >= 1_800
        early = []
        threading.Timer(min(120, self.seconds / 2), lambda: early.append(self.memory_mb())).start()
        self.model.play(began + self.seconds, 4)
        self.is_over.set()
        for player in players:
            player.join(HUNG_RUN_SECONDS)
            if player.is_alive():
                self.violated("a player did not come to its end")
        late = self.memory_mb()
        self.check_sessions()
        self.check_effects()
        self.check_runs()
        self.check_faults()
        self.stop()
        self.violations += self.model.violations
        minutes = (time.monotonic() - began) / 60
        dealt = " ".join(f"{name}={count}" for name, count in self.model.dealt.items())
        done = " ".join(f"{name}={count}" for name, count in sorted(self.tasks.items()))
        print(
            f"soak: {minutes:.1f} min; tasks {done}; notes={self.notes}; sessions={len(self.sessions)}; runs={self.runs}; "
            f"requests={self.model.requests} answers={self.model.answers} summaries={self.model.summaries}; faults {dealt}; "
            f"waited={self.waits} client-retries={self.client_errors}; effects={sum(self.effects_expected.values())}; "
            f"rss {early[0] if early else '?'} -> {late} MB; violations={len(self.violations)}", flush=True,
        )
        # One of each kind first.
        kinds = {re.sub(r"[0-9a-f-]*[0-9][0-9a-f-]*", "#", violation)[:60]: violation for violation in self.violations}
        for violation in [*kinds.values(), *self.violations][:40]:
            print(f"  violated: {violation}")
        if self.violations:
            print(f"  kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return 1 if self.violations else 0

    def messages_of(self, session):
        after, messages = 0, []
        while True:
            page = self.api("GET", f"/api/sessions/{session}/messages?after={after}&limit=500")
            messages += page["messages"]
            if not page["hasMore"]:
                return messages
            after = page["after"]

    def check_sessions(self):
        """Each answer is there once and whole, each message once, each call with one result that is no failure."""
        for session, expected in self.sessions.items():
            messages = self.messages_of(session)
            answers = [message for message in messages if message["role"] == "assistant" and not message.get("isSummary")]
            said = "".join(text_of(message) for message in answers if message.get("interrupted") != "lost")
            found = collections.Counter(MARKER.findall(said))
            typed = "\n".join(text_of(message) for message in messages if message["role"] == "user" and not message.get("isNote") and not message.get("isSummary"))
            wanted, may_repeat = set(), set()
            for task, steps, note in expected:
                # A message that comes in behind the last step is answered once more.
                may_repeat |= {f"{task}.end"} if note else set()
                wanted |= {f"{task}.{step}" for step in [*range(steps), "end"]}
                self.effects_expected.update(effects_of(task, steps))
                if typed.count(f"TASK {task} ") != 1:
                    self.violated(f"the message of {task} stands {typed.count(f'TASK {task} ')} times in its session")
                if note and typed.count(note) != 1:
                    self.violated(f"the message {note} stands {typed.count(note)} times in its session")
            for name in wanted:
                if not 1 <= found[name] <= (2 if name in may_repeat else 1):
                    self.violated(f"the answer {name} stands {found[name]} times in its session")
            for name in found.keys() - wanted:
                self.violated(f"the answer {name} belongs to nothing")
            self.check_calls(session, messages)

    def check_calls(self, session, messages):
        results = collections.Counter(message["callId"] for message in messages if message["role"] == "tool")
        calls = [call for message in messages if message.get("interrupted") != "lost" for call in message.get("toolCalls") or []]
        for call in calls:
            if call["status"] != "completed" or results[call["callId"]] != 1:
                self.violated(f"the call {call['callId']} of {session} is {call['status']} with {results[call['callId']]} results")
        for stray in results.keys() - {call["callId"] for call in calls}:
            self.violated(f"the result {stray} of {session} has no call")

    def check_effects(self):
        file = self.work / "effects.txt"
        effects = collections.Counter(file.read_text().split() if file.exists() else [])
        for name in effects.keys() | self.effects_expected.keys():
            if effects[name] != self.effects_expected[name]:
                self.violated(f"the tool of {name} ran {effects[name]} times instead of {self.effects_expected[name]}")

    def check_runs(self):
        _, metrics = self.ask("GET", "/metrics")
        ends = dict(re.findall(r'longhaul_runs_total\{finish_reason="([^"]+)"\} (\d+)', metrics.decode()))
        self.runs = int(ends.get("stop", 0))
        for reason, count in ends.items():
            if reason != "stop" and int(count):
                self.violated(f"{count} runs ended with {reason}")
        if not self.runs:
            self.violated("no run ended by its answer")

    def check_faults(self):
        """A soak without faults would show nothing."""
        for name in [*FAULTS, "no-tools", "no-pictures", *(["hung"] if self.seconds >= 1_800 else [])]:
            if not self.model.dealt[name]:
                self.violated(f"the fault {name} never came")

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        try:
            if self.server.wait(35) != 0:
                self.violated(f"the server ended with {self.server.returncode}")
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.violated("the server did not end in 35 s")
        time.sleep(0.5)
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            if int(folder.name) == os.getpid():
                continue
            try:
                place, line = os.readlink(folder / "cwd"), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.folder) in place or os.fsencode(self.folder) in line:
                self.violated(f"process {folder.name} is left behind: {line!r}")


class Broken(Exception):
    """An answer that did not come to its end, or says an error."""


def events_of(body):
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].strip() for line in block.split("\n") if line.startswith("data:"))
        if data and data != "[DONE]":
            yield json.loads(data)


class Chat:
    """A client of Chat Completions."""

    path = "/v1/chat/completions"
    TOOL = {"type": "function", "function": {"name": "note", "description": "Notes something.", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}

    def request(self, history, stream):
        return {"model": "fake-model", "messages": history, "tools": [self.TOOL], "stream": stream}

    def turn(self, text, call, result):
        if call is None:
            return [{"role": "assistant", "content": text}]
        return [{"role": "assistant", "content": text, "tool_calls": [call]}, {"role": "tool", "tool_call_id": call["id"], "content": result}]

    def read_whole(self, body):
        answer = json.loads(body)
        if "error" in answer:
            raise Broken(answer["error"])
        message = answer["choices"][0]["message"]
        return message["content"], (message.get("tool_calls") or [None])[0]

    def read_stream(self, body):
        text, call, finish = "", None, None
        for event in events_of(body):
            if "error" in event:
                raise Broken(event["error"])
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                finish = choice.get("finish_reason") or finish
                for piece in choice["delta"].get("tool_calls") or []:
                    call = call or {"id": piece["id"], "type": "function", "function": {"name": piece["function"]["name"], "arguments": ""}}
                    call["function"]["arguments"] += piece["function"].get("arguments") or ""
        if finish is None or b"[DONE]" not in body:
            raise Broken("the stream ended without its end")
        return text, call


class Messages:
    """A client of Anthropic's Messages."""

    path = "/v1/messages"
    TOOL = {"name": "note", "description": "Notes something.", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}

    def request(self, history, stream):
        return {"model": "fake-model", "max_tokens": 1000, "messages": history, "tools": [self.TOOL], "stream": stream}

    def turn(self, text, call, result):
        if call is None:
            return [{"role": "assistant", "content": text}]
        return [
            {"role": "assistant", "content": [{"type": "text", "text": text}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": result}]},
        ]

    def read_stream(self, body):
        text, call, arguments, is_closed = "", None, "", False
        for event in events_of(body):
            if event["type"] == "error":
                raise Broken(event["error"])
            is_closed |= event["type"] == "message_stop"
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                call = {key: event["content_block"][key] for key in ("type", "id", "name")}
            text += event.get("delta", {}).get("text") or ""
            arguments += event.get("delta", {}).get("partial_json") or ""
        if not is_closed:
            raise Broken("the stream ended without its end")
        if call:
            call["input"] = json.loads(arguments or "{}")
        return text, call


def text_of(message):
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def effects_of(task, steps):
    """What the `bash` calls of a task leave; every third call reads a file."""
    return [calls_effect(task, step) for step in range(steps) if step % 3 != 2]


def png(dice):
    """A picture of eight times eight pixels of chance."""

    def block(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + dice.randbytes(24) for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", head) + block(b"IDAT", zlib.compress(rows)) + block(b"IEND", b"")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(Soak(arguments.binary, arguments.minutes, arguments.seed).run())
