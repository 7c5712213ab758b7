"""What every Python client does here: many turns, each with its tools, the whole history sent again each time."""

import json
import os

ROOT = os.environ["CHECK_URL"]
MODE = os.environ["CHECK_MODE"].split("+")
TURNS = int(os.environ["CHECK_TURNS"])
PROMPT = "You keep the log of a pumping station. Answer in plain words. " * 12
SHOP = {
    "type": "object",
    "properties": {"station": {"type": "string"}, "rows": {"type": "integer"}},
    "required": ["station", "rows"],
}
DESCRIPTION = "The readings of a station."
texts, errors = [], []


def question(turn):
    return f"Turn {turn}: what does station {turn * 7 % 90} say, and what did it say before? " + "Mind the valve. " * 20


def readings(station, rows):
    return "\n".join(f"{row:04d} {station} pressure {row * 37 % 911} flow {row * 53 % 877}" for row in range(rows))


def tool(name, args):
    return readings(**(args if isinstance(args, dict) else json.loads(args)))


def run(turns):
    """Runs them, whatever happens, and prints what came."""
    try:
        turns()
    except Exception as error:  # what a client raises is what is looked for
        errors.append(f"{type(error).__name__}: {error}"[:600])
    print(json.dumps({"texts": texts, "errors": errors}))
