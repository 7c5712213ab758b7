"""An MCP server for tests: newline-delimited JSON-RPC over standard input and output, nothing but Python.

Usage: mcp_server.py MODE [ARGUMENT]

  plain           the protocol with a handshake
  modern          the protocol without one: `initialize` is refused, `server/discover` answered
  silent          reads, and never answers
  broken          writes to standard error and ends
  once FILE       as plain; the second start, which finds FILE, is broken
  noisy           as plain, and prints lines that are no messages
  listed FILE     as plain, with the tools that FILE lists; each gives back what it was sent
"""

import json
import os
import subprocess
import sys
import threading

MODE = sys.argv[1]

# Written by hand: nothing in it survives being read and written again.
SCHEMA = (
    '{ "type":"object",  "properties":{"n":{"type":"number","maximum":1.0e3,"minimum":-0.10},'
    '"big":{"const":12345678901234567890123}, "text":{"type":"string","pattern":"\\u00e9\\/"}},"a":1,"a":2 }'
)
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

lock = threading.Lock()
cancelled = {}
cancelling = threading.Condition()
state = {"changed": False}
listening = []


def write(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def answer(id, result):
    write('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(id), result))


def tell(method, params):
    write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


def text(*texts, error=False):
    content = [{"type": "text", "text": each} for each in texts]
    return json.dumps({"content": content, "isError": error})


TOOLS = [
    ("zebra", "Listed first, sorted last.", None),
    ("echo", "Gives back what it was sent.", None),
    ("look", "Only reads, it says.", {"readOnlyHint": True}),
    ("picture", "A picture between two texts.", None),
    ("structured", "Structured content and no text.", None),
    ("fail", "Fails.", None),
    ("refuse", "Answers with a JSON-RPC error.", None),
    ("wait", "Waits until it is cancelled.", None),
    ("late", "Answers in spite of being cancelled.", None),
    ("environment", "The environment, one variable a line.", None),
    ("read", "Reads a file.", None),
    ("long", "Writes much.", None),
    ("die", "Ends in the middle of the call.", None),
    ("pid", "Process ids: its own, and that of a child.", None),
    ("change", "Changes the list of tools.", None),
    ("odd/näme", "Has a name that no provider takes.", None),
    ("raw", "Writes a line of the caller's: ID is the call's, PAD as many letters as it says.", None),
]


def tool(name, description, hints):
    fields = [
        '"name":%s' % json.dumps(name),
        '"description":%s' % json.dumps(description),
        '"inputSchema":%s' % (SCHEMA if name == "echo" else '{"type":"object"}'),
    ]
    if hints:
        fields.append('"annotations":%s' % json.dumps(hints))
    return "{%s}" % ",".join(fields)


def tools():
    listed = list(TOOLS)
    if state["changed"]:
        listed = [each for each in listed if each[0] != "fail"]
        listed = [(n, "Changed." if n == "refuse" else d, h) for n, d, h in listed]
        listed.append(("extra", "New.", None))
    return [tool(*each) for each in listed]


def page(params):
    if MODE == "listed":
        with open(sys.argv[2]) as file:
            return '{"tools":%s}' % file.read().replace("\n", " ")
    everything = tools()
    if (params or {}).get("cursor") == "second":
        return '{"tools":[%s]}' % ",".join(everything[5:])
    return '{"tools":[%s],"nextCursor":"second"}' % ",".join(everything[:5])


def wait(id, token, late):
    number = 0
    while id not in cancelled:
        number += 1
        if token is not None:
            tell(
                "notifications/progress",
                {"progressToken": token, "progress": number, "total": 100, "message": "still here"},
            )
        with cancelling:
            cancelling.wait(0.05)
    if late:
        answer(id, text("done all the same"))
    with open("cancelled.txt", "a") as file:
        file.write("%s\n" % cancelled[id])


def call(id, params, line):
    name, arguments = params["name"], params.get("arguments") or {}
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo" or MODE == "listed":
        answer(id, text(line))
    elif name in ("look", "zebra", "odd/näme"):
        answer(id, text("seen"))
    elif name == "picture":
        blocks = [
            {"type": "text", "text": "before"},
            {"type": "image", "data": PICTURE, "mimeType": "image/png"},
            {"type": "text", "text": "after"},
        ]
        answer(id, json.dumps({"content": blocks}))
    elif name == "structured":
        answer(id, '{"content":[],"structuredContent":{"price": 1.10,"id":12345678901234567890123}}')
    elif name == "fail":
        answer(id, text("it did not work", error=True))
    elif name == "refuse":
        if state["changed"]:
            answer(id, text("not like that", error=True))
        else:
            error = {"code": -32602, "message": "never heard of it"}
            write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))
    elif name in ("wait", "late"):
        threading.Thread(target=wait, args=(id, token, name == "late"), daemon=True).start()
    elif name == "environment":
        answer(id, text("\n".join("%s=%s" % pair for pair in os.environ.items())))
    elif name == "read":
        try:
            with open(arguments["path"]) as file:
                answer(id, text(file.read()))
        except OSError as problem:
            answer(id, text(str(problem), error=True))
    elif name == "long":
        answer(id, text("".join("line %d\n" % number for number in range(60000))))
    elif name == "die":
        sys.stderr.write("these are my last words\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "raw":
        line = arguments["line"].replace("ID", json.dumps(id))
        write(line.replace("PAD", "x" * arguments.get("pad", 0)))
    elif name == "pid":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        answer(id, text("%d %d" % (os.getpid(), child.pid)))
    elif name == "change":
        state["changed"] = not state["changed"]
        answer(id, text("changed"))
        if MODE == "modern":
            notice = {"_meta": {"io.modelcontextprotocol/subscriptionId": listening[0]}} if listening else {}
            tell("notifications/tools/list_changed", notice)
        else:
            tell("notifications/tools/list_changed", {})


def initialize(id):
    if MODE == "modern":
        error = {"code": -32601, "message": "initialize: no such method any more"}
        write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))
        return
    result = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "tests", "version": "1"},
    }
    answer(id, json.dumps(result))


def discover(id):
    result = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "tests", "version": "1"},
        "ttlMs": 0,
        "cacheScope": "private",
    }
    answer(id, json.dumps(result))


def listen(id, params):
    listening.append(id)
    tell(
        "notifications/subscriptions/acknowledged",
        {
            "_meta": {"io.modelcontextprotocol/subscriptionId": id},
            "notifications": params["notifications"],
        },
    )


def handle(line):
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params")
    if method == "initialize":
        initialize(id)
    elif method == "server/discover":
        discover(id)
    elif method == "subscriptions/listen":
        listen(id, params)
    elif method == "tools/list":
        answer(id, page(params))
    elif method == "tools/call":
        call(id, params, line)
    elif method == "notifications/cancelled":
        with cancelling:
            cancelled[params["requestId"]] = params.get("reason", "")
            cancelling.notify_all()


def main():
    broken = MODE == "broken"
    if MODE == "once":
        broken = os.path.exists(sys.argv[2])
        with open(sys.argv[2], "a") as file:
            file.write("started\n")
    if broken:
        sys.stderr.write("no licence found\n")
        sys.exit(7)
    if MODE == "noisy":
        print("Welcome!\n\n{]\n[1, 2]", flush=True)
    for line in sys.stdin:
        if MODE != "silent":
            handle(line.rstrip("\n"))
    with open("ended.txt", "a") as file:
        file.write("input closed\n")


main()
