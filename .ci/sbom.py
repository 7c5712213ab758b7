#!/usr/bin/env python3
"""What the binary is made of, as CycloneDX 1.6: every crate that `longhaul` is built from, with licence, checksum and
what it needs. The same tree and lock give the same bytes. Usage: sbom.py > longhaul.cdx.json"""
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = "longhaul-cli"


def main():
    here = Path(__file__).resolve().parent.parent
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", str(here / "Cargo.toml")]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    lock = tomllib.loads((here / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    root = next(i for i, p in packages.items() if p["name"] == ROOT)
    needs = {}
    waiting = [root]
    while waiting:
        package = waiting.pop()
        if package in needs:
            continue
        # What only tests need is not in the binary.
        used = [d["pkg"] for d in nodes[package]["deps"] if any(k["kind"] != "dev" for k in d["dep_kinds"])]
        needs[package] = sorted({reference(packages[p]) for p in used})
        waiting += used
    built = sorted((packages[p] for p in needs), key=reference)
    print(json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(packages[root], checksums, "application")},
        "components": [component(p, checksums, "library") for p in built if p["id"] != root],
        "dependencies": [{"ref": reference(p), "dependsOn": needs[p["id"]]} for p in built],
    }, indent=2))
    missing = [reference(p) for p in built if not p["license"]]
    if missing:
        sys.exit(f"without a licence: {', '.join(missing)}")


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums, kind):
    found = {"type": kind, "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        found["licenses"] = [{"expression": " OR ".join(part.strip() for part in package["license"].split("/"))}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    found["purl"] = reference(package)
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


main()
