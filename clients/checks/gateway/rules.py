"""What the makers' servers demand of a request beyond its schema. Each finding is a sentence; none is the rule."""

import json


def check(dialect, body, backend):
    return {"chat": chat, "responses": responses, "messages": messages}[dialect](body, backend)


def texts(content):
    """The texts of a content, which is one or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part.get("text", "") for part in content or [] if isinstance(part, dict) and "text" in part]


def chat(body, _):
    found, open_calls, seen, answered = [], {}, set(), set()
    said = body.get("messages") or []
    if not said:
        return ["messages is empty"]
    began = False
    for at, message in enumerate(said):
        role, content = message.get("role"), message.get("content")
        where = f"messages[{at}] ({role})"
        if role not in ("system", "developer", "user", "assistant", "tool"):
            found.append(f"{where}: no such role")
            continue
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append(f"{where}: no call {message.get('tool_call_id')} before it")
            open_calls.pop(message.get("tool_call_id"), None)
            if message.get("tool_call_id") in answered:
                found.append(f"{where}: {message['tool_call_id']} is answered twice")
            answered.add(message.get("tool_call_id"))
            if not isinstance(content, (str, list)):
                found.append(f"{where}: no content")
            continue
        if open_calls:
            found.append(f"{where}: calls without results before it: {sorted(open_calls)}")
            open_calls = {}
        if role in ("system", "developer"):
            if began:
                found.append(f"{where}: not at the beginning")
            continue
        if not began and role != "user":
            found.append(f"{where}: the conversation begins with it")
        began = True
        calls = message.get("tool_calls") or []
        if role == "assistant" and not calls and not any(texts(content)):
            found.append(f"{where}: empty")
        if role == "user" and not content:
            found.append(f"{where}: empty")
        for call in calls:
            if call["id"] in seen:
                found.append(f"{where}: {call['id']} is there twice")
            seen.add(call["id"])
            open_calls[call["id"]] = call
            try:
                json.loads(call["function"]["arguments"] or "{}")
            except ValueError:
                found.append(f"{where}: arguments are no JSON: {call['function']['arguments'][:80]}")
    if open_calls:
        found.append(f"the end: calls without results: {sorted(open_calls)}")
    if said[-1].get("role") not in ("user", "tool"):
        found.append(f"it ends with {said[-1].get('role')}")
    return found


def alternates(body):
    """Whether a conversation of the chat dialect has no two messages of one speaker in a row, as strict templates ask."""
    roles = [message.get("role") for message in body.get("messages") or [] if message.get("role") not in ("system", "developer", "tool")]
    return all(one != next for one, next in zip(roles, roles[1:]) if one == "user")


def responses(body, backend):
    found, open_calls, seen = [], {}, set()
    items = body.get("input")
    if isinstance(items, str):
        return [] if items else ["input is empty"]
    if not items:
        return ["input is empty"]
    for at, item in enumerate(items):
        kind = item.get("type") or "message"
        where = f"input[{at}] ({kind})"
        if kind.endswith("_call_output"):
            if item.get("call_id") not in open_calls:
                found.append(f"{where}: no call {item.get('call_id')} before it")
            open_calls.pop(item.get("call_id"), None)
        elif kind.endswith("_call"):
            if item.get("call_id") in seen:
                found.append(f"{where}: {item.get('call_id')} is there twice")
            seen.add(item.get("call_id"))
            open_calls[item.get("call_id")] = item
            if kind == "function_call":
                try:
                    json.loads(item.get("arguments") or "{}")
                except ValueError:
                    found.append(f"{where}: arguments are no JSON")
        elif kind == "reasoning":
            if item.get("encrypted_content") and item["encrypted_content"] not in backend.signed:
                found.append(f"{where}: encrypted content cannot be verified")
            after = items[at + 1] if at + 1 < len(items) else {}
            kind_after = after.get("type") or "message"
            goes_on = kind_after in ("reasoning", "function_call", "custom_tool_call", "local_shell_call") or after.get("role") == "assistant"
            if not goes_on:
                found.append(f"{where}: without its required following item")
        elif kind == "message":
            if item.get("role") not in ("user", "assistant", "system", "developer"):
                found.append(f"{where}: role {item.get('role')}")
            if open_calls and item.get("role") == "user":
                found.append(f"{where}: calls without results before it: {sorted(open_calls)}")
                open_calls = {}
            if not any(texts(item.get("content"))):
                found.append(f"{where}: empty")
            kinds = {part.get("type") for part in item["content"]} if isinstance(item.get("content"), list) else set()
            if kinds & ({"input_text"} if item.get("role") == "assistant" else {"output_text"}):
                found.append(f"{where}: {item.get('role')} with {sorted(kinds)}")
    if open_calls:
        found.append(f"the end: calls without results: {sorted(open_calls)}")
    return found


def messages(body, backend):
    found, open_calls, seen, marks = [], set(), set(), 0
    said = body.get("messages") or []
    if not body.get("max_tokens"):
        found.append("max_tokens is missing")
    if not said:
        return [*found, "messages is empty"]
    if said[0].get("role") != "user":
        found.append("messages[0]: the first message must be the user's")
    system = body.get("system")
    if system == "" or any(not text for text in texts(system)):
        found.append("system: empty text")
    marks += sum("cache_control" in part for part in system if isinstance(part, dict)) if isinstance(system, list) else 0
    marks += sum("cache_control" in tool for tool in body.get("tools") or [])
    before = None
    for at, message in enumerate(said):
        role, content = message.get("role"), message.get("content")
        where = f"messages[{at}] ({role})"
        if role not in ("user", "assistant", "system"):
            found.append(f"{where}: no such role")
        if role == "system":
            # A beta of the maker's: after what the user or a tool said, never first, never two.
            if at == 0 or said[at - 1].get("role") != "user":
                found.append(f"{where}: not after the user's")
            if at + 1 < len(said) and said[at + 1].get("role") != "assistant":
                found.append(f"{where}: not before the assistant's")
            continue
        if role == before:
            found.append(f"{where}: roles must alternate")
        before = role
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if not blocks:
            found.append(f"{where}: empty content")
        results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if open_calls - set(results):
            found.append(f"{where}: tool_use without tool_result right after it: {sorted(open_calls - set(results))}")
        if set(results) - open_calls:
            found.append(f"{where}: tool_result without tool_use right before it: {sorted(set(results) - open_calls)}")
        if len(results) != len(set(results)):
            found.append(f"{where}: a call is answered twice")
        open_calls, other = set(), False
        for block in blocks:
            kind = block.get("type")
            marks += "cache_control" in block
            if kind == "text" and not block.get("text", "").strip():
                found.append(f"{where}: empty text block")
            if kind == "tool_result" and other:
                found.append(f"{where}: tool_result after other content")
            other = other or kind != "tool_result"
            if kind == "tool_use":
                if role != "assistant":
                    found.append(f"{where}: tool_use of the user's")
                if block["id"] in seen:
                    found.append(f"{where}: {block['id']} is there twice")
                seen.add(block["id"])
                open_calls.add(block["id"])
                if not isinstance(block.get("input"), dict):
                    found.append(f"{where}: input is no object")
            if kind == "thinking" and backend.signed.get(block.get("signature")) != block.get("thinking"):
                found.append(f"{where}: invalid signature in thinking block")
    if open_calls:
        found.append(f"the end: tool_use without tool_result: {sorted(open_calls)}")
    if said[-1].get("role") == "assistant":
        found.append("it ends with the assistant's")
    if marks > 4:
        found.append(f"{marks} cache marks; 4 are allowed")
    if (seen or any("tool_result" in json.dumps(message)[:200] for message in said[-1:])) and not body.get("tools"):
        found.append("tool_use without tools")
    if (body.get("thinking") or {}).get("type") == "enabled" and seen and len(said) > 1 and not open_calls:
        said = [message for message in said if message.get("role") != "system"]
        last = said[-2].get("content") if len(said) > 1 else None
        kinds = [block.get("type") for block in last] if isinstance(last, list) else []
        is_after_call = isinstance(said[-1].get("content"), list) and any(block.get("type") == "tool_result" for block in said[-1]["content"])
        if is_after_call and "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking") and backend.script.think:
            found.append("a final assistant message must start with a thinking block")
    return found


def ends_with_result(dialect, body):
    """Whether results of tools came after the model's last words."""
    if dialect == "chat":
        after = []
        for message in reversed(body["messages"]):
            if message["role"] == "assistant":
                break
            after.append(message)
        return any(message["role"] == "tool" for message in after)
    if dialect == "responses":
        after = []
        for item in reversed(body["input"] if isinstance(body["input"], list) else []):
            if item.get("role") == "assistant" or (item.get("type") or "").endswith("_call"):
                break
            after.append(item)
        return any((item.get("type") or "").endswith("_call_output") for item in after)
    content = [message for message in body["messages"] if message["role"] != "system"][-1]["content"]
    return isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)


def tool_names(dialect, body):
    tools = body.get("tools") or []
    if dialect == "chat":
        return [tool["function"]["name"] for tool in tools if tool.get("type") == "function"]
    return [tool.get("name") for tool in tools if tool.get("name")]
