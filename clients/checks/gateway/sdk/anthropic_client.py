"""anthropic for Python: Messages, whole and streamed, with thinking, cache marks and count_tokens."""

import anthropic
from work import DESCRIPTION, MODE, PROMPT, ROOT, SHOP, TURNS, question, run, texts, tool

client = anthropic.Anthropic(base_url=ROOT, api_key="none", max_retries=0)


def turns():
    tools = [{"name": "readings", "description": DESCRIPTION, "input_schema": SHOP}]
    system = [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}]
    messages, counted = [], 0
    for turn in range(TURNS):
        messages.append({"role": "user", "content": [{"type": "text", "text": question(turn)}]})
        while True:
            for message in messages:
                for block in message["content"] if isinstance(message["content"], list) else []:
                    block.pop("cache_control", None)
            messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
            asked = {"model": "fake-model", "max_tokens": 1024, "system": system, "messages": messages, "tools": tools}
            count = client.messages.count_tokens(**{key: value for key, value in asked.items() if key != "max_tokens"}).input_tokens
            assert count > 0, "nothing was counted"
            counted = max(counted, count)
            if "think" in MODE:
                asked["thinking"] = {"type": "enabled", "budget_tokens": 1000 + 23}
                asked["max_tokens"] = 2048
            if "stream" in MODE:
                with client.messages.stream(**asked) as stream:
                    for _ in stream:
                        pass
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**asked)
            texts.append("".join(block.text for block in answer.content if block.type == "text"))
            messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True, exclude={"parsed_output", "caller", "citations"}) for block in answer.content]})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                break
            messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": tool(call.name, call.input)} for call in calls]})


run(turns)
