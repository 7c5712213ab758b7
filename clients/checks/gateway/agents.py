"""The agents' cases: programs with prompts and tools of their own, told of a window so large that they never shorten."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import sdks
import tap
from backend import Backend
from gateway import Gateway
from run import HERE, Script, dump
from tap import Tap

AT_ONCE = 1
LARGE = 4_000_000
TASK = "Read the log of every station with the shell, one after another, and say what it holds."
SHELLS = {
    "Bash": "command", "bash": "command", "exec_command": "cmd", "shell_command": "command", "shell": "command",
    "run_shell_command": "command", "execute_command": "command", "run_commands": "commands",
}


def shell(number, tools):
    """A command that prints 20 KB."""
    name = next((name for name in SHELLS if name in tools), None)
    if name is None:
        return None
    line = f"seq -f 'station {number} row %05g: all is well here' 1 550"
    more = {"Bash": {"description": "Reads a log"}, "bash": {"description": "Reads a log"}, "run_shell_command": {"description": "Reads a log", "is_background": False}, "execute_command": {"requires_approval": False}, "exec_command": {"max_output_tokens": 8000, "yield_time_ms": 5000}}
    value = [line] if SHELLS[name] == "commands" else line
    return name, {SHELLS[name]: value, **more.get(name, {})}


def has_tools(body):
    return bool(body.get("tools"))


def claude(at):
    at.env.update(
        ANTHROPIC_BASE_URL=at.url, ANTHROPIC_API_KEY="none", ANTHROPIC_MODEL="fake-model", ANTHROPIC_SMALL_FAST_MODEL="fake-small",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTO_COMPACT="1", DISABLE_AUTOUPDATER="1", BASH_MAX_OUTPUT_LENGTH="40000",
    )
    program = at.node("@anthropic-ai/claude-code", "claude")
    base = [*program, "-p", "--allowedTools", "Bash", "--output-format", "stream-json", "--verbose"]
    return [[*base, *(["--continue"] if turn else []), question] for turn, question in enumerate(at.questions)]


def codex(at):
    folder = at.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'model = "fake-model"\nmodel_provider = "check"\nmodel_context_window = {LARGE}\nmodel_auto_compact_token_limit = {LARGE - 1}\n'
        'check_for_update_on_startup = false\n[analytics]\nenabled = false\n[model_providers.check]\nname = "check"\n'
        f'base_url = "{at.url}/v1"\nenv_key = "CHECK_KEY"\nwire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
    )
    at.env.update(CHECK_KEY="none")
    base = [*at.node("@openai/codex", "codex"), "exec"]
    more = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    return [[*base, *(["resume", "--last"] if turn else []), *more, question] for turn, question in enumerate(at.questions)]


def opencode(at):
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "check", "options": {"baseURL": f"{at.url}/v1", "apiKey": "none"}, "models": {"fake-model": {"name": "fake-model", "limit": {"context": at.case.get("told", LARGE), "output": 4000}}}}
    settings = {"$schema": "https://opencode.ai/config.json", "provider": {"check": provider}, "model": "check/fake-model", "small_model": "check/fake-model", "autoupdate": False, "share": "disabled", "permission": {"*": "allow"}, "compaction": {"auto": at.case.get("run") is forty_seconds, "prune": False}}
    (at.work / "opencode.json").write_text(json.dumps(settings))
    at.env.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1")
    base = [*at.node("opencode-ai", "opencode"), "run", "--format", "json"]
    return [[*base, *(["--continue"] if turn else []), question] for turn, question in enumerate(at.questions)]


def qwen(at):
    folder = at.home / ".qwen"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"model": {"chatCompression": {"contextPercentageThreshold": 0}, "sessionTokenLimit": -1}, "privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True, "enableAutoUpdate": False}, "tools": {"truncateToolOutputThreshold": 40000, "truncateToolOutputLines": 2000}}))
    at.env.update(OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{at.url}/v1", OPENAI_MODEL="fake-model")
    base = [*at.node("@qwen-code/qwen-code", "qwen"), "--auth-type", "openai", "-y", "--output-format", "stream-json"]
    return [[*base, *(["--continue"] if turn else []), "-p", question] for turn, question in enumerate(at.questions)]


def pi(at):
    folder = at.home / ".pi" / "agent"
    folder.mkdir(parents=True)
    model = {"id": "fake-model", "name": "fake-model", "contextWindow": LARGE, "maxTokens": 4000, "input": ["text"], "reasoning": False, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
    api = {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"}[at.case["dialect"]]
    base_url = at.url if at.case["dialect"] == "messages" else f"{at.url}/v1"
    (folder / "models.json").write_text(json.dumps({"providers": {"check": {"baseUrl": base_url, "api": api, "apiKey": "none", "models": [model]}}}))
    (folder / "settings.json").write_text(json.dumps({"compaction": {"enabled": False}}))
    at.env.update(PI_OFFLINE="1")
    base = [*at.node("@mariozechner/pi-coding-agent", "pi"), "--provider", "check", "--model", "fake-model", "--mode", "json", "-p"]
    return [[*base, *(["--continue"] if turn else []), question] for turn, question in enumerate(at.questions)]


def mini(at):
    at.env.update(OPENAI_API_BASE=f"{at.url}/v1", OPENAI_API_KEY="none", MSWEA_CONFIGURED="true", MSWEA_COST_TRACKING="ignore_errors", LITELLM_LOCAL_MODEL_COST_MAP="True", MSWEA_SILENT_STARTUP="1")
    return [[at.python("mini"), "-m", "openai/fake-model", "-t", question, "-y", "--exit-immediately", "-o", at.work / "t.json"] for question in at.questions[:1]]


def submit(number, tools):
    return "bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}


def submit_and_exit(number, tools):
    return "submit_and_exit", {"summary": "All stations are well.", "verified": True}


def aider(at):
    (at.work / ".aider.model.metadata.json").write_text(json.dumps({"openai/fake-model": {"max_input_tokens": LARGE, "max_tokens": 4000, "litellm_provider": "openai", "mode": "chat"}}))
    at.env.update(OPENAI_API_BASE=f"{at.url}/v1", OPENAI_API_KEY="none", LITELLM_LOCAL_MODEL_COST_MAP="True")
    # One process for the whole session: its lines come from a pipe, as they would be typed.
    base = [at.python("aider"), "--model", "openai/fake-model", "--no-check-update", "--analytics-disable", "--no-git", "--yes-always", "--no-pretty", "--no-fancy-input", "--no-show-model-warnings", "--no-detect-urls", "--max-chat-history-tokens", str(LARGE), "--no-show-release-notes", "--map-tokens", "0", "--edit-format", "ask"]
    return [(base, "\n".join([*at.questions, "/exit"]) + "\n")]


def cline(at):
    program = at.node("cline", "cline")
    at.end = [[*program, "hub", "stop"]]
    at.prepare = [[*program, "auth", "--provider", "openai", "--apikey", "x", "--modelid", "fake-model", "--baseurl", f"{at.url}/v1"]]
    return [[*program, "--json", "--yolo", question] for question in at.questions[:1]]


def continues(at):
    (at.home / "cn.yaml").write_text(json.dumps({"name": "check", "version": "1.0.0", "schema": "v1", "models": [{"name": "fake-model", "provider": "openai", "model": "fake-model", "apiBase": f"{at.url}/v1", "apiKey": "none", "roles": ["chat"], "capabilities": ["tool_use"], "defaultCompletionOptions": {"contextLength": LARGE, "maxTokens": 4000}}]}))
    at.env.update(CONTINUE_ALLOW_ANONYMOUS_TELEMETRY="0", CONTINUE_TELEMETRY_ENABLED="0")
    base = [*at.node("@continuedev/cli", "cn"), "--config", at.home / "cn.yaml", "--auto", "-p"]
    return [[*base, *(["--resume"] if turn else []), question] for turn, question in enumerate(at.questions)]


def llm(at):
    folder = at.home / "llm"
    folder.mkdir()
    (folder / "extra-openai-models.yaml").write_text(f"- model_id: fake-model\n  model_name: fake-model\n  api_base: {at.url}/v1\n  supports_tools: true\n")
    at.env.update(LLM_USER_PATH=str(folder), OPENAI_API_KEY="none")
    return [[at.python("llm"), *(["-c"] if turn else []), "-m", "fake-model", question] for turn, question in enumerate(at.questions)]


CLIENTS = {
    "claude-code": claude, "codex": codex, "opencode": opencode, "qwen-code": qwen, "pi": pi, "mini-swe-agent": mini,
    "aider": aider, "cline": cline, "continue": continues, "llm": llm,
}


class At:
    """Where a client is run: folders, environment, address."""

    def __init__(self, case, url):
        self.case, self.url = case, url
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-agent-"))
        self.home, self.work = self.root / "home", self.root / "work"
        self.home.mkdir()
        self.work.mkdir()
        (self.work / "README.md").write_text("A pumping station.\n")
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1", "CI": "1",
            "XDG_CONFIG_HOME": str(self.home / ".config"), "XDG_DATA_HOME": str(self.home / ".local/share"), "XDG_CACHE_HOME": str(self.home / ".cache"), "XDG_STATE_HOME": str(self.home / ".local/state"),
        }
        self.questions = [f"{TASK} Part {turn}. {case.get('pad', '')}" for turn in range(case["turns"])]
        self.prepare, self.end = [], []

    def node(self, package, name):
        folder = self.case["folder"] / NODE[self.case["client"]]
        return [folder / "node_modules" / ".bin" / name]

    def python(self, name):
        return self.case["folder"] / f"py-{self.case['client']}" / "bin" / name

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)


NODE = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "qwen-code": "qwen", "pi": "pi", "cline": "cline", "continue": "continue"}


def cases(folder):
    def case(client, dialect, backend, window, **more):
        script = Script(**{"steps": 16, "marks": 8, "call": shell, "is_main": has_tools, "pair": 0, **more.pop("script", {})})
        return {"client": client, "mode": more.pop("mode", "session"), "dialect": dialect, "backend": backend, "window": window, "script": script,
                "turns": 3, "texts": False, "folder": folder, **more}

    plain = {"steps": 0, "marks": 60, "is_main": lambda body: True}
    yield case("codex", "responses", "responses", 40_000, script={"think": True})
    yield case("codex", "responses", "chat", 40_000)
    yield case("codex", "responses", "messages", 40_000, script={"think": True})
    yield case("claude-code", "messages", "messages", 48_000, script={"think": True, "pair": 4})
    yield case("claude-code", "messages", "responses", 48_000, script={"think": True, "pair": 4})
    yield case("claude-code", "messages", "chat", 48_000, script={"pair": 4})
    # What it asks for at most counts too, as some servers do; and the window is only told by a refusal.
    yield case("claude-code", "messages", "messages", 56_000, script={"think": True}, mode="sum", overflow="sum")
    yield case("claude-code", "messages", "messages", 48_000, script={"think": True}, mode="undeclared", declared=False)
    yield case("codex", "responses", "responses", 40_000, script={"think": True}, mode="undeclared", declared=False)
    yield case("opencode", "chat", "chat", 40_000, script={"pair": 4})
    # Its own shortening is on, as anybody has it. First its prompt alone is more than the window, then not.
    yield case("opencode", "chat", "chat", 4_000, mode="prompt too long", turns=1, told=4_000, run=forty_seconds, fits=False)
    yield case("opencode", "chat", "chat", 4_000, mode="prompt too long, told of a large window", turns=1, run=forty_seconds, fits=False)
    yield case("opencode", "chat", "chat", 12_000, mode="message too long", turns=1, told=12_000, run=forty_seconds, fits=False, pad="Mind the valve, the gauge and the pump. " * 1_000)
    yield case("opencode", "chat", "chat", 24_000, mode="own shortening", turns=1, told=24_000, run=forty_seconds, fits=True, script={"most": 16})
    yield case("opencode", "chat", "chat", 24_000, mode="undeclared, own shortening", turns=1, told=24_000, declared=False, run=forty_seconds, fits=True, script={"most": 16})
    # The others under a window that their prompts alone exceed.
    yield case("codex", "responses", "responses", 4_000, mode="prompt too long", turns=1, run=forty_seconds, fits=False)
    yield case("claude-code", "messages", "messages", 8_000, mode="prompt too long", turns=1, run=forty_seconds, fits=False)
    yield case("qwen-code", "chat", "chat", 4_000, mode="prompt too long", turns=1, run=forty_seconds, fits=False)
    yield case("aider", "chat", "chat", 8_000, script=plain, turns=50, pad="Mind the valve. " * 60)
    yield case("qwen-code", "chat", "chat", 48_000, script={"pair": 4})
    yield case("pi", "chat", "chat", 20_000, script={"pair": 4})
    yield case("pi", "messages", "messages", 20_000, script={"pair": 4})
    yield case("pi", "responses", "responses", 20_000)
    yield case("mini-swe-agent", "chat", "chat", 16_000, script={"steps": 30, "finish": submit})
    yield case("cline", "chat", "chat", 16_000, script={"steps": 30, "finish": submit_and_exit})
    yield case("continue", "chat", "chat", 40_000)
    for mode, dialect in (("chat+whole", "chat"), ("chat+stream", "chat"), ("messages+whole", "messages"), ("messages+stream", "messages")):
        yield {**case("litellm", dialect, dialect, 6_000, mode=mode), "script": Script(), "turns": 20, "texts": True,
               "program": [folder / "py-litellm" / "bin" / "python", HERE / "sdk" / "litellm_client.py"]}
    yield case("llm", "chat", "chat", 4_000, script=plain, turns=30, pad="Mind the valve. " * 30)


def drive(case, url):
    if "program" in case:
        return sdks.drive(case, url)
    at = At(case, url)
    said, errors = "", []
    try:
        commands = CLIENTS[case["client"]](at)
        for command in [*at.prepare, *commands]:
            command, typed = command if isinstance(command, tuple) else (command, None)
            code, out, err = go(at, command, typed, case.get("seconds", 300))
            said += out
            if code != 0:
                errors.append(f"exit {code}: {err.strip()[-400:]} {out.strip()[-200:]}")
                break
        for command in at.end:
            go(at, command, None, 20)
        if os.environ.get("CHECK_KEEP"):
            (at.root / "said").write_text(said)
            print(f"{case['client']}: {at.root}", file=sys.stderr)
        return {"said": said, "errors": errors, "version": version(case)}
    finally:
        if not os.environ.get("CHECK_KEEP"):
            at.close()


def forty_seconds(binary, case, _):
    """How often the backend is asked while a client has 40 seconds: a client that shortens and tries again without end shows here."""
    backend = Backend(case["backend"], case["window"], case["script"])
    gateway = Gateway(binary, backend, case["window"] if case.get("declared", True) else None)
    listener = Tap(gateway.url)
    at = At(case, listener.url)
    if os.environ.get("CHECK_KEEP"):
        backend.keep = gateway.folder / "upstream"
        backend.keep.mkdir()
    begun = time.monotonic()
    try:
        [command] = CLIENTS[case["client"]](at)
        code, out, err = go(at, command, None, 40)
        seconds = time.monotonic() - begun
        asked = [entry for entry in listener.seen if tap.dialect(entry)]
        failed = [error for entry in asked if (error := tap.read(entry)[2])]
        line = {
            "client": case["client"], "version": version(case), "mode": case["mode"], "dialect": case["dialect"], "backend": case["backend"],
            "window": case["window"], "declared": case.get("declared", True), "requests": len(asked), "upstream": backend.requests, "refused_upstream": backend.refused,
            "answers": len(backend.issued), "summaries": backend.summaries, "peak_sent": max(len(entry["raw"]) // 4 for entry in asked),
            "longest_upstream": backend.longest, "errors": len(failed), "invalid": len(backend.faults), "ended": code, "seconds": round(seconds, 1),
        }
        bounded = len(asked) <= 20 and backend.requests <= 20 if not case["fits"] else code == 0 and not failed and not backend.faults
        line["ok"] = bool(bounded)
        if not bounded or failed:
            line["why" if not bounded else "said"] = [*{str(error)[:300] for error in failed}][:3] + backend.faults[:2] + [err[-200:]]
        return line
    finally:
        if os.environ.get("CHECK_KEEP"):
            print(at.root, file=sys.stderr)
            dump(case, listener, gateway)
        else:
            at.close()
        listener.close()
        gateway.close(keep=bool(os.environ.get("CHECK_KEEP")))
        backend.close()


def go(at, command, typed, seconds):
    """Runs a command; what it leaves behind in its group is ended with it."""
    process = subprocess.Popen([str(part) for part in command], cwd=at.work, env=at.env, text=True, errors="replace", start_new_session=True,
                               stdin=subprocess.PIPE if typed else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(typed, timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return "timeout", out, err
    finally:
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass


PACKAGES = {"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex", "opencode": "opencode-ai", "qwen-code": "@qwen-code/qwen-code", "pi": "@mariozechner/pi-coding-agent", "cline": "cline", "continue": "@continuedev/cli"}


def version(case):
    client, folder = case["client"], case["folder"]
    if client in PACKAGES:
        return json.loads((folder / NODE[client] / "node_modules" / PACKAGES[client] / "package.json").read_text())["version"]
    package = {"aider": "aider_chat", "mini-swe-agent": "mini_swe_agent"}.get(client, client)
    found = list((folder / f"py-{client}").glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").split("-")[-1] if found else None
