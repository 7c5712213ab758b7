#!/usr/bin/env python3
"""Counts the recorded fixtures with OpenAI's own tokenizer, as the table in tests/it/golden.rs.

Needs PyPI's `tiktoken` (pip install tiktoken) and the ranks that npm's `tiktoken` carries:

    npm pack tiktoken@1.0.22 && tar -xzf tiktoken-1.0.22.tgz
    tests/golden.py package/encoders ../../../shared/fixtures
"""

import base64
import json
import pathlib
import sys

import tiktoken


def encoding(folder, name):
    described = json.loads((folder / f"{name}.json").read_text())
    ranks = {}
    for line in described["bpe_ranks"].splitlines():
        _, first, *tokens = line.split(" ")
        for place, token in enumerate(tokens):
            ranks[base64.b64decode(token)] = int(first) + place
    return tiktoken.Encoding(
        name, pat_str=described["pat_str"], mergeable_ranks=ranks, special_tokens=described["special_tokens"]
    )


encoders, fixtures = map(pathlib.Path, sys.argv[1:3])
encodings = [encoding(encoders, name) for name in ("o200k_base", "cl100k_base")]
sums = {}
for path in sorted(fixtures.rglob("*")):
    if not path.is_file() or path.name == "SOURCES.md":
        continue
    text = path.read_bytes().decode("utf-8")
    folder = "/".join(path.relative_to(fixtures).parts[:2])
    row = sums.setdefault(folder, [0, 0, 0, 0])
    row[0] += 1
    row[1] += len(text.encode())
    for column, each in enumerate(encodings):
        row[2 + column] += len(each.encode_ordinary(text))
for folder, row in sums.items():
    print(f'    ("{folder}", {row[0]}, {row[1]:_}, [{row[2]:_}, {row[3]:_}]),')
