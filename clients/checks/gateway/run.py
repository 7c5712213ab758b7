#!/usr/bin/env python3
"""Real clients in front of the gateway, with sessions several times as long as the window behind it.

  run.py BINARY sdks FOLDER [FILTER]      FOLDER holds what sdks.sh installs
  run.py BINARY agents FOLDER [FILTER]    FOLDER holds what agents.sh installs

One line of JSON for each case; the exit code says whether all are well."""

import json
import os
import pathlib
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import rules
import tap
from backend import MARK, Backend, words
from gateway import Gateway
from tap import TOO_LONG, Tap

HERE = pathlib.Path(__file__).resolve().parent


class Script:
    """What the model does in a case."""

    def __init__(self, steps=2, marks=12, pair=3, think=False, call=None, finish=None, is_main=None, most=10**9):
        self.steps, self.marks, self.pair, self.think, self.most = steps, marks, pair, think, most
        self.call = call or (lambda number, tools: ("readings", {"station": f"s{number}", "rows": 20 + number % 30}))
        self.finish = finish
        self.is_main = is_main or (lambda body: True)


def once_in_order(text, marks, numbers):
    """Whether a text has every mark of these answers once, in order; else what is the matter."""
    want = [(number, at) for number in numbers for at in range(marks)]
    got = [(int(number), int(at)) for number, at in MARK.findall(text)]
    if got == want:
        return None
    missing, extra = sorted(set(want) - set(got)), len(got) - len(set(got))
    return f"{len(got)} marks of {len(want)}, missing {missing[:4]}, repeated {extra}, in order: {got == sorted(got)}"


def verdict(case, backend, seen, gateway, told, seconds):
    """The line of a case."""
    asked = [entry for entry in seen if tap.dialect(entry)]
    counted = [entry for entry in seen if entry["path"] == "/messages/count_tokens"]
    texts, shapes, failed = [], [], []
    for entry in asked:
        try:
            text, bad, error = tap.read(entry)
        except (ValueError, KeyError, TypeError) as problem:
            text, bad, error = "", [f"unreadable: {problem!r}"], None
        shapes += bad
        if error or not entry["done"]:
            failed.append(error or entry.get("broke") or f"never ended: status {entry['status']}, {len(entry['got'])} bytes, {backend.open} open upstream")
        elif MARK.search(text):
            texts.append(text)
    failed += [f"count_tokens: {entry['got'][:200]}" for entry in counted if entry["status"] != 200]
    marks = case["script"].marks
    text_faults = []
    if texts != backend.issued:
        wrong = next((at for at, pair in enumerate(zip(texts, backend.issued)) if pair[0] != pair[1]), min(len(texts), len(backend.issued)))
        text_faults.append(f"on the wire: {len(texts)} answers of {len(backend.issued)}, the first other one is {wrong}")
    if case.get("texts", True) and told.get("texts") != backend.issued:
        text_faults.append(f"in the client: {len(told.get('texts') or [])} texts of {len(backend.issued)}")
    mains = [entry for entry in asked if case["script"].is_main(json.loads(entry["raw"] or b"{}"))]
    if mains:
        # The newest request holds what the client has kept of all answers but its own.
        sent = json.dumps(json.loads(mains[-1]["raw"]), ensure_ascii=False)
        fault = once_in_order(sent, marks, range(len(backend.issued) - (mains[-1]["status"] == 200)))
        text_faults += [f"in the client's history: {fault}"] * bool(fault)
    if "said" in told and backend.issued:
        fault = None if words(len(backend.issued) - 1, marks).split()[0] in told["said"] else "the last answer is not shown"
        text_faults += [fault] * bool(fault)
    doubled = sum(tap.dialect(entry) == "chat" and not rules.alternates(json.loads(entry["raw"])) for entry in asked)
    if backend.doubled > doubled:
        text_faults.append(f"two messages of the user's in a row: {doubled} times from the client, {backend.doubled} times upstream")
    peak = max((len(entry["raw"]) // 4 for entry in asked), default=0)
    line = {
        "client": case["client"], "version": told.get("version"), "mode": case["mode"], "dialect": case["dialect"], "backend": backend.dialect,
        "window": backend.window, "declared": case.get("declared", True), "requests": len(asked), "upstream": backend.requests,
        "answers": len(backend.issued), "summaries": backend.summaries, "refused_upstream": backend.refused,
        "peak_sent": peak, "longest_upstream": backend.longest, "served": len(texts), "times_window": round(peak / backend.window, 1),
        "prefix_kept": round(backend.kept / backend.sent, 2) if backend.sent else 0, "rss_mb": gateway.memory(),
        "context_errors": sum(bool(TOO_LONG.search(str(error))) for error in failed), "errors": len(failed),
        "invalid": len(backend.faults), "two_in_a_row": backend.doubled, "shape_faults": len(shapes), "text_faults": len(text_faults), "seconds": round(seconds, 1),
    }
    why = [*backend.faults[:3], *shapes[:3], *text_faults[:3], *[str(error)[:300] for error in failed[:3]], *told.get("errors", [])[:2]]
    log = gateway.said()
    why += [line_of_log for line_of_log in log.splitlines() if re.search(r"panicked|ERROR", line_of_log)][:3]
    least = 3
    if peak < least * backend.window:
        why.append(f"the session was not {least} times the window")
    line["ok"] = not why
    if why:
        line["why"] = why
    return line


def one(binary, case, drive):
    backend = Backend(case["backend"], case["window"], case["script"], case.get("overflow", "own"))
    gateway = Gateway(binary, backend, case["window"] if case.get("declared", True) else None)
    listener = Tap(gateway.url)
    if os.environ.get("CHECK_KEEP"):
        backend.keep = gateway.folder / "upstream"
        backend.keep.mkdir()
    begun = time.monotonic()
    try:
        told = drive(case, listener.url)
        line = verdict(case, backend, listener.seen, gateway, told, time.monotonic() - begun)
    finally:
        listener.close()
        gateway.close(keep=bool(os.environ.get("CHECK_KEEP")))
        backend.close()
    if os.environ.get("CHECK_KEEP"):
        dump(case, listener, gateway)
    return line


def dump(case, listener, gateway):
    folder = gateway.folder / "requests"
    folder.mkdir()
    for at, entry in enumerate(listener.seen):
        (folder / f"{at:04d}.request.json").write_bytes(entry["raw"])
        (folder / f"{at:04d}.answer").write_bytes(f"{entry['status']} {json.dumps(entry['headers'])}\n\n".encode() + entry["got"])
    print(f"{case['client']} {case['mode']}: {gateway.folder}", file=sys.stderr)


def main():
    binary, kind, folder = os.path.realpath(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    wanted = sys.argv[4] if len(sys.argv) > 4 else ""
    if kind == "sdks":
        import sdks as module
    else:
        import agents as module
    cases = [case for case in module.cases(folder) if re.search(wanted, f"{case['client']} {case['mode']} {case['dialect']} {case['backend']}")]
    well = bool(cases)
    with ThreadPoolExecutor(module.AT_ONCE) as pool:
        for line in pool.map(lambda case: case.get("run", one)(binary, case, module.drive), cases):
            print(json.dumps(line), flush=True)
            well = well and line["ok"]
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
