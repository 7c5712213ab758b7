#!/usr/bin/env python3
"""Real agents in a long job, behind the gateway and alone: each reads 40 files with its own shell, one by one, before a
scripted model that has a window, a prompt cache and a summariser that takes its time. One line of JSON for each run.

  agents_job.py BINARY FOLDER CLIENT[,CLIENT…] [--windows 64000,32000] [--alone] [--pace 0] [--delay 2]

FOLDER holds what agents.sh installs. Behind the gateway an agent believes that its window is endless. With `--alone` it is
told of the window and shortens by itself. `--pace` are the seconds that the model takes for a step, `--delay` those for a
summary. Costs are counted as in job.py. Of the needles, tickets that stand in one file each, `seen` are in the last request.
"""

import argparse
import json
import os
import pathlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import agents
import backend
import rules
import tap
from gateway import Gateway
from job import FILE, ORDERS, TICKET, cost, file_of, tokens
from tap import Tap

STEPS = 40
FILE_BYTES = 9_000
TASK = (
    "Read all modules from src/module_01 on in order, one at a time, with the shell (cat), and at the end list the release "
    "ticket of each. Never write to a file. Answer in English."
)
# How agents ask for a summary of their own.
OWN_SUMMARY = re.compile(r"summar|CHECKPOINT|hand.?off|compact|state_snapshot", re.I)
# The billing block of Claude Code differs in each request, and no server counts it as part of the prefix.
BILLING = re.compile(r'x-anthropic-billing-header:[^"]*')
CACHE_MARK = re.compile(r',? ?"cache_control": \{[^}]*\}')
DIALECTS = {"codex": "responses", "claude-code": "messages"}


def canonical(value):
    """JSON as a prompt cache sees it."""
    return BILLING.sub("", CACHE_MARK.sub("", json.dumps(value, sort_keys=True, ensure_ascii=False)))


class Model:
    """A model server with a window and a prompt cache. It reads one file after another through the client's shell."""

    overflow = "own"

    def __init__(self, dialect, window, pace, delay):
        self.dialect, self.window, self.pace, self.delay = dialect, window, pace, delay
        self.read, self.log, self.faults, self.lock, self.answers = [], [], [], threading.Lock(), 0
        # What the writers of the dialects keep.
        self.signed, self.calls = {}, {}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                backend.reply(self, 200, {})

            def do_GET(self):
                models = {"object": "list", "data": [{"id": "fake-model", "object": "model", "created": 1, "owned_by": "x"}]}
                is_list = self.path.split("?")[0].rstrip("/").endswith("/models")
                backend.reply(self, *((200, models) if is_list else (404, {"error": {"message": "no such path"}})))

            def do_POST(self):
                model.answer(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler):
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        path = handler.path.split("?")[0].removeprefix("/v1")
        if path == "/messages/count_tokens":
            return backend.reply(handler, 200, {"input_tokens": len(raw) // 4})
        if backend.PATHS.get(path) != self.dialect:
            return backend.reply(handler, 404, {"error": {"message": f"no such path {path}"}})
        body = json.loads(raw)
        entry, text = self.noted(body)
        if entry["refused"]:
            return backend.reply(handler, *backend.Backend.refusal(self, entry["input"], 0))
        text, calls = self.said(entry["kind"], text, rules.tool_names(self.dialect, body))
        with self.lock:
            self.answers += 1
            number = self.answers
            entry["output"] = tokens(text + json.dumps([arguments for _, arguments in calls]))
        calls = [(f"{backend.prefix_of(self.dialect)}{number:05d}", *call) for call in calls]
        answer = {"kind": "main", "text": text, "calls": calls, "number": number, "tokens": entry["input"], "cached": entry["cached"], "body": body}
        try:
            backend.WRITERS[self.dialect](handler, answer)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def noted(self, body):
        """The request's entry in the log, and its text."""
        items = body.get("messages") or body.get("input") or []
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        fixed = [canonical(body.get("tools", [])), canonical(body.get("system") or body.get("instructions") or "")]
        text = "\x1e".join(fixed + [canonical(item) for item in items])
        count = tokens(text)
        kind = self.kind(body, items, text, count)
        with self.lock:
            cached = max((len(os.path.commonprefix([text, earlier])) for earlier in self.read[-30:]), default=0) // 4
            entry = {
                "refused": count + 16 > self.window, "kind": kind, "summary": kind == "summary", "input": count,
                # A cache holds whole blocks.
                "cached": min(cached // 128 * 128, count), "output": 0, "seen": len(set(TICKET.findall(text))),
            }
            self.log.append(entry)
            if not entry["refused"]:
                self.read.append(text)
        return entry, text

    def kind(self, body, items, text, count):
        """Whether the request is of the job, for a summary of the gateway or of the agent, or beside it (a title)."""
        shown = [item for item in items if item.get("role") not in ("system", "developer")]
        last = json.dumps(shown[-1]) if shown else ""
        if any(json.dumps(order)[1:-1] in last for order in ORDERS):
            return "summary"
        has_tools = bool(rules.tool_names(self.dialect, body))
        is_typed = bool(shown) and shown[-1].get("role") == "user" and "tool_result" not in last
        is_task = TASK[:40] in last or "Done: these files" in last
        if is_typed and not is_task and OWN_SUMMARY.search(last) or not has_tools and count > 8_000 and OWN_SUMMARY.search(text):
            return "own"
        return "main" if has_tools else "side"

    def said(self, kind, text, tools):
        """The answer's text, and its calls."""
        if kind == "side":
            return "A short title", []
        if kind in ("summary", "own"):
            time.sleep(self.delay)
            done = sorted({f"src/module_{number}.rs" for number in FILE.findall(text)})
            lines = ["Goal: read every module in order and list the release ticket of each.", "Done: these files were read:"]
            lines += [f"- {path}" for path in done] + ["Next steps: read the next module and note its release ticket."]
            return "\n".join(lines), []
        time.sleep(self.pace)
        done = max((int(number) for number in FILE.findall(text)), default=0)
        if done >= STEPS:
            tickets = "The tickets: " + ", ".join(sorted(set(TICKET.findall(text))))
            ends_by_call = "submit_and_exit" in tools and text.count("The tickets:") == 0
            return tickets, [("submit_and_exit", {"summary": tickets, "verified": True})] if ends_by_call else []
        path = f"src/module_{done + 1:02}.rs"
        shell = agents.shell(0, tools)
        if shell is None:
            self.faults.append(f"no shell among {tools[:30]}")
            return "There is no shell.", []
        name, arguments = shell
        line = f"cat {path}"
        arguments = {**arguments, agents.SHELLS[name]: [line] if agents.SHELLS[name] == "commands" else line}
        return f"I have noted module {done:02}. Next is {path}.", [(name, arguments)]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def let_it_shorten(client, at, window):
    """Tells an agent of the window, and turns its own shortening on, as its users have it."""
    if client == "codex":
        file = at.home / ".codex" / "config.toml"
        settings = file.read_text().replace(f"model_context_window = {agents.LARGE}", f"model_context_window = {window}")
        limit = f"model_auto_compact_token_limit = {agents.LARGE - 1}"
        file.write_text(settings.replace(limit, f"model_auto_compact_token_limit = {window * 8 // 10}"))
    elif client == "claude-code":
        at.env.pop("DISABLE_AUTO_COMPACT", None)
        at.env.update(CLAUDE_CODE_AUTO_COMPACT_WINDOW=str(window), CLAUDE_CODE_MAX_CONTEXT_TOKENS=str(window))
    elif client == "opencode":
        file = at.work / "opencode.json"
        settings = json.loads(file.read_text())
        settings["compaction"] = {"auto": True, "prune": False}
        settings["provider"]["check"]["models"]["fake-model"]["limit"]["context"] = window
        file.write_text(json.dumps(settings))
    elif client == "qwen-code":
        file = at.home / ".qwen" / "settings.json"
        settings = json.loads(file.read_text())
        settings["model"] = {"chatCompression": {"contextPercentageThreshold": 0.7}, "generationConfig": {"contextWindowSize": window}}
        file.write_text(json.dumps(settings))
    elif client == "pi":
        folder = at.home / ".pi" / "agent"
        models = folder / "models.json"
        models.write_text(models.read_text().replace(str(agents.LARGE), str(window)))
        (folder / "settings.json").write_text("{}")


def work(client, at, window, alone):
    """Runs the agent to its end; what went wrong, if anything."""
    commands = agents.CLIENTS[client](at)
    if alone:
        let_it_shorten(client, at, window)
    try:
        for command in [*at.prepare, *commands]:
            code, out, err = agents.go(at, command, None, 280)
            if code != 0:
                return f"exit {code}: {err.strip()[-300:]} {out.strip()[-200:]}"
        return None
    finally:
        for command in at.end:
            agents.go(at, command, None, 20)


def failed_requests(listener):
    """The errors that the agent got."""
    found = []
    for entry in [entry for entry in listener.seen if tap.dialect(entry)]:
        try:
            error = tap.read(entry)[2]
        except (ValueError, KeyError, TypeError) as problem:
            error = repr(problem)
        if error or not entry["done"] or entry["status"] >= 400:
            found.append(str(error or entry.get("broke") or entry["status"])[:200])
    return found


def run(binary, folder, client, window, alone, pace, delay):
    dialect = DIALECTS.get(client, "chat")
    model = Model(dialect, window, pace, delay)
    gateway = None if alone else Gateway(binary, model, window)
    listener = Tap(model.url if alone else gateway.url)
    at = agents.At({"client": client, "dialect": dialect, "turns": 1, "folder": folder}, listener.url)
    at.questions = [TASK]
    (at.work / "src").mkdir()
    for step in range(1, STEPS + 1):
        (at.work / f"src/module_{step:02}.rs").write_text(file_of(step, FILE_BYTES))
    try:
        failure = work(client, at, window, alone)
        # A summary that is still being written belongs to the run.
        time.sleep(delay + 0.5)
    finally:
        log = gateway.said() if gateway else ""
        if gateway:
            gateway.close()
        at.close()
        listener.close()
        model.close()
    read = [entry for entry in model.log if not entry["refused"]]
    of_kind = lambda kind: [entry for entry in read if entry["kind"] == kind]
    share = lambda entries: round(sum(entry["cached"] for entry in entries) / max(1, sum(entry["input"] for entry in entries)), 3)
    main, summaries, errors = of_kind("main"), of_kind("summary"), failed_requests(listener)
    return {
        "client": client, "version": agents.version({"client": client, "folder": folder}), "window": window, "alone": alone,
        "ended": failure or "well", "client_errors": len(errors), "refused_upstream": len(model.log) - len(read),
        "requests": len(main), "cost": round(cost(model.log)), "hits": share(main), "seen": main[-1]["seen"] if main else 0,
        "summaries": len(summaries), "summaries_cached": share(summaries), "own_summaries": len(of_kind("own")),
        "panics": log.count("panicked"), "said": errors[:3] + model.faults[:2],
    }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("binary")
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("clients")
    options.add_argument("--windows", default="64000,32000")
    options.add_argument("--alone", action="store_true")
    options.add_argument("--pace", type=float, default=0)
    options.add_argument("--delay", type=float, default=2)
    given = options.parse_args()
    for client in given.clients.split(","):
        for window in map(int, given.windows.split(",")):
            line = run(given.binary, given.folder.resolve(), client, window, given.alone, given.pace, given.delay)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
