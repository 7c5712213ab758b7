"""litellm as a client, of one dialect or the other."""

import litellm
from work import DESCRIPTION, MODE, PROMPT, ROOT, SHOP, TURNS, question, run, texts, tool

litellm.suppress_debug_info = True
WHERE = {"model": "anthropic/fake-model", "api_base": ROOT} if "messages" in MODE else {"model": "openai/fake-model", "api_base": f"{ROOT}/v1"}


def turns():
    tools = [{"type": "function", "function": {"name": "readings", "description": DESCRIPTION, "parameters": SHOP}}]
    messages = [{"role": "system", "content": PROMPT}]
    for turn in range(TURNS):
        messages.append({"role": "user", "content": question(turn)})
        while True:
            asked = {**WHERE, "api_key": "none", "messages": messages, "tools": tools, "max_tokens": 1024, "num_retries": 0}
            if "stream" in MODE:
                answer = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)), messages=messages)
            else:
                answer = litellm.completion(**asked)
            message = answer.choices[0].message
            texts.append(message.content)
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": tool(call.function.name, call.function.arguments)})
            if not message.tool_calls:
                break


run(turns)
