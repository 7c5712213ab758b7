"""openai for Python: Chat Completions and Responses, whole and streamed."""

import openai
from work import DESCRIPTION, MODE, PROMPT, ROOT, SHOP, TURNS, question, run, texts, tool

client = openai.OpenAI(base_url=f"{ROOT}/v1", api_key="none", max_retries=0)
NAME = "fake-model"


def chat():
    tools = [{"type": "function", "function": {"name": "readings", "description": DESCRIPTION, "parameters": SHOP}}]
    messages = [{"role": "system", "content": PROMPT}]
    for turn in range(TURNS):
        messages.append({"role": "user", "content": question(turn)})
        while True:
            asked = {"model": NAME, "messages": messages, "tools": tools}
            if "stream" in MODE:
                with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
                    for _ in stream:
                        pass
                    message = stream.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**asked).choices[0].message
            texts.append(message.content)
            sent = {"role": "assistant", "content": message.content}
            if message.tool_calls:
                sent["tool_calls"] = [{"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}} for call in message.tool_calls]
            messages.append(sent)
            for call in message.tool_calls or []:
                result = tool(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not message.tool_calls:
                break


def responses():
    tools = [{"type": "function", "name": "readings", "description": DESCRIPTION, "parameters": SHOP, "strict": False}]
    items = []
    for turn in range(TURNS):
        items.append({"role": "user", "content": question(turn)})
        while True:
            asked = {"model": NAME, "instructions": PROMPT, "input": items, "tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}
            if "stream" in MODE:
                with client.responses.stream(**asked) as stream:
                    for _ in stream:
                        pass
                    answer = stream.get_final_response()
            else:
                answer = client.responses.create(**asked)
            texts.append(answer.output_text)
            items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments", "parsed", "status"}) for item in answer.output]
            for item in items:
                for part in item.get("content") if isinstance(item.get("content"), list) else []:
                    part.pop("parsed", None)
            calls = [item for item in answer.output if item.type == "function_call"]
            items += [{"type": "function_call_output", "call_id": call.call_id, "output": tool(call.name, call.arguments)} for call in calls]
            if not calls:
                break


assert [model.id for model in client.models.list()] == [NAME]
run(responses if "responses" in MODE else chat)
