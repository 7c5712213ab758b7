#!/usr/bin/env python3
"""A small model reads ten files: Longhaul's own agent, and pi beside it, before one real model server. One line of JSON each.

  small_model.py BINARY MODEL_URL --model NAME --window 8192 [--pi FOLDER] [--tries 1] [--keep FOLDER]

MODEL_URL is an OpenAI-compatible server, without /v1. FOLDER is where pi is installed (`npm install --prefix FOLDER
@mariozechner/pi-coding-agent@0.73.1`). Of the ten tickets, one in each file of 1 KB, `read` came to the model and `listed` are
in the last answer. `calls` are requests to the model.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "gateway"))
from tap import Tap

FILES = 10
TASK = "Read notes_01.txt, then notes_02.txt, and so on until notes_10.txt, one file at a time. Each names a ticket. Then list all ten tickets."
WORDS = "pump valve sensor relay gate filter basin turbine motor cable panel switch tank pipe meter".split()


def ticket(number):
    return f"OPS-{(number * 7919 + 1234) % 9000 + 1000}"


def text_of(number):
    """A file of 1 KB with its ticket in the middle."""
    lines = [f"{WORDS[(number + at) % len(WORDS)].capitalize()} {number}{at:02} was checked and works as planned." for at in range(20)]
    lines.insert(10, f"The ticket of this file is {ticket(number)}.")
    return "\n".join(lines)[:1_000] + "\n"


def longhaul(root, url, options):
    (root / "longhaul.yml").write_text(
        f"model: {{ provider: openai-compatible, name: {options.model}, base_url: {url}/v1, context_window: {options.window}, timeout: 30m }}\n"
    )
    return [os.path.realpath(options.binary), "--config", root / "longhaul.yml", "--data-dir", root / "data", "--workspace", root / "work", "run", "--json", "--yes", TASK]


def pi(root, url, options):
    folder = root / ".pi" / "agent"
    folder.mkdir(parents=True)
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": options.model, "name": options.model, "contextWindow": options.window, "maxTokens": 1_024, "input": ["text"], "reasoning": False, "cost": free}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"check": provider}}))
    # Its defaults reserve more tokens for a compaction than such a window has.
    compaction = {"enabled": True, "reserveTokens": options.window // 4, "keepRecentTokens": options.window // 4}
    (folder / "settings.json").write_text(json.dumps({"compaction": compaction}))
    return [pathlib.Path(options.pi) / "node_modules" / ".bin" / "pi", "--provider", "check", "--model", options.model, "--mode", "json", "-p", TASK]


def last_answer(out):
    """The text of the last answer among the events of either program."""
    best = ""
    for line in out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        # pi wraps the message, Longhaul's `message:added` has role and parts itself.
        message = event.get("message") if isinstance(event.get("message"), dict) else event
        if message.get("role") != "assistant":
            continue
        content = message.get("content") or message.get("parts") or []
        text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
        best = text or best
    return best


def drive(name, make, options):
    root = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-small-"))
    (root / "work").mkdir()
    for number in range(1, FILES + 1):
        (root / "work" / f"notes_{number:02}.txt").write_text(text_of(number))
    listener = Tap(options.url)
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1", "CI": "1", "PI_OFFLINE": "1"}
    begun = time.monotonic()
    try:
        done = subprocess.run([str(part) for part in make(root, listener.url, options)], cwd=root / "work", env=env, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=options.seconds)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = "timeout", (late.stdout or b"").decode(errors="replace"), ""
    tickets = [ticket(number) for number in range(1, FILES + 1)]
    bodies = [entry["raw"].decode(errors="replace") for entry in listener.seen if entry["path"].endswith("/chat/completions")]
    sent = "\n".join(bodies)
    answer = last_answer(out)
    line = {
        "client": name, "window": options.window, "read": sum(each in sent for each in tickets), "listed": sum(each in answer for each in tickets),
        "calls": len(bodies), "seconds": round(time.monotonic() - begun), "ended": code,
    }
    if options.keep:
        folder = pathlib.Path(options.keep) / f"{name}-{options.window}-{int(time.time())}"
        folder.mkdir(parents=True)
        (folder / "requests.jsonl").write_text(sent)
        (folder / "out").write_text(out)
        (folder / "err").write_text(err)
    if code != 0:
        line["said"] = re.sub(r"\s+", " ", err)[-300:]
    print(json.dumps(line), flush=True)
    listener.close()
    shutil.rmtree(root, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--window", type=int, default=8_192)
    parser.add_argument("--pi")
    parser.add_argument("--only", choices=["longhaul", "pi"])
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--keep")
    options = parser.parse_args()
    for _ in range(options.tries):
        if options.only != "pi":
            drive("longhaul", longhaul, options)
        if options.pi and options.only != "longhaul":
            drive("pi", pi, options)


if __name__ == "__main__":
    main()
