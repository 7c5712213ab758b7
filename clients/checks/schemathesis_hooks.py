"""What Schemathesis is told of this server: names of things that exist, and that a stream of events has no end."""

import json
import os
import time
from pathlib import Path

import jsonschema_rs
import requests
import schemathesis
import urllib3

# How long a stream of events is listened to, in seconds.
LISTENS = 0.4

DESCRIPTION = json.loads(Path(os.environ["LONGHAUL_OPENAPI"]).read_text())
KNOWN = json.loads(os.environ["LONGHAUL_KNOWN"])

EVENT = jsonschema_rs.validator_for(
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/components/schemas/Event"} | DESCRIPTION
)


def listen(response):
    """The start of a stream that does not end by itself."""
    pieces, until = [], time.monotonic() + LISTENS
    try:
        while time.monotonic() < until and (piece := response.raw.read1(65536)):
            pieces.append(piece)
    except urllib3.exceptions.HTTPError:
        pass  # Nothing more came in time.
    response._content = b"".join(pieces)
    response._content_consumed = True
    response.close()


plain_send = requests.adapters.HTTPAdapter.send


def send(self, request, stream=False, timeout=None, **more):
    # A path of more segments is another route: an id may have a slash in it, encoded.
    streams = request.method == "GET" and request.path_url.split("?")[0].endswith("/events")
    if not streams:
        return plain_send(self, request, stream=stream, timeout=timeout, **more)
    response = plain_send(self, request, stream=True, timeout=(10, LISTENS), **more)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        listen(response)
    return response


requests.adapters.HTTPAdapter.send = send


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Most names that are made up belong to nothing: every other one is put in the place of one that does."""
    if not path_parameters:
        return path_parameters
    path, taken = context.operation.path, dict(path_parameters)
    for name, value in path_parameters.items():
        known = KNOWN.get(f"{path} {name}") or (KNOWN["session"] if "/sessions/{id}" in path and name == "id" else None)
        deletes = context.operation.method.upper() == "DELETE"
        if known and not deletes and sum(map(ord, str(value))) % 2 == 0:
            taken[name] = known
    return taken


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Headers that a server does not know are none of its business: proxies add some to every request."""
    return not (failure.code == "ST201" and "in header - object with unexpected properties" in failure.message)


@schemathesis.check
def events_are_described(ctx, response, case):
    """Each event of a stream is one of the description's."""
    if not response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        return
    blocks = response.content.decode().split("\n\n")
    for block in blocks[:-1]:
        data = [line.removeprefix("data: ") for line in block.split("\n") if line.startswith("data: ")]
        for error in (error for line in data for error in EVENT.iter_errors(json.loads(line))):
            raise AssertionError(f"an event is not as described: {error.message}: {block}")
