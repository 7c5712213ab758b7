#!/usr/bin/env python3
"""Checks the documentation: every link inside the project leads somewhere, and every page is listed once: in
SUMMARY.md, or in the index of decisions.

    .ci/docs.py                        # check; prints what is wrong, and fails if anything is
    .ci/docs.py --sentences FILE...    # how long the sentences of these pages are

No network is needed.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2`*\s*$", re.M | re.S)
CODE = re.compile(r"(`+)(?:(?!\1).)+\1", re.S)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def prose(text):
    """The text without code blocks. Line numbers stay."""
    return FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text)


def slug(heading):
    """The anchor of a heading, as GitHub and mdBook make it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").replace("*", "")
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()))


def anchors(text):
    found = {}
    for heading in re.findall(r"^#{1,6} (.+)$", prose(text), re.M):
        name = slug(heading)
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).exists())


def broken_links(pages):
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    for page, text in texts.items():
        text = CODE.sub(lambda m: "`" + "x" * (len(m.group(0)) - 2) + "`", prose(text))
        for match in LINK.finditer(text):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path = (page.parent / target).resolve() if target else page
            line = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            if not path.is_relative_to(ROOT) or not path.exists():
                yield f"{line}: {match.group(1)} does not exist"
            elif anchor and path.suffix == ".md":
                if anchor not in anchors(texts.get(path) or path.read_text(encoding="utf-8")):
                    yield f"{line}: {match.group(1)} names a heading that does not exist"


def unlisted_pages():
    for contents, folder in [(ROOT / "docs/SUMMARY.md", ""), (ROOT / "docs/decisions/README.md", "decisions/")]:
        listed = [contents.parent / target for target in LINK.findall(contents.read_text(encoding="utf-8"))]
        for page in tracked(f"docs/{folder}*.md"):
            is_decision = page.parent.name == "decisions" and page.name != "README.md"
            if page == contents or is_decision != bool(folder):
                continue
            if listed.count(page) != 1:
                yield f"{contents.relative_to(ROOT)} lists {page.relative_to(ROOT)} {listed.count(page)} times"


def sentences(text):
    """Prose sentences and table cells, as lists of words. A code span is one word."""
    text = CODE.sub("code", prose(text))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    running, cells = [], []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\|))", text):
        block = block.strip()
        if not block or block.startswith(("#", "<", "{{")) or re.fullmatch(r"[|:\s-]+", block):
            continue
        kind = cells if block.startswith("|") else running
        parts = block.strip("|").split("|") if kind is cells else [re.sub(r"^(?:[-*]|\d+\.) ", "", block)]
        for part in parts:
            for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z0-9]|code)", part):
                words = [word for word in sentence.split() if re.search(r"\w", word)]
                if words:
                    kind.append(words)
    return running, cells


def print_sentences(names):
    for name in names:
        running, cells = sentences(Path(name).read_text(encoding="utf-8"))
        mean = sum(map(len, running)) / max(1, len(running))
        print(f"{name}: {len(running)} sentences, {mean:.1f} words on average, longest {max(map(len, running), default=0)};"
              f" longest in a table {max(map(len, cells), default=0)}")
        for words in running + cells:
            if len(words) > 35:
                print(f"  {len(words)}: {' '.join(words)}")


def main():
    if sys.argv[1:2] == ["--sentences"]:
        return print_sentences(sys.argv[2:])
    pages = tracked("*.md")
    faults = [*broken_links(pages), *unlisted_pages()]
    print("\n".join(faults) or f"{len(pages)} pages, no broken link")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
