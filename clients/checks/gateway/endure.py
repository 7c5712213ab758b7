#!/usr/bin/env python3
"""What the gateway survives: its own end and its client's in a long job, a chat of a thousand turns, and 200 streams with
many that their client leaves. One line of JSON for each part; the exit code says whether all are well.

  endure.py BINARY [kill|chat|streams …] [--seed 1] [--turns 1000] [--streams 200]

- kill: the job of job.py. Ten times the gateway is killed with SIGKILL and started again on its data folder, and three
  times the client is killed and goes on from the last history that it had whole. `kills` says how many bytes are the same
  at the beginning of the last request before a kill (`of`) and of the first one after it. `seen` are the tickets in the last
  request, `recalled` those that the model finds with `recall`. `estimates` are the least and the largest of the gateway's
  counts as shares of the model's.
- chat: a chat that is many times as long as the window; `summaries` are what the model was asked for.
- streams: streams at the same time. `leaving_seconds` is how long a stream's connection to the model's server stays open
  after its client has left.

No part takes more than two minutes."""

import argparse
import asyncio
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import job
import rules
from gateway import Gateway
from job import FILE, TICKET, ticket, tokens

WINDOW = 32_000
STEPS = 40
FILE_BYTES = 9_000
PART_SECONDS = 118
MOST_SILENCE_SECONDS = 30
# The goal for a chat of 1,000 turns.
MOST_SUMMARIES = 12
CANCELLED_SHARE = 0.3
# A connection may stay open so long after its client has left.
MOST_LEAVING_SECONDS = 5
MOST_GROWTH_MB = 100
RECALLS_OF_A_STEP = 5
NO_SUMMARY = 10**6
# A view below this share of the window needs no shortening, so that a restart must not change it.
FULL_SHARE = 0.78
# The gateway must not count a request of this model as less.
LEAST_ESTIMATE = 0.9
QUESTION = "Which release tickets have the modules"
VERSE = re.compile(r"verse,? (?:number )?(\d+)(?:, about|:) ([a-z]+ [a-z]+ [a-z]+)")
MARK = re.compile(r"mk(\d+)x(\d+)m")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def same_bytes(one, other):
    return len(os.path.commonprefix([one, other]))


def goes_on(before, after):
    """Whether a request is another one with more messages at the end, or none."""
    return same_bytes(before, after) >= len(before) - len(b"]}")


class Model(job.Model):
    """The model of job.py with more patience for watchers: it keeps the bytes of each request, streams an answer in pieces
    and calls `watch(event, entry)` on the way. It can look up what it is no longer shown."""

    def __init__(self, delay=lambda is_summary: 0.0, pause=0.0, watch=None):
        super().__init__("chat", WINDOW, STEPS, delay, "names")
        self.server.handle_error = self.not_served
        self.pause, self.watch = pause, watch or (lambda event, entry: None)
        self.faults, self.recalled, self.answers = [], set(), 0

    def not_served(self, *_):
        """Keeps what is no broken connection. Those are the work of the kills."""
        if not isinstance(sys.exc_info()[1], OSError):
            self.faults.append(f"the model failed: {sys.exc_info()[1]!r}")

    def answer(self, handler, body):
        text = self.rendered(body)
        count = tokens(text)
        is_summary = any(order in json.dumps(body["messages"][-1]) for order in job.ORDERS)
        entry = {
            "at": time.time(), "raw": handler.raw, "input": count, "summary": is_summary, "refused": count + 16 > self.window,
            "question": QUESTION in text, "number": 0, "seen": set(TICKET.findall(text)),
        }
        with self.lock:
            self.answers += 1
            number = entry["number"] = self.answers
            self.faults += [f"request {number}: {fault}" for fault in rules.chat(body, None)]
            self.log.append(entry)
        if entry["refused"]:
            message = f"This model's maximum context length is {self.window} tokens. However, your messages resulted in {count} tokens."
            error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return handler.reply(400, {"error": error})
        self.watch("asked", entry)
        time.sleep(self.delay(is_summary))
        said, calls = self.next_step(text, body, is_summary)
        self.send(handler, body, entry, said, calls)
        self.watch("answered", entry)

    def next_step(self, text, body, is_summary):
        if is_summary:
            return self.summary(text)[0], []
        if QUESTION in text:
            return self.looked_up(text, body)
        said, call = self.step(text)
        return said, [("read", call)] if call else []

    def summary(self, text):
        verses = VERSE.findall(text)
        if not verses:
            return super().summary(text)
        # One line for some of the verses, from the first to the last.
        some = verses[:: max(1, len(verses) // 30)]
        lines = ["Goal: a verse for each number, about the words that the user gives.", "Done: the verses up to the newest number:"]
        lines += [f"- verse {number}: {words}" for number, words in some] + ["Next steps: say the next verse."]
        return "\n".join(lines), None

    def looked_up(self, text, body):
        """Asks for the tickets of a question once, and says what came."""
        asked = max(at for at, message in enumerate(body["messages"]) if message["role"] == "user")
        results = [message for message in body["messages"][asked:] if message["role"] == "tool"]
        if results:
            self.recalled |= set(TICKET.findall(json.dumps(results)))
        if results or "recall" not in rules.tool_names("chat", body):
            return "The tickets: " + ", ".join(sorted(set(TICKET.findall(text)))), []
        modules = re.findall(r"\d\d", body["messages"][asked]["content"].split(QUESTION)[1])
        return "", [("recall", {"query": f"TICKET-{module}", "limit": 2}) for module in modules]

    def send(self, handler, body, entry, said, calls):
        number, count = entry["number"], entry["input"]
        calls = [{"id": f"call_{number}_{index}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                 for index, (name, arguments) in enumerate(calls)]
        output = tokens(said + json.dumps(calls))
        usage = {"prompt_tokens": count, "completion_tokens": output, "total_tokens": count + output}
        head = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        finish = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": said} | ({"tool_calls": calls} if calls else {})
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return handler.reply(200, head | {"object": "chat.completion", "usage": usage, "choices": [choice]})
        words = re.findall(r"\S+\s*", said)
        deltas = [{"role": "assistant", "content": ""}] + [{"content": "".join(words[at : at + 4])} for at in range(0, len(words), 4)]
        deltas += [{"tool_calls": [{"index": index} | call]} for index, call in enumerate(calls)]
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices += [[{"index": 0, "delta": {}, "finish_reason": finish}], []]
        events = [head | {"choices": choice} | ({} if choice else {"usage": usage}) for choice in choices]
        pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", str(sum(map(len, pieces))))
        handler.end_headers()
        for at, piece in enumerate(pieces):
            if at == len(pieces) // 2:
                self.watch("half", entry)
            handler.wfile.write(piece)
            time.sleep(0 if entry["summary"] else self.pause)

    def mains(self):
        return [entry for entry in self.log if not entry["summary"] and not entry["refused"] and not entry["question"]]


class Client(job.Agent):
    """The agent of job.py in a process of its own. It keeps its history in a file after each whole answer. A connection
    that breaks is tried again, and noted in a second file as everything that it gets."""

    patience = MOST_SILENCE_SECONDS

    def __init__(self, url, history, notes):
        super().__init__(url, "chat", STEPS, FILE_BYTES)
        self.history, self.notes = pathlib.Path(history), open(notes, "a")
        if self.history.exists():
            self.messages = json.loads(self.history.read_text())

    def note(self, **what):
        self.notes.write(json.dumps({"at": time.time(), **what}) + "\n")
        self.notes.flush()

    def keep(self):
        fresh = self.history.with_suffix(".new")
        fresh.write_text(json.dumps(self.messages))
        fresh.replace(self.history)

    def work(self):
        results = True
        while results:
            try:
                self.answer, said, results = self.ask()
            except urllib.error.HTTPError as error:
                self.note(error=f"{error.code} {error.read().decode()[:300]}")
                sys.exit(1)
            except (OSError, http.client.HTTPException) as why:
                self.note(broken=repr(why)[:200])
                time.sleep(0.1)
                continue
            self.messages += said + results
            self.keep()

    def ask(self):
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(self.body()).encode(), {"content-type": "application/json"})
        begun = time.time()
        with urllib.request.urlopen(request, timeout=self.patience) as answer:
            data = answer.read().decode()
        lines = [line for line in data.splitlines() if line.startswith("data: ")]
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        errors = [event["error"] for event in events if "error" in event]
        if errors:
            self.note(error=json.dumps(errors)[:300])
            sys.exit(1)
        if lines[-1:] != ["data: [DONE]"]:
            raise http.client.IncompleteRead(data.encode())
        action, reason, estimate = (answer.headers.get(f"x-longhaul-{name}") for name in ("action", "reason", "tokens-after"))
        self.note(answered=int(events[0]["id"][1:]), action=action, reason=reason, estimate=estimate, seconds=round(time.time() - begun, 3))
        return self.chat_step(events)


class Killer:
    """Kills the gateway and the client at moments of the model's: each plan waits for its event, and happens once."""

    def __init__(self, dice):
        self.dice, self.gateway, self.client = dice, None, None
        self.kills, self.client_kills, self.mains, self.shortenings, self.before = [], 0, 0, 0, b""
        # The requests since the newest summary, as long as it is not in use; else far more than a plan waits for.
        self.since_summary = NO_SUMMARY
        self.lock, self.restarts = threading.Lock(), []
        early, late = dice.sample(range(2, 9), 2), dice.sample(range(22, STEPS - 2), 4)
        at_main = lambda number: lambda entry: not entry["summary"] and self.mains >= number
        shortened = lambda count: lambda entry: not entry["summary"] and self.shortenings >= count
        of_summary = lambda entry: entry["summary"]
        self.plans = [
            ["in mid-stream, before anything was shortened", "half", at_main(early[0]), "gateway"],
            ["before the answer to the first shortened request", "asked", shortened(1), "gateway"],
            ["in the answer to a shortened request", "half", shortened(2), "gateway"],
            ["right after the answer to a shortened request", "answered", shortened(3), "gateway"],
            ["while a summary is written", "asked", of_summary, "gateway"],
            ["right after a summary", "answered", of_summary, "gateway"],
            ["while a summary waits for its use", "asked", lambda entry: not entry["summary"] and self.since_summary == 2, "gateway"],
            ["the client in mid-stream", "half", at_main(early[1]), "client"],
            ["the client in mid-stream of a shortened request", "half", shortened(2), "client"],
        ]
        self.plans += [["at random", "asked", at_main(number), "gateway"] for number in late[:3]]
        self.plans += [["the client at random", "asked", at_main(late[3]), "client"]]

    def watch(self, event, entry):
        with self.lock:
            if event == "answered" and entry["summary"]:
                self.since_summary = 0
            if event == "asked" and not entry["summary"]:
                self.mains += 1
                self.since_summary += 1
                if self.before and not goes_on(self.before, entry["raw"]):
                    self.shortenings += 1
                    self.since_summary = NO_SUMMARY
                self.before = entry["raw"]
            is_down = any(not kill["up"] for kill in self.kills)
            plan = None if is_down else next((plan for plan in self.plans if plan[1] == event and plan[2](entry)), None)
            if plan is None:
                return
            self.plans.remove(plan)
            if plan[0].endswith("at random"):
                timer = threading.Timer(self.dice.uniform(0, 0.4), self.strike, [plan])
                timer.start()
                self.restarts.append(timer)
                return
        # A summary that is being written, or was just written, is cut off within the next moments.
        time.sleep(self.dice.uniform(0, 0.05))
        self.strike(plan)

    def strike(self, plan):
        with self.lock:
            if plan[3] == "client":
                self.client_kills += 1
                return self.client.kill()
            if any(not kill["up"] for kill in self.kills):
                # It is down already, so there is nothing to kill.
                return self.plans.append(plan)
            self.gateway.kill()
            kill = {"when": plan[0], "at": time.time(), "up": None}
            self.kills.append(kill)
        timer = threading.Timer(self.dice.uniform(0.05, 0.6), self.restart, [kill])
        timer.start()
        self.restarts.append(timer)

    def restart(self, kill):
        self.gateway.start()
        kill["up"] = time.time()


def run_client(killer, folder, url, deadline):
    """Runs the client to its end, and again after each kill; what went wrong, if anything."""
    command = [sys.executable, "-B", __file__, "--client", url, folder / "history.json", folder / "notes"]
    while True:
        killer.client = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            _, err = killer.client.communicate(timeout=max(1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            killer.client.kill()
            return "the job did not end in time"
        if killer.client.returncode == 0:
            return None
        if killer.client.returncode != -signal.SIGKILL:
            return f"the client ended with {killer.client.returncode}: {err.strip()[-300:]}"


def ask_for_all(url, history, deadline):
    """Asks for the tickets of all modules, some at a time; what went wrong, if anything."""
    client = job.Agent(url, "chat", STEPS, FILE_BYTES)
    client.patience = MOST_SILENCE_SECONDS
    for first in range(1, STEPS + 1, RECALLS_OF_A_STEP):
        modules = ", ".join(f"{module:02}" for module in range(first, min(first + RECALLS_OF_A_STEP, STEPS + 1)))
        client.messages = [*history, {"role": "user", "content": f"{QUESTION} {modules}?"}]
        try:
            client.ask()
        except (OSError, ValueError, KeyError) as error:
            return f"a question for tickets failed: {error!r}"
        if time.time() > deadline:
            return "the questions for tickets did not end in time"
    return None


def after_kills(kills, mains, notes):
    """What became of the prefix at each kill, and what is wrong with it."""
    told, faults = [], []
    for kill in kills:
        before = [entry for entry in mains if entry["at"] <= kill["at"]][-1]
        after = next((entry for entry in mains if entry["at"] > kill["at"]), None)
        if after is None:
            faults.append(f"{kill['when']}: no request came after the kill")
            continue
        answer = next((note for note in notes if "answered" in note and note["at"] > after["at"]), {"action": "unknown"})
        same, of = same_bytes(before["raw"], after["raw"]), len(before["raw"])
        told.append({"when": kill["when"], "same": same, "of": of, "action": answer["action"]})
        # What is full is shortened with or without a kill.
        is_due = answer["action"] in ("pruned", "compacted") and before["input"] > FULL_SHARE * WINDOW
        if not goes_on(before["raw"], after["raw"]) and not is_due:
            faults.append(
                f"{kill['when']}: of {of} bytes ({before['input']} tokens) only {same} begin the next request of {len(after['raw'])}, "
                f"which was {answer['action']}: {answer.get('reason')}"
            )
    return told, faults


def estimates(mains, notes):
    """The gateway's count of each request, as a share of the model's."""
    counts = {entry["number"]: entry["input"] for entry in mains}
    counted = [note for note in notes if note.get("estimate") and note.get("answered") in counts]
    return [int(note["estimate"]) / counts[note["answered"]] for note in counted]


def unmatched(notes, kills):
    """The breaks of connections that no kill explains, and the errors."""
    is_down = lambda at: any(kill["at"] - 0.2 <= at <= (kill["up"] or at) + 0.2 for kill in kills)
    return [json.dumps(note) for note in notes if "error" in note or "broken" in note and not is_down(note["at"])]


def kill(binary, options):
    dice = random.Random(options.seed)
    deadline = time.time() + PART_SECONDS
    killer = Killer(dice)
    model = Model(lambda is_summary: dice.choice((0.1, 0.9)) if is_summary else 0.2, pause=0.01, watch=killer.watch)
    more = f"models: {{ m: {{ window: {WINDOW} }} }}\ngateway: {{ recall: inject }}\n"
    killer.gateway = Gateway(binary, model, None, "m", more, free_port())
    faults = []
    with tempfile.TemporaryDirectory(prefix="longhaul-endure-") as folder:
        folder = pathlib.Path(folder)
        try:
            faults += filter(None, [run_client(killer, folder, killer.gateway.url, deadline)])
            for timer in killer.restarts:
                timer.join()
            notes = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
            history = json.loads((folder / "history.json").read_text())
            faults += filter(None, [ask_for_all(killer.gateway.url, history, deadline)])
        finally:
            log = killer.gateway.said()
            killer.gateway.close(keep=options.keep)
            model.server.shutdown()
    mains, refused = model.mains(), sum(entry["refused"] for entry in model.log)
    told, prefix_faults = after_kills(killer.kills, mains, notes)
    errors = unmatched(notes, killer.kills)
    seen = mains[-1]["seen"]
    lost = {ticket(step) for step in range(1, STEPS + 1)} - seen - model.recalled
    faults += model.faults[:5] + prefix_faults + errors[:5] + [f"{refused} requests were longer than the window"] * bool(refused)
    faults += [f"lost: {sorted(lost)}"] * bool(lost) + ["it panicked"] * ("panicked" in log)
    shares = estimates(mains, notes)
    faults += [f"a request was counted as {min(shares):.0%} of its tokens"] * (min(shares) < LEAST_ESTIMATE)
    faults += [f"no kill {plan[0]}" for plan in killer.plans]
    if options.keep:
        (killer.gateway.folder / "requests").mkdir()
        for number, entry in enumerate(model.log):
            kind = "summary" if entry["summary"] else "question" if entry["question"] else "main"
            (killer.gateway.folder / "requests" / f"{number:03}-{kind}-{entry['at'] % 1000:.2f}.json").write_bytes(entry["raw"])
        (killer.gateway.folder / "notes").write_text("\n".join(json.dumps(note) for note in notes + killer.kills))
        print(killer.gateway.folder, file=sys.stderr)
    return {
        "kills": told, "client_kills": killer.client_kills, "client_errors": len(errors), "requests": len(mains), "refused_upstream": refused,
        "summaries": sum(entry["summary"] for entry in model.log), "seen": len(seen), "recalled": len(model.recalled), "lost": len(lost),
        "estimates": [round(min(shares), 3), round(max(shares), 3)], "longest_wait": max(note.get("seconds", 0) for note in notes),
        "faults": faults,
    }


def chat(binary, options):
    deadline = time.time() + PART_SECONDS
    model = Model(lambda is_summary: 1.0 if is_summary else 0.0)
    gateway = Gateway(binary, model, WINDOW, "m")
    client = job.Agent(gateway.url, "chat", STEPS, FILE_BYTES)
    client.messages, client.patience, faults, turns = [], MOST_SILENCE_SECONDS, [], 0
    try:
        for turn in range(options.turns):
            if time.time() > deadline:
                faults.append(f"only {turn} turns in {PART_SECONDS} s")
                break
            words = " ".join(random.Random(turn).choices(job.WORDS, k=30))
            client.messages.append({"role": "user", "content": f"Say the next verse, number {turn}, about {words}."})
            try:
                text, said, _ = client.ask()
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                said_of = error.read().decode()[:300] if isinstance(error, urllib.error.HTTPError) else ""
                faults.append(f"turn {turn}: {error!r} {said_of}")
                break
            faults += [f"turn {turn}: the answer is {text[:80]!r}"] * (not text.startswith("The verse: ") or not text.endswith("."))
            client.messages += said
            turns += 1
        # A summary that is still being written counts.
        time.sleep(1.5)
    finally:
        log, memory = gateway.said(), gateway.memory()
        gateway.close(keep=options.keep)
        model.server.shutdown()
    if options.keep:
        print(gateway.folder, file=sys.stderr)
    summaries = sum(entry["summary"] for entry in model.log)
    refused = sum(entry["refused"] for entry in model.log)
    faults += model.faults[:5] + [f"{refused} requests were longer than the window"] * bool(refused)
    faults += [f"{summaries} summaries"] * (summaries > MOST_SUMMARIES) + ["it panicked"] * ("panicked" in log)
    return {
        "turns": turns, "summaries": summaries, "requests": len(model.mains()), "refused_upstream": refused,
        "longest_wait": round(client.longest_wait, 2), "memory_mb": memory, "faults": faults,
    }


class StreamServer:
    """A model's server for many slow streams at a time. An answer is a number of marks, one after another."""

    dialect = "chat"

    def __init__(self, marks, pause):
        self.marks, self.pause = marks, pause
        # What became of each stream, by its number: the marks that were sent, and when its connection was closed.
        self.begun, self.whole, self.closed = set(), set(), {}
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1024, limit=1 << 20)

    async def serve(self, reader, writer):
        try:
            while head := await request_head(reader):
                body = json.loads(await reader.readexactly(int(head.get("content-length", 0))) or b"{}")
                if "messages" not in body:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
                    continue
                await self.answer(reader, writer, int(re.findall(r"stream (\d+)", json.dumps(body["messages"][-1]))[0]))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, reader, writer, number):
        self.begun.add(number)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        # Nothing comes in while an answer goes out, but for the end of the connection.
        is_closed = asyncio.ensure_future(reader.read(1))
        head = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        last = [head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                head | {"choices": [], "usage": {"prompt_tokens": 3000, "completion_tokens": self.marks * 4, "total_tokens": 3000 + self.marks * 4}}]
        for at in range(self.marks):
            delta = {"content": f"mk{number}x{at}m "} | ({"role": "assistant"} if at == 0 else {})
            writer.write(chunk(f"data: {json.dumps(head | {'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})}\n\n"))
            done, _ = await asyncio.wait([is_closed], timeout=self.pause)
            if done:
                self.closed[number] = time.time()
                raise ConnectionResetError
        writer.write(chunk("".join(f"data: {json.dumps(event)}\n\n" for event in last) + "data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        self.whole.add(number)
        is_closed.cancel()
        await asyncio.gather(is_closed, return_exceptions=True)


def chunk(text):
    data = text.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def request_head(reader):
    """The headers of a request or an answer, with the first line under an empty name; nothing at the end of the connection."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    return {"": lines[0]} | {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}


async def one_stream(url, number, leaves_after=None):
    """What a client got: the text, or what is wrong, and when it left."""
    history = [{"role": "system", "content": job.SYSTEM[:4000]}]
    for turn in range(4):
        words = " ".join(random.Random(1000 * number + turn).choices(job.WORDS, k=120))
        history += [{"role": "user", "content": f"Say something about {words}."}, {"role": "assistant", "content": f"It is {words}."}]
    history.append({"role": "user", "content": f"Answer in stream {number}"})
    body = json.dumps({"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": history}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]), limit=1 << 20)
    reading = asyncio.ensure_future(got_of(reader, writer, body))
    try:
        return {"number": number, "text": await asyncio.wait_for(reading, leaves_after or 100), "left": None}
    except asyncio.TimeoutError:
        return {"number": number, "text": None, "left": time.time()}
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        return {"number": number, "text": None, "left": None, "error": repr(error)[:200]}
    finally:
        # A client that is killed sends no farewell.
        writer.transport.abort() if leaves_after and number % 2 else writer.close()


async def got_of(reader, writer, body):
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                 + f"content-length: {len(body)}\r\n\r\n".encode() + body)
    head = await request_head(reader)
    if " 200 " not in head[""]:
        raise ValueError(f"{head['']}: {(await reader.read(300)).decode()}")
    got = b""
    while size := int(await reader.readline(), 16):
        got += await reader.readexactly(size)
        await reader.readline()
    lines = [line[6:] for line in got.decode().splitlines() if line.startswith("data: ")]
    if lines[-1:] != ["[DONE]"]:
        raise ValueError(f"no end: {lines[-1:]}")
    events = [json.loads(line) for line in lines[:-1]]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def fault_of(got, marks):
    """What is wrong with a stream that nobody left."""
    want = [(got["number"], at) for at in range(marks)]
    if got.get("error"):
        return f"stream {got['number']}: {got['error']}"
    has = [(int(number), int(at)) for number, at in MARK.findall(got["text"] or "")]
    return None if has == want else f"stream {got['number']}: {len(has)} marks of {marks}, in order: {has == sorted(has)}"


async def run_streams(binary, options):
    server, dice = StreamServer(marks=60, pause=0.4), random.Random(options.seed)
    await server.start()
    gateway = await asyncio.to_thread(Gateway, binary, server, WINDOW, "m")
    count, faults = options.streams, []
    leaving = {number: dice.uniform(0.1, 20) for number in dice.sample(range(count), int(count * CANCELLED_SHARE))}
    try:
        server.marks, server.pause = 10, 0
        await one_stream(gateway.url, count)
        server.marks, server.pause = 60, 0.4
        before = gateway.memory()
        begun = [asyncio.ensure_future(one_stream(gateway.url, number, leaving.get(number))) for number in range(count)]
        most = 0
        while not all(stream.done() for stream in begun):
            most = max(most, gateway.memory())
            await asyncio.sleep(0.25)
        streams = [stream.result() for stream in begun]
        await asyncio.sleep(MOST_LEAVING_SECONDS)
        after = gateway.memory()
        server.marks, server.pause = 10, 0
        later = await asyncio.gather(*(one_stream(gateway.url, number) for number in range(count + 1, count + 21)))
    finally:
        log = gateway.said()
        await asyncio.to_thread(gateway.close)
        server.server.close()
    left = [stream for stream in streams if stream["left"]]
    asked = [stream for stream in left if stream["number"] in server.begun]
    waits = [server.closed[stream["number"]] - stream["left"] for stream in asked if stream["number"] in server.closed]
    stayed = [stream["number"] for stream in asked if stream["number"] not in server.closed]
    faults += list(filter(None, (fault_of(stream, 60) for stream in streams if not stream["left"])))[:5]
    faults += list(filter(None, (fault_of(stream, 10) for stream in later)))[:5]
    faults += [f"streams that went on after their client had left: {stayed[:10]}"] * bool(stayed)
    faults += [f"{len(left)} clients left of {len(leaving)}"] * (len(left) != len(leaving))
    faults += ["a connection stayed open too long"] * (max(waits, default=0) > MOST_LEAVING_SECONDS)
    faults += [f"memory grew from {before} to {after} MB"] * (after > before + MOST_GROWTH_MB)
    faults += ["it panicked"] * ("panicked" in log)
    return {
        "streams": count, "left": len(left), "left_upstream": len(asked), "whole": sum(not fault_of(stream, 60) for stream in streams if not stream["left"]),
        "leaving_seconds": round(max(waits, default=0), 2), "later": sum(not fault_of(stream, 10) for stream in later),
        "memory_mb": {"before": before, "most": most, "after": after}, "faults": faults,
    }


def streams(binary, options):
    return asyncio.run(asyncio.wait_for(run_streams(binary, options), PART_SECONDS))


PARTS = {"kill": kill, "chat": chat, "streams": streams}


def main():
    if sys.argv[1:2] == ["--client"]:
        return Client(*sys.argv[2:]).work()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--keep", action="store_true", help="keep the folders of `kill`, with all requests, and `chat`; LONGHAUL_LOG says what their logs hold")
    options = parser.parse_args()
    is_well = True
    for name in options.parts or PARTS:
        begun = time.time()
        try:
            line = PARTS[name](options.binary, options)
        except Exception as error:
            line = {"faults": [f"the check failed: {error!r}"]}
        is_well = is_well and not line["faults"]
        print(json.dumps({"part": name, "ok": not line["faults"], "seconds": round(time.time() - begun)} | line), flush=True)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
