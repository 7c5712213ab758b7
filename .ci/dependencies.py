#!/usr/bin/env python3
"""Checks the dependencies against deny.toml: licences, banned crates, registries.

    .ci/dependencies.py            # check; prints what is wrong, and fails if anything is

`.ci/deny.sh` checks the same with cargo-deny, and known weaknesses too. It builds cargo-deny first, which takes minutes, and
needs the database of advisories. This script takes a second and no network.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def is_allowed(expression, allowed):
    """Whether an SPDX expression, such as `MIT OR (Apache-2.0 AND ISC)`, can be met with the allowed licences."""
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)
    at = 0

    def either():
        nonlocal at
        value = both()
        # Old crates write `MIT/Apache-2.0`, which is not SPDX and means OR.
        while at < len(tokens) and tokens[at] in ("OR", "/"):
            at += 1
            other = both()
            value = value or other
        return value

    def both():
        nonlocal at
        value = one()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1
            other = one()
            value = value and other
        return value

    def one():
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "(":
            value = either()
            at += 1
            return value
        if at + 1 < len(tokens) and tokens[at] == "WITH":
            token = f"{token} WITH {tokens[at + 1]}"
            at += 2
        return token in allowed

    return bool(tokens) and either()


def faults(packages, rules):
    allowed = set(rules["licenses"]["allow"])
    banned = {each["crate"]: each.get("reason", "") for each in rules["bans"]["deny"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] is None:
            continue
        if package["source"] != CRATES_IO:
            yield f"{name} comes from {package['source']}"
        if not is_allowed(package["license"] or "", allowed):
            yield f"{name} has the licence {package['license'] or '(none stated)'}, which deny.toml does not allow"
        if package["name"] in banned:
            yield f"{name} is banned: {banned[package['name']]}"


def try_itself(rules):
    """A check that lets everything pass would not be noticed."""

    def package(**change):
        return {"name": "trial", "version": "1.0.0", "source": CRATES_IO, "license": "MIT"} | change

    good = [package(), package(license="GPL-3.0 OR (MIT AND ISC)"), package(license="MIT/Apache-2.0"), package(source=None, license=None)]
    bad = [
        package(license="GPL-3.0-only"),
        package(license="MIT AND GPL-3.0-only"),
        package(license=None),
        package(name=rules["bans"]["deny"][0]["crate"]),
        package(source="git+https://example.org/trial"),
    ]
    if list(faults(good, rules)) or any(not list(faults([each], rules)) for each in bad):
        sys.exit("the check of dependencies does not work")


def main():
    root = Path(__file__).resolve().parent.parent
    rules = tomllib.loads((root / "deny.toml").read_text())
    try_itself(rules)
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout)
    wrong = list(faults(metadata["packages"], rules))
    for each in wrong:
        print(each)
    print(f"{len(metadata['packages'])} packages, {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
