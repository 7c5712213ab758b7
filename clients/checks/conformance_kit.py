"""Measures what `/v1/responses/compact` keeps when no model writes a summary, with compaction-conformance-kit.

    python conformance_kit.py [--budget 0.2] [--seeds 1-4] [--rounds 5] [--json FILE] [--show FILE]
    compaction-kit benchmark --spec conformance_kit.py:Longhaul --budgets 20% --format json

`LONGHAUL` names the binary. The server's strategy writes extracts, so no model is called. The kit's system turn is the
request's `instructions`: every later request carries it beside the compacted items. A client that wants a smaller
answer asks for it with the header `x-longhaul-trigger`, so the largest answer within the budget is searched.
"""

import argparse
import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.compacted import CompactedContext
from compaction_kit.corpus import build_random_session
from compaction_kit.runner import run_conformance
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session

GOAL_SURVIVAL = 0.9
GOAL_RESOLVED = 1.0

# The smallest trigger that the gateway takes, in tokens.
MIN_TRIGGER_TOKENS = 256

# The search for a trigger ends at this precision, in tokens.
TRIGGER_STEP_TOKENS = 8

# What a view says behind a statement that a later one replaces.
REPLACED_MARK = re.compile(r"\(replaced by \[\d+\]\)")

CONFIG = """\
model: { provider: openai-compatible, name: none, base_url: "http://127.0.0.1:9/v1", context_window: 32000 }
context:
  compression:
    strategy: %(strategy)s
    options: %(options)s
  userTextShare: 1.0
"""

STRATEGY = os.environ.get("LONGHAUL_KIT_STRATEGY", "reactive-overflow")
OPTIONS = os.environ.get("LONGHAUL_KIT_OPTIONS", "{ preserveLastNTurns: 1, summarizeWith: extract }")


class Server:
    """A `longhaul serve` in a folder of its own, for as long as this process runs."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        (folder / "work").mkdir()
        (folder / "longhaul.yml").write_text(CONFIG % {"strategy": STRATEGY, "options": OPTIONS})
        binary = os.path.realpath(os.environ["LONGHAUL"])
        command = [binary, "--config", "longhaul.yml", "--data-dir", "data", "--workspace", "work"]
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [*command, "serve", "--addr", "127.0.0.1:0"],
            cwd=folder,
            env={**os.environ, "HOME": self.folder.name},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        atexit.register(self.stop)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            sys.exit((folder / "log").read_text() or "the server did not start")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)
        self.log.close()
        self.folder.cleanup()

    def compact(self, turns, trigger_tokens, try_name):
        """Returns the texts of the items that stand for `turns`."""
        system = [turn.text for turn in turns if turn.role == "system"] if len(turns) > 1 else []
        items = [item(turn) for turn in turns if turn.role != "system" or not system]
        body = {"model": "none", "input": items}
        if system:
            body["instructions"] = "\n".join(system)
        headers = {
            "content-type": "application/json",
            # The gateway remembers what it has decided for each caller. Each try is a caller of its own.
            "authorization": f"Bearer {try_name}",
            "x-longhaul-trigger": str(trigger_tokens),
        }
        request = urllib.request.Request(
            f"{self.url}/v1/responses/compact", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                output = json.load(response)["output"]
        except urllib.error.HTTPError as error:
            if error.code == 400 and "prompt_does_not_fit" in (said := error.read().decode()):
                return None
            sys.exit(f"HTTP {error.code}: {said}")
        return [text_of(item) for item in output]


def item(turn):
    # The kit hands its own output back as a system turn: it is all that is left of the conversation.
    role = "user" if turn.role == "tool" else turn.role
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": turn.text}]}


def text_of(item):
    content = item["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


SERVER = None


def server():
    global SERVER
    SERVER = SERVER or Server()
    return SERVER


class Longhaul:
    """The compactor, as the kit calls it."""

    name = "longhaul"

    def __init__(self):
        self.tries = 0

    def compact(self, turns, round_num=1, budget_chars=None):
        text = "\n".join(turn.text for turn in turns)
        if budget_chars is None or len(text) > budget_chars:
            text = self.largest_within(turns, budget_chars or len(text) // 5)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def largest_within(self, turns, budget_chars):
        """Returns the longest answer of at most `budget_chars`."""
        best = ""
        low, high = MIN_TRIGGER_TOKENS, max(MIN_TRIGGER_TOKENS, sum(len(turn.text) for turn in turns))
        while low <= high:
            middle = (low + high) // 2
            self.tries += 1
            name = f"{id(self)}-{time.time_ns()}-{self.tries}"
            texts = server().compact(turns, middle, name)
            text = None if texts is None else "\n".join(texts)
            if text is not None and len(text) > budget_chars:
                high = middle - TRIGGER_STEP_TOKENS
                continue
            if text is not None and len(text) > len(best):
                best = text
            low = middle + TRIGGER_STEP_TOKENS
        return best


def unmarked_stale(seeds, rounds, budget):
    """Returns how many superseded statements stand in the final views without the mark of being replaced, and of how many."""
    stale = conflicts = 0
    for builder in (build_semantic_session, build_semantic_heldout_session):
        for seed in seeds:
            session, canaries, meta = builder(seed)
            run = run_conformance(session, Longhaul(), rounds=rounds, canaries=canaries, budget_fraction=budget)
            unmarked = [line for line in run.rounds[-1].context.text.lower().splitlines() if not REPLACED_MARK.search(line)]
            by_id = {canary.id: canary for canary in canaries}
            for name in meta["conflicts"]:
                conflicts += 1
                tokens = [token.lower() for token in by_id[name].superseded_tokens]
                stale += any(token in line for token in tokens for line in unmarked)
    return stale, conflicts


def show(file, seeds, rounds, budget):
    """Writes each final view below the names of what is missing in it."""
    with open(file, "w") as out:
        for builder in (build_random_session, build_semantic_session, build_semantic_heldout_session):
            for seed in seeds:
                session, canaries, *_ = builder(seed)
                run = run_conformance(session, Longhaul(), rounds=rounds, canaries=canaries, budget_fraction=budget)
                final = run.rounds[-1]
                missing = [canary.content for canary in canaries if not final.survived[canary.id]]
                out.write(f"=== {builder.__name__} {seed}: {final.output_chars}/{final.budget_chars}\n")
                out.writelines(f"missing: {text}\n" for text in missing)
                out.write(f"{final.context.text}\n\n")


def main():
    parser = argparse.ArgumentParser(description="What /v1/responses/compact keeps without a model.")
    parser.add_argument("--budget", type=float, default=0.2)
    parser.add_argument("--seeds", default="1-4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="a file for the kit's own result")
    parser.add_argument("--show", help="a file for the final views")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = tuple(range(int(first), int(last or first) + 1))
    result = run_budget_benchmark({"longhaul": Longhaul}, (options.budget,), seeds, options.rounds)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2))
    if options.show:
        show(options.show, seeds, options.rounds, options.budget)
    (entry,) = result["entries"]
    randomized, conflicts = entry["randomized"], entry["semantic"]["conflicts"]
    survival, resolved = randomized["overall_final_survival"], entry["semantic"]["resolved_rate"]
    stale, of = unmarked_stale(seeds, options.rounds, options.budget)
    print(f"kit {result['kit_version']}, budget {options.budget:.0%}, seeds {options.seeds}, {options.rounds} rounds")
    print(f"survival            {survival:.1%} (goal {GOAL_SURVIVAL:.0%})")
    for kind, share in randomized["final_median_by_type"].items():
        print(f"  {kind:<17} {share:.0%}")
    print(f"conflicts resolved  {resolved:.1%} (goal {GOAL_RESOLVED:.0%})")
    print(f"newest in view      {conflicts['latest']} of {conflicts['n']}")
    print(f"stale, kit's rule   {conflicts['stale']} of {conflicts['n']} (goal 0)")
    print(f"stale and unmarked  {stale} of {of}")
    print(f"distinct pairs held {conflicts['pairs_both_held']} of {conflicts['pairs']}")
    print(f"within the budget   {'yes' if entry['budget_compliant'] else 'NO'}, {entry['mean_final_output_ratio']:.1%}")


if __name__ == "__main__":
    main()
