"""Listens between a client and the gateway: what the client sent, what it got, byte for byte as it passes."""

import http.client
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from backend import PATHS

HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host", "expect"}
TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|prompt is too long|too many tokens|context_length|does not fit|exceeds? the", re.I)


class Tap:
    def __init__(self, target):
        self.host, self.port = target.removeprefix("http://").rstrip("/").split(":")
        self.lock = threading.Lock()
        self.seen = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.carry(self)

            do_POST = do_HEAD = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def carry(self, handler):
        raw = body_of(handler)
        path = handler.path.split("?")[0].removeprefix("/v1")
        entry = {"path": path, "method": handler.command, "raw": raw, "status": 0, "got": b"", "headers": {}, "done": False}
        with self.lock:
            self.seen.append(entry)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP}
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=600)
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request(handler.command, handler.path, body=raw or None, headers={**headers, "Host": f"127.0.0.1:{self.port}"})
            answer = connection.getresponse()
            entry["status"], entry["headers"] = answer.status, {name.lower(): value for name, value in answer.getheaders()}
            handler.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    handler.send_header(name, value)
            whole = "text/event-stream" not in entry["headers"].get("content-type", "")
            if whole:
                entry["got"] = answer.read()
                handler.send_header("content-length", str(len(entry["got"])))
                handler.end_headers()
                if handler.command != "HEAD":
                    handler.wfile.write(entry["got"])
            else:
                handler.send_header("connection", "close")
                handler.end_headers()
                handler.close_connection = True
                while piece := answer.read1(65536):
                    entry["got"] += piece
                    handler.wfile.write(piece)
                    handler.wfile.flush()
            entry["done"] = True
        except (OSError, http.client.HTTPException) as error:
            entry["broke"] = repr(error)
            handler.close_connection = True
        finally:
            connection.close()


def body_of(handler):
    if "chunked" not in handler.headers.get("transfer-encoding", ""):
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    raw = b""
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        raw += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return raw


def dialect(entry):
    return PATHS.get(entry["path"])


def read(entry):
    """The text of an answer, what is wrong with its shape, and the error in it."""
    kind, got = dialect(entry), entry["got"].decode("utf-8", "replace")
    if kind is None:
        return "", [], got if entry["status"] >= 400 else None
    if entry["status"] != 200:
        return "", [], f"{entry['status']} {got[:400]}"
    if "text/event-stream" not in entry["headers"].get("content-type", ""):
        return whole(kind, json.loads(got)), [], None
    return {"chat": chat, "responses": responses, "messages": messages}[kind](got)


def whole(kind, answer):
    if kind == "chat":
        return answer["choices"][0]["message"].get("content") or ""
    if kind == "messages":
        return "".join(block.get("text", "") for block in answer["content"])
    return "".join(part.get("text", "") for item in answer["output"] if item["type"] == "message" for part in item["content"])


def events(got):
    """The events of a stream. One that no blank line ends was left in its middle, and is none."""
    for block in got.split("\n\n")[:-1]:
        name = next((line[6:].strip() for line in block.split("\n") if line.startswith("event:")), None)
        data = "\n".join(line[5:].lstrip() for line in block.split("\n") if line.startswith("data:"))
        if data:
            yield name, data


def chat(got):
    text, ids, roles, ends, error, over, bad = "", set(), 0, 0, None, False, []
    for _, data in events(got):
        if data == "[DONE]":
            over = True
            continue
        event = json.loads(data)
        if "error" in event:
            error = data[:400]
            continue
        ids.add(event.get("id"))
        for choice in event.get("choices", []):
            delta = choice.get("delta") or {}
            text += delta.get("content") or ""
            roles += "role" in delta
            ends += bool(choice.get("finish_reason"))
    if not error:
        bad += [f"{len(ids)} ids"] * (len(ids) != 1) + [f"{roles} roles"] * (roles != 1) + [f"{ends} ends"] * (ends != 1)
        bad += ["no [DONE]"] * (not over)
    return text, bad, error


def responses(got):
    text, numbers, error, bad, open_items, begun, done = "", [], None, [], set(), 0, 0
    for name, data in events(got):
        event = json.loads(data)
        kind = event.get("type")
        if name and name != kind:
            bad.append(f"event {name} holds {kind}")
        numbers.append(event.get("sequence_number"))
        begun += kind == "response.created"
        done += kind in ("response.completed", "response.incomplete")
        if kind in ("error", "response.failed"):
            error = data[:600]
        if kind == "response.output_text.delta":
            text += event["delta"]
        if kind == "response.output_item.added":
            open_items.add(event["output_index"])
        if kind == "response.output_item.done":
            if event["output_index"] not in open_items:
                bad.append("done without added")
            open_items.discard(event["output_index"])
        if kind == "response.completed" and whole("responses", event["response"]) != text:
            bad.append("the completed response has another text than its deltas")
    if not error:
        bad += [f"created {begun} times"] * (begun != 1) + [f"completed {done} times"] * (done != 1) + ["open items"] * bool(open_items)
        if numbers != list(range(len(numbers))) and any(number is not None for number in numbers):
            bad.append("sequence numbers do not run")
    return text, bad, error


def messages(got):
    text, error, bad, order, block = "", None, [], [], None
    for name, data in events(got):
        event = json.loads(data)
        kind = event.get("type")
        if name != kind:
            bad.append(f"event {name} holds {kind}")
        if kind == "error":
            error = data[:400]
        elif kind == "content_block_start":
            bad += ["a block in a block"] * (block is not None)
            block = event["index"]
        elif kind == "content_block_stop":
            bad += ["a block ends that is not open"] * (block != event["index"])
            block = None
        elif kind == "content_block_delta" and event["delta"]["type"] == "text_delta":
            text += event["delta"]["text"]
        if kind in ("message_start", "message_delta", "message_stop"):
            order.append(kind)
    if not error and (order[:1] != ["message_start"] or order[-2:] != ["message_delta", "message_stop"] or order.count("message_start") != 1):
        bad.append(f"events come as {order}")
    return text, bad, error
