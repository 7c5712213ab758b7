"""What answers with many tool calls cost: time and CPU of one run, by the number of calls in its first answer.

A model server on loopback streams the calls, each to read a small file, and answers the next request with a text. An
answer above the limit is given up while it streams. Needs python3 only.
"""

import argparse
import http.server
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = """model: {{ provider: openai-compatible, base_url: "http://127.0.0.1:{port}/v1", name: m, context_window: 128000 }}
"""


class Model(http.server.BaseHTTPRequestHandler):
    calls = 1
    sent = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(404)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        is_second = any(message["role"] == "tool" for message in body["messages"])
        try:
            if is_second:
                self.chunk({"content": "Done."}, "stop")
            else:
                for number in range(Model.calls):
                    function = {"name": "read", "arguments": '{"path":"small.txt"}'}
                    call = {"index": number, "id": f"c{number}", "type": "function", "function": function}
                    self.chunk({"tool_calls": [call]}, None)
                    Model.sent += 1
                self.chunk({}, "tool_calls")
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            # The client has given the answer up.
            pass

    def chunk(self, delta, finish):
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())


def measure(binary, port, calls):
    Model.calls, Model.sent = calls, 0
    with tempfile.TemporaryDirectory(prefix="longhaul-calls-") as folder:
        inside = lambda name: os.path.join(folder, name)
        os.mkdir(inside("ws"))
        with open(inside("ws/small.txt"), "w") as file:
            file.write("A line.\n")
        with open(inside("longhaul.yml"), "w") as file:
            file.write(CONFIG.format(port=port))
        command = [binary, "--config", inside("longhaul.yml"), "--data-dir", inside("data"), "--workspace", inside("ws")]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run([*command, "run", "Read."], capture_output=True, text=True, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            "calls": calls,
            "read_calls": Model.sent,
            "s": round(time.monotonic() - began, 2),
            "cpu_s": round(cpu, 2),
            "exit": done.returncode,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("calls", nargs="*", type=int, default=[1, 16, 64, 128, 1_000, 32_000])
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for calls in arguments.calls:
        print(json.dumps(measure(os.path.abspath(arguments.binary), server.server_port, calls)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
