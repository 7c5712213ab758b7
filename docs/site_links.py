#!/usr/bin/env python3
"""A preprocessor of mdBook, with three tasks.

Pages of docs/project include files of the repository's root. Links that lead out of docs/ go to the repository on the web
($LONGHAUL_REPOSITORY), or become plain text where that is not set. Decision records become chapters below their index,
so that SUMMARY.md need not list them.
"""
import json
import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
# Files of the root that are pages of the book.
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "docs/decisions": "decisions/README.md",
}
FENCE = re.compile(r"(^ *(```+|~~~+).*?^ *\2`*\s*$)", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def linked(match, folder, page):
    image, text, address = match.groups()
    target, hash_sign, anchor = address.partition("#")
    if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
        return match[0]
    path = (folder / target).resolve()
    name = path.relative_to(ROOT).as_posix()
    path = DOCS / PAGES[name] if name in PAGES else path
    if path.is_relative_to(DOCS):
        relative = os.path.relpath(path, page.parent)
        # mdBook turns README.md into index.html, but not the links to it
        relative = re.sub(r"(^|/)README\.md$", r"\1index.html", relative)
        return f"{image}[{text}]({relative}{hash_sign}{anchor})"
    if not (repository := os.environ.get("LONGHAUL_REPOSITORY")):
        return text
    return f"{image}[{text}]({repository}/{name}{hash_sign}{anchor})"


def rewrite(chapter):
    if not chapter.get("path"):
        return
    page, content = DOCS / chapter["path"], chapter["content"]
    folder = page.parent
    if include := re.fullmatch(r"\{\{#include (\S+)\}\}", content.strip()):
        source = (folder / include[1]).resolve()
        folder, content = source.parent, source.read_text(encoding="utf-8")
    parts = FENCE.split(content)
    # split() gives the text, then for each fence the fence and its mark
    for n in range(0, len(parts), 3):
        parts[n] = LINK.sub(lambda match: linked(match, folder, page), parts[n])
    chapter["content"] = "".join(part for n, part in enumerate(parts) if n % 3 != 2)


def decisions(parents):
    for page in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        content = page.read_text(encoding="utf-8")
        title = re.sub(r"^# (\d+)\. ", r"\1: ", content.split("\n", 1)[0])
        path = page.relative_to(DOCS).as_posix()
        chapter = {"name": title, "content": content, "number": None, "sub_items": [], "parent_names": parents}
        yield {"Chapter": {**chapter, "path": path, "source_path": path}}


def walk(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            chapter = item["Chapter"]
            if chapter.get("path") == "decisions/README.md":
                chapter["sub_items"] = list(decisions([*chapter["parent_names"], chapter["name"]]))
            rewrite(chapter)
            walk(chapter["sub_items"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    _, book = json.load(sys.stdin)
    walk(book.get("items") or book.get("sections"))
    json.dump(book, sys.stdout)
