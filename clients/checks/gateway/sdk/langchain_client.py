"""langchain-openai: its own messages, its own streaming."""

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from work import DESCRIPTION, MODE, PROMPT, ROOT, SHOP, TURNS, question, run, texts, tool

model = ChatOpenAI(model="fake-model", base_url=f"{ROOT}/v1", api_key="none", max_retries=0, stream_usage=True, use_responses_api="responses" in MODE)
model = model.bind_tools([{"type": "function", "function": {"name": "readings", "description": DESCRIPTION, "parameters": SHOP}}])


def turns():
    messages = [SystemMessage(PROMPT)]
    for turn in range(TURNS):
        messages.append(HumanMessage(question(turn)))
        while True:
            if "stream" in MODE:
                answer = None
                for piece in model.stream(messages):
                    answer = piece if answer is None else answer + piece
            else:
                answer = model.invoke(messages)
            texts.append(answer.text if isinstance(answer.text, str) else answer.text())
            messages.append(answer)
            messages += [ToolMessage(tool(call["name"], call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls]
            if not answer.tool_calls:
                break


run(turns)
