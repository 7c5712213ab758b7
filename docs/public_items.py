#!/usr/bin/env python3
"""Counts the public items of each published crate, as a reader of its rendered documentation sees them.

    docs/public_items.py                      # builds rustdoc's JSON of all libraries (minutes when cold) and prints a table
    docs/public_items.py --list longhaul-core # names the items of one crate; hidden ones have a mark
    docs/public_items.py --max 600            # fails if all crates together show more
    docs/public_items.py --leaks              # fails if a visible signature names a hidden item

An item is a module, struct, enum, union, trait, function, constant, static, type alias or macro. Methods, fields and
variants are not items of their own. An item counts once, in the crate that defines it, however many paths lead to it. What
is reached only through `#[doc(hidden)]` counts as hidden. The JSON of rustdoc is not stable; `RUSTC_BOOTSTRAP=1` makes the
rustdoc of the workspace write it. After `cargo doc --workspace` only rustdoc runs again, which takes about a minute.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    "module": "modules", "struct": "structs", "enum": "enums", "union": "structs", "trait": "traits",
    "trait_alias": "traits", "function": "functions", "constant": "constants", "static": "constants",
    "type_alias": "types", "macro": "macros", "proc_macro": "macros",
}
COLUMNS = ["modules", "structs", "enums", "traits", "functions", "constants", "types", "macros"]


def libraries():
    """Returns the names of all published packages with a library."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)["packages"]
    return sorted(
        package["name"] for package in packages
        if package["publish"] != [] and any("lib" in target["kind"] for target in package["targets"])
    )


def rustdoc_of(target):
    """Returns a program in `target` that runs rustdoc with unstable options allowed.

    Were the variable set for all of cargo, build scripts that look at it would run again, and half the tree be built again.
    """
    program = target / "rustdoc-unstable"
    program.parent.mkdir(parents=True, exist_ok=True)
    rustdoc = os.environ.get("RUSTDOC", "rustdoc")
    program.write_text(f'#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "{rustdoc}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def documentation(crates):
    """Builds the JSON of `crates` with all features and yields name and content of each."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    flags = "-Z unstable-options --output-format json --document-hidden-items"
    environment = dict(os.environ, RUSTDOC=str(rustdoc_of(target)), RUSTDOCFLAGS=flags)
    # The whole workspace, so that dependencies have the features of `cargo doc --workspace` and are not built again.
    command = ["cargo", "doc", "--workspace", "--no-deps", "--lib", "--all-features", "--locked"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for crate in crates:
        yield crate, json.loads((target / "doc" / f"{crate.replace('-', '_')}.json").read_text(encoding="utf-8"))


def is_hidden(item):
    """Whether an item has `#[doc(hidden)]`. Attributes are strings, or maps around one, by the version of the JSON."""
    return any("hidden" in str(attribute) and "doc" in str(attribute).lower() for attribute in item.get("attrs", []))


def items(crate):
    """Returns visible and hidden items of `crate`, and items of other crates that it shows under its own name.

    The first two are maps of an id to kind and path, the last a list of crate, kind and name.
    """
    index = crate["index"]
    found = {False: {}, True: {}}
    shown = []

    def enter(identity, path, hidden, name=None):
        item = index.get(str(identity))
        if item is None or item["crate_id"] != 0:
            other = crate["paths"].get(str(identity))
            if other and not hidden and other["kind"] in KINDS:
                shown.append((crate["external_crates"][str(other["crate_id"])]["name"], KINDS[other["kind"]], other["path"][-1]))
            return
        hidden = hidden or is_hidden(item)
        kind, content = next(iter(item["inner"].items()))
        if kind == "use":
            if content["id"] is None:
                return
            target = index.get(str(content["id"]))
            if not content["is_glob"]:
                enter(content["id"], path, hidden, content["name"])
            elif target and target["crate_id"] == 0 and "module" in target["inner"]:
                for child in target["inner"]["module"]["items"]:
                    enter(child, path, hidden)
            return
        # A module may be entered again by a visible path after a hidden one, never twice by the same kind.
        if kind not in KINDS or identity in found[hidden] or identity in found[False]:
            return
        path = f"{path}::{name or item['name']}" if path else item["name"]
        # The crate itself is no item of its own page.
        if identity != crate["root"]:
            found[hidden][identity] = (KINDS[kind], path)
        if kind == "module":
            for child in content["items"]:
                enter(child, path, hidden)

    enter(crate["root"], "", False)
    visible = found[False]
    return visible, {identity: item for identity, item in found[True].items() if identity not in visible}, shown


def named(crate, identity):
    """Yields the ids of all types and traits that the signature of an item names: fields, methods, bounds."""
    index = crate["index"]

    def walk(value):
        if isinstance(value, dict):
            if "path" in value and "id" in value and "args" in value:
                yield value["id"]
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    def members(identities):
        for member in identities:
            item = index.get(str(member))
            if item is not None and item["visibility"] != "crate" and not is_hidden(item):
                yield from of_item(item)

    def of_item(item):
        kind, content = next(iter(item["inner"].items()))
        if kind == "impl":
            # Methods of an implemented trait are named where the trait is.
            if content["trait"] is None:
                yield from members(content["items"])
            return
        if kind in ("struct", "union", "enum", "variant", "trait"):
            children = []
            for key in ("fields", "variants", "impls", "items"):
                children += content.get(key) or []
            shape = content.get("kind")
            if isinstance(shape, dict):
                for fields in shape.values():
                    children += fields.get("fields", []) if isinstance(fields, dict) else [f for f in fields if f is not None]
            content = {key: content[key] for key in ("generics", "bounds") if key in content}
            yield from members(children)
        yield from walk(content)

    item = index.get(str(identity))
    # Modules name nothing by themselves.
    if item is not None and "module" not in item["inner"]:
        yield from of_item(item)


def leaks(counted):
    """Returns a line for each visible item whose signature names a hidden item of any crate."""
    shown, lines = set(), []
    for name, (crate, visible, _, others) in counted.items():
        shown.update((name.replace("-", "_"), crate["index"][str(i)]["name"]) for i in visible)
        shown.update((other, own) for other, _, own in others)
    ours = {name.replace("-", "_") for name in counted}
    for name, (crate, visible, _, _) in counted.items():
        for identity, (_, path) in visible.items():
            for target in set(named(crate, identity)):
                known = crate["paths"].get(str(target))
                if known is None:
                    continue
                owner = known["path"][0]
                if owner in ours and (owner, known["path"][-1]) not in shown:
                    lines.append(f"{path} names {'::'.join(known['path'])}")
    return sorted(set(lines))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--list", metavar="CRATE", help="name the items of one crate")
    options.add_argument("--max", type=int, help="fail above so many visible items")
    options.add_argument("--leaks", action="store_true", help="name visible items whose signatures name hidden ones, and fail")
    options = options.parse_args()
    if options.list:
        (_, crate), = documentation([options.list])
        visible, hidden, _ = items(crate)
        lines = [(path, kind, "") for kind, path in visible.values()] + [(path, kind, " (hidden)") for kind, path in hidden.values()]
        for path, kind, mark in sorted(lines):
            print(f"{path}  {kind}{mark}")
        return 0
    counted = {name: (crate, *items(crate)) for name, crate in documentation(libraries())}
    status = 0
    if options.leaks:
        lines = leaks(counted)
        print("\n".join(lines), file=sys.stderr)
        status = 1 if lines else 0
    visible_anywhere = {
        (name.replace("-", "_"), crate["index"][str(identity)]["name"])
        for name, (crate, visible, _, _) in counted.items() for identity in visible
    }
    ours = {name.replace("-", "_") for name in counted}
    rows, all_visible, all_hidden = [], 0, 0
    for name, (crate, visible, hidden, others) in counted.items():
        kinds = [kind for kind, _ in visible.values()]
        # An item that its own crate hides and this one shows is seen here, so it counts here.
        for owner, kind, own in dict.fromkeys(others):
            if owner in ours and (owner, own) not in visible_anywhere:
                visible_anywhere.add((owner, own))
                kinds.append(kind)
        rows.append([name, *(str(kinds.count(column)) for column in COLUMNS), str(len(kinds)), str(len(hidden))])
        all_visible += len(kinds)
        all_hidden += len(hidden)
    rows.append(["**all**", *("" for _ in COLUMNS), f"**{all_visible}**", str(all_hidden)])
    print("| crate | " + " | ".join(COLUMNS) + " | visible | hidden |")
    print("|---|" + "---:|" * (len(COLUMNS) + 2))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if options.max is not None and all_visible > options.max:
        print(f"{all_visible} public items are visible; at most {options.max} are wanted.", file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
