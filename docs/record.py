#!/usr/bin/env python3
"""Makes the moving picture of the README: runs `longhaul demo` in a terminal and draws what it printed as an SVG.

    docs/record.py target/debug/longhaul > docs/images/demo.svg

The picture does not depend on the machine. Its times are set here, not measured. Which of two tools ends first is chance,
so the demo is repeated until they end in alphabetical order.
Its colours follow the reader's light or dark theme, and it stands still for readers who want no motion.
"""
import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from html import escape
from pathlib import Path

COLUMNS, ROWS = 84, 22
CELL, LINE, FONT, MARGIN, BAR = 8.4, 20, 14, 16, 34
WIDTH, HEIGHT = round(COLUMNS * CELL + 2 * MARGIN), ROWS * LINE + 2 * MARGIN + BAR

# How long each kind of row stands alone before the next one comes, in seconds.
PAUSES = [
    (r"\d · ", 1.0),
    (r"you ", 1.6),
    (r"─ ", 2.4),
    (r"✓ ", 2.4),
    (r"agent ", 0.6),
    (r"  ▸ ", 0.5),
    (r" +[▓▒░]", 0.5),
]
END = 5.0
# Classes of the window's cells: counted by the server, estimated, free.
BOXES = {"▓": "k", "▒": "m", "░": "f"}


def record(binary):
    """What the demo prints at a terminal, in a folder with nothing to read."""
    with tempfile.TemporaryDirectory() as home:
        workspace = Path(home, "work")
        workspace.mkdir()
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(workspace)
            environment = {"HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
            os.execve(binary, [binary, "--data-dir", f"{home}/data", "demo", "--fast"], environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        output = b""
        try:
            while piece := os.read(terminal, 65536):
                output += piece
        except OSError:  # Linux says so when the child has closed its end
            pass
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            sys.exit(output.decode(errors="replace"))
    return output.decode().replace("\r\n", "\n").split("\n")


def plain(row):
    return re.sub(r"\x1b\[[\d;]*m", "", row)


def is_in_order(rows):
    """Whether tools of one step are printed in alphabetical order."""
    rows = [plain(row) for row in rows]
    return all(a <= b for a, b in zip(rows, rows[1:]) if a.startswith("  ▸ ") and b.startswith("  ▸ "))


def recording(binary):
    for _ in range(200):
        if is_in_order(rows := record(binary)):
            return rows
    sys.exit("the tools of the demo never ended in alphabetical order")


def excerpt(rows):
    """The beginning, the undo and the first thing that is looked up; then the result."""
    at = lambda pattern, start=0: next(n for n in range(start, len(rows)) if re.match(pattern, plain(rows[n])))
    undo, lookup = at("3 · "), at("4 · ")
    gap = ["", "       \x1b[2m…\x1b[0m", ""]
    shown = rows[: at("2 · ") - 1] + gap + [rows[undo]] + gap + rows[at("─ compacted", undo) : at("✓ ", lookup) + 1]
    return shown + gap + rows[(end := at("The view was", lookup)) : end + 2]


def segments(row):
    """The pieces of a row: column, text, class."""
    column, style = 0, ""
    for text, code in re.findall(r"([^\x1b]+)|\x1b\[([\d;]*)m", row):
        if code:
            style = {"1": "b", "2": "d", "36": "c"}.get(code, "")
        elif not text:
            style = ""
        else:
            for piece in re.findall(r"[▓▒░┊│]+|[^▓▒░┊│]+", text):
                yield column, piece, style
                column += len(piece)


def drawn(row, top):
    """One row as SVG. The window's bar is drawn as boxes: fonts disagree about the width of its characters."""
    for column, text, style in segments(row):
        x = MARGIN + column * CELL
        if text[0] in "▓▒░┊│":
            for run in re.finditer(r"(.)\1*", text):
                left = x + run.start() * CELL
                if run[1] in "┊│":
                    yield f'<path class="{"o" if run[1] == "┊" else "p"}" d="M{left + CELL / 2:.1f} {top}v{LINE}"/>'
                else:
                    yield (f'<rect class="{BOXES[run[1]]}" x="{left:.1f}" y="{top + 4}"'
                           f' width="{len(run[0]) * CELL:.1f}" height="{LINE - 8}"/>')
        elif text.strip():
            x += (len(text) - len(text.lstrip())) * CELL
            text = text.strip()
            klass = f' class="{style}"' if style else ""
            yield (f'<text{klass} x="{x:.1f}" y="{top + 15}" textLength="{len(text) * CELL:.1f}"'
                   f' lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')


def moments(rows):
    """When each row appears, and how long all of it takes."""
    now, times = 0.4, []
    for row in rows:
        times.append(now)
        now += next((pause for pattern, pause in PAUSES if re.match(pattern, plain(row))), 0.12)
    return times, now + END


def keyframes(name, times, total, position):
    frames, last = [], None
    for n, time in enumerate(times):
        if (at := position(n)) != last:
            frames.append(f"{100 * time / total:.2f}%{{transform:translateY({at}px)}}")
            last = at
    return f"@keyframes {name}{{0%{{transform:none}}{''.join(frames)}}}"


def picture(rows):
    times, total = moments(rows)
    scroll = lambda n: -LINE * max(0, n + 1 - ROWS)
    cover = lambda n: LINE * (n + 1)
    end = len(rows) - 1
    motion = f"{total:.1f}s step-end infinite"
    shapes = "\n".join(shape for n, row in enumerate(rows) for shape in drawn(row, n * LINE))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">
<title>longhaul demo in a terminal</title>
<desc>A session reads more files than its window holds. Old tool results are pruned, messages are compacted and the compaction is undone. A line that left the window is looked up, byte for byte.</desc>
<style>
svg{{--bg:#fff;--fg:#1f2328;--dim:#59636e;--cyan:#0b6e7c;--free:#d8dee4;--edge:#d1d9e0;--bar:#f6f8fa}}
@media (prefers-color-scheme:dark){{svg{{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--cyan:#56d4dd;--free:#30363d;--edge:#3d444d;--bar:#161b22}}}}
text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--fg);white-space:pre}}
.b{{font-weight:700}}.d{{fill:var(--dim)}}.c{{fill:var(--cyan)}}
.k{{fill:var(--cyan)}}.m{{fill:var(--cyan);opacity:.55}}.f{{fill:var(--free)}}
.o,.p{{stroke:var(--fg);stroke-width:1.5}}.o{{stroke-dasharray:2 3}}
.bg{{fill:var(--bg)}}.w{{fill:var(--bg);stroke:var(--edge)}}.t{{fill:var(--bar);stroke:var(--edge)}}.h{{fill:var(--edge)}}
.s{{animation:s {motion}}}.v{{animation:v {motion}}}
{keyframes("s", times, total, scroll)}
{keyframes("v", times, total, cover)}
@media (prefers-reduced-motion:reduce){{.s,.v{{animation:none}}}}
</style>
<defs><clipPath id="screen"><rect width="{WIDTH - 2}" height="{ROWS * LINE}"/></clipPath></defs>
<rect class="w" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>
<path class="t" d="M.5 {BAR}V8.5a8 8 0 0 1 8-8h{WIDTH - 17}a8 8 0 0 1 8 8V{BAR}z"/>
<circle class="h" cx="20" cy="17" r="6"/><circle class="h" cx="40" cy="17" r="6"/><circle class="h" cx="60" cy="17" r="6"/>
<text class="d" x="{WIDTH / 2}" y="22" text-anchor="middle">longhaul demo</text>
<g transform="translate(1 {BAR + MARGIN})" clip-path="url(#screen)"><g class="s" transform="translate(0 {scroll(end)})">
{shapes}
<rect class="bg v" width="{WIDTH - 2}" height="{(len(rows) + ROWS) * LINE}" transform="translate(0 {cover(end)})"/>
</g></g>
</svg>
"""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(picture(excerpt(recording(os.path.abspath(sys.argv[1])))))
