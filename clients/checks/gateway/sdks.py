"""The SDKs' cases."""

import json
import os
import pathlib
import shutil
import subprocess

from run import HERE, Script

WINDOW = 4_000
AT_ONCE = 2


def cases(folder):
    python, node = folder / "py" / "bin" / "python", folder / "node"
    for script in (HERE / "sdk").glob("*.mjs"):
        shutil.copy(script, node)

    def case(client, script, mode, dialect, backend, **more):
        program = [python, HERE / "sdk" / script] if script.endswith(".py") else ["node", node / script]
        think = more.pop("think", False)
        window = more.pop("window", WINDOW)
        return {"client": client, "program": program, "mode": mode, "dialect": dialect, "backend": backend, "window": window,
                "script": Script(think=think), "turns": more.pop("turns", 14), **more}

    for language, ending in (("python", "py"), ("node", "mjs")):
        for mode in ("whole", "stream"):
            yield case(f"openai-{language}", f"openai_client.{ending}", f"chat+{mode}", "chat", "chat")
            yield case(f"openai-{language}", f"openai_client.{ending}", f"responses+{mode}", "responses", "responses", think=True)
            yield case(f"anthropic-{language}", f"anthropic_client.{ending}", f"{mode}+think", "messages", "messages", think=True)
            if (language, mode) != ("node", "whole"):
                yield case(f"openai-{language}", f"openai_client.{ending}", f"chat+{mode}", "chat", "messages")
                yield case(f"openai-{language}", f"openai_client.{ending}", f"responses+{mode}", "responses", "chat")
                yield case(f"anthropic-{language}", f"anthropic_client.{ending}", mode, "messages", "chat")
    yield case("openai-python", "openai_client.py", "responses+stream", "responses", "messages", think=True)
    yield case("anthropic-python", "anthropic_client.py", "stream", "messages", "responses", think=True)
    # Reasoning of a server of the chat dialect, for clients that give it back.
    yield case("anthropic-python", "anthropic_client.py", "stream+think", "messages", "chat", think=True)
    yield case("openai-node", "openai_client.mjs", "responses+stream+think", "responses", "chat", think=True)
    # The window is not declared: the server's refusal tells it.
    yield case("openai-python", "openai_client.py", "chat+stream", "chat", "chat", declared=False, overflow="llama")
    yield case("anthropic-python", "anthropic_client.py", "stream+think", "messages", "messages", declared=False, think=True)
    yield case("openai-node", "openai_client.mjs", "chat+whole", "chat", "chat", declared=False)
    # Prompt and longest answer together are refused.
    yield case("anthropic-python", "anthropic_client.py", "whole+think", "messages", "messages", think=True, overflow="sum")
    for mode in ("whole", "stream"):
        yield case("ai", "ai_client.mjs", mode, "chat", "chat")
        yield case("langchain-openai", "langchain_client.py", mode, "chat", "chat")
    yield case("langchain-openai", "langchain_client.py", "responses+stream", "responses", "responses", think=True)
    yield case("ai", "ai_client.mjs", "stream", "chat", "messages")


def drive(case, url):
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "CHECK_URL": url, "CHECK_MODE": case["mode"], "CHECK_TURNS": os.environ.get("CHECK_TURNS", str(case["turns"])),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        ended = subprocess.run([str(part) for part in case["program"]], env=environment, capture_output=True, text=True, timeout=case.get("seconds", 120))
    except subprocess.TimeoutExpired as late:
        return {"texts": [], "errors": [f"no end: {(late.stderr or b'').decode(errors='replace')[-400:]}"], "version": version(case)}
    last = ended.stdout.strip().splitlines()[-1:] or ["{}"]
    try:
        told = json.loads(last[0])
    except ValueError:
        told = {}
    if not told:
        told = {"texts": [], "errors": [ended.stderr.strip()[-600:]]}
    told["version"] = version(case)
    return told


def version(case):
    program = pathlib.Path(case["program"][0])
    if program.name == "python":
        package = {"openai-python": "openai", "anthropic-python": "anthropic"}.get(case["client"], case["client"])
        lib = next((program.parent.parent / "lib").glob("python*")) / "site-packages"
        found = sorted(lib.glob(f"{package.replace('-', '_')}-*.dist-info"))
        return found[0].name.removesuffix(".dist-info").split("-")[-1] if found else None
    package = {"openai-node": "openai", "anthropic-node": "@anthropic-ai/sdk"}.get(case["client"], case["client"])
    return json.loads((pathlib.Path(case["program"][1]).parent / "node_modules" / package / "package.json").read_text())["version"]
