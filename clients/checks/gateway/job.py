"""What the gateway costs and keeps in a long job: an agent reads 40 files, one by one, before a scripted model that has a
window, a prompt cache and a summariser that takes its time. Prints one line for each window.

  job.py BINARY [--windows 64000,32000] [--steps 40] [--delay 2] [--summariser names|refuses] [--dialect chat|messages]
  job.py BINARY --turns 1000     a chat of so many turns in place of the job

The model counts four bytes as a token. Costs are in thousands: input 1, input from the cache 0.1, output 5. `append-only`
is what the same requests cost with an endless window. A needle is a ticket that stands in one file; `seen` are those that
the last request shows.
"""

import argparse
import json
import os
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway import Gateway

ORDERS = ("You prune the history of an agent's conversation", "The conversation is about to be shortened")
TICKET = re.compile(r"TICKET-\d\d-[A-Z]{4}")
FILE = re.compile(r"src/module_(\d\d)\.rs")
WORDS = "lease cursor mailer pool batch window ledger parser socket index queue shard replica token planner session header".split()


def tokens(text):
    return len(text.encode()) // 4


def ticket(step):
    return f"TICKET-{step:02}-" + "".join(random.Random(step).choices("BCDFGHJKLMNPQRSTVWXZ", k=4))


def file_of(step, size):
    dice = random.Random(1000 + step)
    lines = [f"//! Module {step:02}."]
    while sum(map(len, lines)) < size:
        one, other, number = dice.choice(WORDS), dice.choice(WORDS), dice.randrange(100000)
        lines.append(dice.choice([
            f"    let {one}_{other} = self.{one}.{other}({number})?;",
            f"    // The {one} waits until the {other} has {number} entries.",
            f"    self.{other}.push({one!r}, {number});",
            f"pub fn {one}_{number}(&self) -> usize {{ self.{other}.len() }}",
        ]))
    lines.insert(len(lines) // 2, f'pub const RELEASE: &str = "{ticket(step)}";')
    return "\n".join(lines)


class Model:
    """A Chat Completions or Messages server with one model."""

    def __init__(self, dialect, window, steps, delay, summariser):
        self.dialect, self.window, self.steps, self.delay, self.summariser = dialect, window, steps, delay, summariser
        self.read, self.log, self.lock = [], [], threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def do_GET(self):
                self.reply(404, {"error": {"message": "no such path"}})

            def do_POST(self):
                self.raw = self.rfile.read(int(self.headers["content-length"]))
                model.answer(self, json.loads(self.raw))

            def reply(self, status, value):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rendered(self, body):
        parts = [json.dumps(body.get("tools", []), sort_keys=True), json.dumps(body.get("system", ""))]
        return "\x1e".join(parts + [json.dumps(message, sort_keys=True) for message in body["messages"]])

    def answer(self, handler, body):
        text = self.rendered(body)
        count = tokens(text)
        is_summary = any(order in json.dumps(body["messages"][-1]) for order in ORDERS)
        with self.lock:
            cached = max((len(os.path.commonprefix([text, earlier])) for earlier in self.read[-30:]), default=0) // 4
            # A cache holds whole blocks.
            cached = min(cached // 128 * 128, count)
            if count + 16 > self.window:
                self.log.append({"refused": True, "summary": is_summary, "input": count})
            else:
                self.read.append(text)
        if count + 16 > self.window:
            message = f"This model's maximum context length is {self.window} tokens. However, your messages resulted in {count} tokens."
            return handler.reply(400, {"error": {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}})
        said, call = self.summary(text) if is_summary else self.step(text)
        if is_summary:
            time.sleep(self.delay)
        output = tokens(said + json.dumps(call or {}))
        with self.lock:
            self.log.append({"refused": False, "summary": is_summary, "input": count, "cached": cached, "output": output,
                             "seen": len(set(TICKET.findall(text)))})
        send = self.send_chat if self.dialect == "chat" else self.send_messages
        send(handler, body, said, call, count, cached, output)

    def step(self, text):
        if "Say the next verse" in text:
            return "The verse: " + " ".join(random.Random(len(text)).choices(WORDS, k=60)) + ".", None
        done = max((int(number) for number in FILE.findall(text)), default=0)
        if done >= self.steps:
            return "The tickets: " + ", ".join(sorted(set(TICKET.findall(text)))), None
        path = f"src/module_{done + 1:02}.rs"
        return f"I have noted module {done:02}. Next is {path}.", {"path": path}

    def summary(self, text):
        if self.summariser == "refuses":
            return "I'm sorry, I cannot help with that.", None
        done = sorted({f"src/module_{number}.rs" for number in FILE.findall(text)})
        lines = ["Goal: read every module in order and list the release ticket of each.", "Done: these files were read:"]
        lines += [f"- {path}" for path in done] + ["Next steps: read the next module and note its release ticket."]
        return "\n".join(lines), None

    def send_chat(self, handler, body, said, call, count, cached, output):
        usage = {"prompt_tokens": count, "completion_tokens": output, "total_tokens": count + output,
                 "prompt_tokens_details": {"cached_tokens": cached}}
        calls = [{"id": f"call_{len(self.log)}", "type": "function",
                  "function": {"name": "read", "arguments": json.dumps(call)}}] if call else None
        finish = "tool_calls" if call else "stop"
        head = {"id": f"c{len(self.log)}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        if not body.get("stream"):
            message = {"role": "assistant", "content": said} | ({"tool_calls": calls} if calls else {})
            return handler.reply(200, head | {"object": "chat.completion", "usage": usage,
                                              "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
        delta = {"role": "assistant", "content": said}
        if calls:
            delta["tool_calls"] = [{"index": 0} | calls[0]]
        events = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
                  head | {"choices": [], "usage": usage}]
        self.stream(handler, [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"])

    def send_messages(self, handler, body, said, call, count, cached, output):
        usage = {"input_tokens": count - cached, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
        blocks = [{"type": "text", "text": said}]
        if call:
            blocks.append({"type": "tool_use", "id": f"toolu_{len(self.log)}", "name": "read", "input": call})
        stop = "tool_use" if call else "end_turn"
        message = {"id": f"msg_{len(self.log)}", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        if not body.get("stream"):
            return handler.reply(200, message | {"content": blocks, "stop_reason": stop, "usage": usage | {"output_tokens": output}})
        events = [{"type": "message_start", "message": message | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}}]
        for index, block in enumerate(blocks):
            is_text = block["type"] == "text"
            empty = {"type": "text", "text": ""} if is_text else block | {"input": {}}
            delta = ({"type": "text_delta", "text": said} if is_text
                     else {"type": "input_json_delta", "partial_json": json.dumps(call)})
            events += [{"type": "content_block_start", "index": index, "content_block": empty},
                       {"type": "content_block_delta", "index": index, "delta": delta},
                       {"type": "content_block_stop", "index": index}]
        events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": output}},
                   {"type": "message_stop"}]
        self.stream(handler, [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events])

    def stream(self, handler, events):
        data = "".join(events).encode()
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


SYSTEM = ("You are a coding agent. " + "Work step by step, read before you write, keep to the style of the project. " * 120)
TOOLS = [{"name": name, "description": f"The tool {name}. " + "It does what it says and says what it did. " * 40,
          "schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
         for name in ("read", "write", "edit", "bash", "grep", "glob", "fetch", "todo")]
TASK = ("Read all modules from src/module_01 on in order, one at a time, and at the end list the release ticket of each. "
        "Never write to a file. Answer in English.")


class Agent:
    """An agent that forgets nothing and sends everything again."""

    # The longest silence that it bears, in seconds.
    patience = 600

    def __init__(self, url, dialect, steps, size):
        self.url, self.dialect, self.steps, self.size = url, dialect, steps, size
        self.errors, self.longest_wait, self.answer = 0, 0.0, ""
        self.messages = [{"role": "user", "content": TASK}]

    def body(self):
        if self.dialect == "messages":
            tools = [{"name": tool["name"], "description": tool["description"], "input_schema": tool["schema"]} for tool in TOOLS]
            return {"model": "m", "max_tokens": 4000, "stream": True, "tools": tools, "messages": self.messages,
                    "system": [{"type": "text", "text": SYSTEM}, {"type": "text", "text": "The folder is /work."}]}
        tools = [{"type": "function", "function": {"name": tool["name"], "description": tool["description"], "strict": False,
                                                   "parameters": tool["schema"]}} for tool in TOOLS]
        return {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "tools": tools,
                "messages": [{"role": "system", "content": SYSTEM}] + self.messages}

    def ask(self):
        path = "/v1/chat/completions" if self.dialect == "chat" else "/v1/messages"
        request = urllib.request.Request(self.url + path, json.dumps(self.body()).encode(), {"content-type": "application/json"})
        begun = time.time()
        with urllib.request.urlopen(request, timeout=self.patience) as answer:
            data = answer.read().decode()
        self.longest_wait = max(self.longest_wait, time.time() - begun)
        events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")]
        return self.chat_step(events) if self.dialect == "chat" else self.messages_step(events)

    def chat_step(self, events):
        text, calls = "", {}
        for event in events:
            for choice in event.get("choices", []):
                text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or []:
                    calls[call["index"]] = {"id": call["id"], "type": "function", "function": call["function"]}
        message = {"role": "assistant", "content": text} | ({"tool_calls": list(calls.values())} if calls else {})
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.read(json.loads(call["function"]["arguments"]))}
                   for call in calls.values()]
        return text, [message], results

    def messages_step(self, events):
        blocks = {}
        for event in events:
            if event["type"] == "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
                blocks[event["index"]]["so_far"] = ""
            if event["type"] == "content_block_delta":
                blocks[event["index"]]["so_far"] += event["delta"].get("text") or event["delta"].get("partial_json") or ""
        said, results = [], []
        for block in blocks.values():
            so_far = block.pop("so_far")
            if block["type"] == "text":
                said.append(block | {"text": so_far})
            else:
                call = block | {"input": json.loads(so_far)}
                said.append(call)
                results.append({"type": "tool_result", "tool_use_id": call["id"], "content": self.read(call["input"])})
        text = "".join(block.get("text", "") for block in said)
        return text, [{"role": "assistant", "content": said}], [{"role": "user", "content": results}] if results else []

    def read(self, arguments):
        return file_of(int(FILE.search(arguments["path"]).group(1)), self.size)

    def chat(self, turns):
        """Every tenth message has a ticket in it."""
        self.messages = []
        for turn in range(turns):
            note = f" Remember {ticket(turn // 10)}." if turn % 10 == 0 and turn < 400 else ""
            words = " ".join(random.Random(turn).choices(WORDS, k=30))
            self.messages.append({"role": "user", "content": f"Say the next verse, number {turn}, about {words}.{note}"})
            try:
                self.answer, said, _ = self.ask()
            except urllib.error.HTTPError as error:
                self.errors += 1
                self.answer = error.read().decode()[:300]
                return
            self.messages += said

    def run(self):
        for _ in range(self.steps * 2):
            try:
                self.answer, said, results = self.ask()
            except urllib.error.HTTPError as error:
                self.errors += 1
                self.answer = error.read().decode()[:300]
                return
            self.messages += said + results
            if not results:
                return


def cost(log):
    return sum((one["input"] - one["cached"]) + 0.1 * one["cached"] + 5 * one["output"] for one in log if not one["refused"]) / 1000


def job(binary, arguments, window):
    model = Model(arguments.dialect, window, arguments.steps, arguments.delay, arguments.summariser)
    gateway = Gateway(binary, model, window, "m") if binary else None
    agent = Agent(gateway.url if gateway else model.url, arguments.dialect, arguments.steps, arguments.size)
    try:
        agent.chat(arguments.turns) if arguments.turns else agent.run()
        # What is written between the requests is part of the bill.
        time.sleep(arguments.delay + 0.5)
    finally:
        if gateway:
            gateway.close()
        model.server.shutdown()
    return model, agent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--windows", default="64000,32000")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=9000)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--delay", type=float, default=2)
    parser.add_argument("--summariser", choices=("names", "refuses"), default="names")
    parser.add_argument("--dialect", choices=("chat", "messages"), default="chat")
    arguments = parser.parse_args()
    endless, agent = job(None, arguments, 10**9)
    base = cost(endless.log)
    print(f"append-only: cost {base:.0f}, {endless.log[-1]['seen']} of {arguments.steps} seen, {endless.log[-1]['input']} tokens at the end")
    failed = False
    for window in map(int, arguments.windows.split(",")):
        model, agent = job(arguments.binary, arguments, window)
        mains = [one for one in model.log if not one["summary"] and not one["refused"]]
        summaries = [one for one in model.log if one["summary"] and not one["refused"]]
        total = cost(model.log)
        cached = sum(one["cached"] for one in summaries) / max(1, sum(one["input"] for one in summaries))
        hits = sum(one["cached"] for one in mains) / max(1, sum(one["input"] for one in mains))
        print(f"window {window}: {agent.errors} client errors, {sum(one['refused'] for one in model.log)} refused upstream, cost {total:.0f} "
              f"({total / base:.2f} of append-only), {mains[-1]['seen'] if mains else 0} of {arguments.steps} seen, {len(mains)} requests, "
              f"prefix hits {hits:.0%}, {len(summaries)} summary requests for {cost(summaries):.0f} ({cached:.0%} cached), "
              f"longest wait {agent.longest_wait:.2f} s")
        if agent.errors:
            failed = True
            print(f"  {agent.answer}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
