"""LangChain's trim_messages over a file of neutral messages: a JSON line for each way of calling it."""

import json
import sys
import time

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately


def message(index, said):
    name = str(index)
    if said["role"] == "user":
        return HumanMessage(said["text"], id=name)
    if said["role"] == "assistant":
        calls = [{"id": c["id"], "name": c["tool"], "args": c["arguments"]} for c in said["calls"]]
        return AIMessage(said["text"], tool_calls=calls, id=name)
    answers = said["answers"]
    return ToolMessage(said["text"], tool_call_id=answers["id"], name=answers["tool"], id=name)


def kept(message):
    calls = [call["id"] for call in getattr(message, "tool_calls", [])]
    answers = [message.tool_call_id] if isinstance(message, ToolMessage) else []
    role = {"human": "user", "ai": "assistant", "tool": "tool"}[message.type]
    return {"role": role, "text": message.content, "calls": calls, "answers": answers}


def main(path, repetitions):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    messages = [message(index, said) for index, said in enumerate(data["messages"])]
    budget = data["budget"]
    for name, more in [("bare", {}), ("start_on=human", {"start_on": "human"})]:

        def call():
            start = time.perf_counter()
            result = trim_messages(
                messages,
                max_tokens=budget,
                token_counter=count_tokens_approximately,
                strategy="last",
                **more,
            )
            return (time.perf_counter() - start) * 1e3, result

        _, result = call()
        times = [call()[0] for _ in range(repetitions)]
        used = count_tokens_approximately(result)
        line = {"library": f"LangChain trim_messages, {name}", "ms": times, "used": used}
        print(json.dumps({**line, "kept": [kept(message) for message in result]}))


main(sys.argv[1], int(sys.argv[2]))
