"""What long sessions cost: time and memory to open, read, search, compact and cancel, by the length of the session.

Each size has a server and a data folder of its own. While a compaction runs, messages of the session and `/healthz` are
asked for every 50 ms; the slowest answers are reported. Needs python3 only.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

NOUNS = (
    "lease cursor mailer pool batch window ledger parser socket index queue shard replica token planner session "
    "header payload digest worker journal segment"
).split()
VERBS = "reads merges drops flushes renames checks splits retries sends holds counts closes opens moves".split()

# One tool result: about 9 KB, as agents read files and run tests.
RESULT_BYTES = 9_400
CONFIG = "model: { provider: scripted, name: scripted, context_window: 128000 }\n"


class Writer:
    """Text as agents' sessions have it: code, logs, compiler output and prose, the same for the same seed."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def sentence(self):
        pick = self.dice.choice
        tries = (self.dice.randrange(90), self.dice.randrange(900))
        return f"The {pick(NOUNS)} {pick(VERBS)} the {pick(NOUNS)} after {tries[0]} of {tries[1]} tries."

    def line(self):
        one, other = self.dice.choice(NOUNS), self.dice.choice(NOUNS)
        number = self.dice.randrange(100_000)
        kinds = (
            f"    let {one}_{other} = self.{one}.{other}(&{one}, {number})?;",
            f"2026-03-07T10:{number % 60:02}:{number % 59:02}Z INFO {one}: {other} done in {number} ms",
            f"src/{one}/{other}_{number % 700}.rs:{number}: warning: unused {one}",
            f"error[E{number % 900:04}]: cannot {self.dice.choice(VERBS)} the {other} of `{one}`",
            f"{one}-{other}: {number}",
            f"test {one}::{other}_{number % 3_000} ... ok",
            self.sentence(),
            self.sentence(),
        )
        return self.dice.choice(kinds)

    def text(self, size):
        lines, length = [], 0
        while length < size:
            lines.append(self.line())
            length += len(lines[-1]) + 1
        return "\n".join(lines)


def write_session(path, size):
    """Writes a conversation of about so many bytes in Chat Completions' form; returns how many messages it has."""
    writer = Writer(7)
    written = count = calls = 0
    with open(path, "w") as file:
        file.write('{"messages":[')

        def put(message):
            nonlocal written, count
            text = json.dumps(message)
            file.write(("," if count else "") + text)
            written += len(text)
            count += 1

        while written < size:
            put({"role": "user", "content": "Please " + " ".join(writer.sentence() for _ in range(6))})
            for _ in range(12):
                calls += 1
                path = f"src/{writer.dice.choice(NOUNS)}/{writer.dice.choice(NOUNS)}.rs"
                function = {"name": "read", "arguments": json.dumps({"path": path})}
                call = {"id": f"c{calls}", "type": "function", "function": function}
                put({"role": "assistant", "content": writer.text(600), "tool_calls": [call]})
                put({"role": "tool", "tool_call_id": f"c{calls}", "content": writer.text(RESULT_BYTES)})
            put({"role": "assistant", "content": writer.text(300)})
        file.write("]}")
    return count


class Server:
    """A server with one session."""

    def __init__(self, binary, size):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-long-")
        inside = lambda name: os.path.join(self.folder.name, name)
        with open(inside("longhaul.yml"), "w") as file:
            file.write(CONFIG)
        os.mkdir(inside("ws"))
        self.common = ["--config", inside("longhaul.yml"), "--data-dir", inside("data"), "--workspace", inside("ws")]
        self.messages = write_session(inside("session.json"), size)
        run = [binary, *self.common, "sessions", "import", inside("session.json")]
        began = time.monotonic()
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.import_s = time.monotonic() - began
        os.remove(inside("session.json"))
        self.process = subprocess.Popen(
            [binary, *self.common, "serve", "--addr", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline()
        self.base = next(word for word in line.split() if word.startswith("http")).split("/open")[0].rstrip("/")
        with open(inside("data/token")) as file:
            self.token = file.read().strip()
        self.session = self.ask("GET", "/api/sessions")["sessions"][0]["id"]

    def ask(self, method, path, body=None, timeout=900):
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text

    def timed(self, method, path, body=None, times=1):
        """The median time of a request, in milliseconds."""
        taken = []
        for _ in range(times):
            began = time.monotonic()
            self.ask(method, path, body)
            taken.append((time.monotonic() - began) * 1_000)
        return sorted(taken)[len(taken) // 2]

    def status(self, key):
        with open(f"/proc/{self.process.pid}/status") as file:
            line = next(line for line in file if line.startswith(key))
        return int(line.split()[1]) / 1_000

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.folder.cleanup()


class Prober(threading.Thread):
    """Asks for something every 50 ms and keeps the slowest answer, in milliseconds."""

    def __init__(self, server, path):
        super().__init__(daemon=True)
        self.server, self.path, self.slowest, self.ends = server, path, 0.0, False

    def run(self):
        while not self.ends:
            began = time.monotonic()
            self.server.ask("GET", self.path)
            self.slowest = max(self.slowest, (time.monotonic() - began) * 1_000)
            time.sleep(0.05)


def measure(binary, megabytes):
    server = Server(binary, megabytes * 1_000_000)
    try:
        page = f"/api/sessions/{server.session}/messages?limit=50"
        row = {"MB": megabytes, "messages": server.messages, "import_s": round(server.import_s, 1)}
        row["page_ms"] = round(server.timed("GET", page, times=9), 1)
        row["search_ms"] = round(server.timed("GET", "/api/search?q=replica+journal", times=3), 1)
        row["rss_closed_mb"] = round(server.status("VmRSS"))
        row["open_ms"] = round(server.timed("GET", f"/api/sessions/{server.session}/context"))
        row["rss_open_mb"] = round(server.status("VmRSS"))
        probes = [Prober(server, page), Prober(server, "/healthz")]
        for probe in probes:
            probe.start()
        cpu, began = server.cpu_s(), time.monotonic()
        done = server.ask("POST", f"/api/sessions/{server.session}/compact", {})
        row["compact_ms"] = round((time.monotonic() - began) * 1_000)
        row["compact_cpu_s"] = round(server.cpu_s() - cpu, 1)
        for probe in probes:
            probe.ends = True
            probe.join()
        row["page_meanwhile_ms"], row["healthz_meanwhile_ms"] = (round(probe.slowest) for probe in probes)
        row["peak_mb"] = round(server.status("VmHWM"))
        row["compacted"] = done.get("strategy") or done.get("outcome") or True
        return row
    finally:
        server.end()


def measure_cancel(binary, megabytes):
    """How long a cancelled compaction goes on, in milliseconds. A server of its own: a compaction that was cancelled has
    read a part of the session, which would spare the next one the work."""
    server = Server(binary, megabytes * 1_000_000)
    try:
        session = f"/api/sessions/{server.session}"
        server.ask("GET", f"{session}/context")
        ended = []

        def compact():
            try:
                server.ask("POST", f"{session}/compact", {})
                ended.append("compacted")
            except urllib.error.HTTPError as error:
                ended.append(error.code)

        compaction = threading.Thread(target=compact)
        compaction.start()
        time.sleep(0.3)
        if ended:
            return {"cancel_ms": None, "cancelled": "ended before the cancel"}
        began = time.monotonic()
        server.ask("POST", f"{session}/cancel", {})
        compaction.join()
        return {"cancel_ms": round((time.monotonic() - began) * 1_000), "cancelled": ended[0]}
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("sizes", nargs="*", type=int, default=[1, 25, 100])
    arguments = parser.parse_args()
    for megabytes in arguments.sizes:
        binary = os.path.abspath(arguments.binary)
        print(json.dumps(measure(binary, megabytes) | measure_cancel(binary, megabytes)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
