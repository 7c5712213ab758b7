#!/usr/bin/env python3
"""Builds and runs all tests of the workspace, as `cargo test --workspace --no-fail-fast` does.

The tests of PostgreSQL wait for leases most of their time. They run beside the others, which saves minutes on two
cores. Their output is shown when they end, so that no lines are mixed. What failed tests printed is shown again at the
end, where a reader of a long log looks first.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# The package whose tests wait, and the packages that compute in the meantime and need no clock.
WAITING = "longhaul-store-postgres"
COMPUTING = ["longhaul-core", "longhaul-wire", "longhaul-tokenizers"]

# Of each binary that failed, so many lines are repeated at the end.
LINES_OF_A_FAILURE = 120


def built_tests():
    """Builds all tests and yields package name, folder and executable of each, those that compute first."""
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    tests = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            package = message["package_id"].rsplit("/", 1)[-1].split("#")
            # `…/crates/core#longhaul-core@0.1.0`, or `…/name#0.1.0` where the folder has the package's name.
            name = package[-1].split("@")[0] if "@" in package[-1] else package[0]
            tests.append((name, folder, message["executable"]))
    tests.sort(key=lambda test: (test[0] not in COMPUTING, test[0], test[2]))
    return tests


def run(test, show, failures):
    """Runs one test binary, writes its output to `show`, and adds what failed to `failures`."""
    name, folder, executable = test
    show.write(f"     Running {name}: {Path(executable).name}\n")
    environment = dict(os.environ, CARGO_MANIFEST_DIR=str(folder))
    begun = time.monotonic()
    # A file, not a pipe: a pipe stays open as long as any process that a test left behind.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen([executable], cwd=folder, env=environment, stdout=output, stderr=output)
        ended, status, usage = 0, 0, None
        reader = open(f"/proc/self/fd/{output.fileno()}", errors="replace")
        while not ended:
            time.sleep(0.2)
            # `wait4` tells what this process and its children used; a test that only waits has little.
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            show.write(reader.read())
            show.flush()
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.seek(0)
        lines = reader.readlines()
        reader.close()
    show.write(f"     {name}: {time.monotonic() - begun:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU\n")
    show.flush()
    if process.returncode != 0:
        failures.append((f"{name}: {Path(executable).name}", details(lines)))


def details(lines):
    """What a failed binary said of its failures, without the result that `.ci/run` has counted already."""
    # The harness prints "failures:" twice: first what each failed test said, then the names.
    first = next((at for at, line in enumerate(lines) if line.rstrip() == "failures:"), 0)
    return [line for line in lines[first:] if not line.startswith("test result:")][-LINES_OF_A_FAILURE:]


def main():
    tests = built_tests()
    waiting = [test for test in tests if test[0] == WAITING]
    others = [test for test in tests if test[0] != WAITING]
    if not waiting or len(others) < 10:
        sys.exit(f"too few tests were built: {len(waiting)} of {WAITING}, {len(others)} others")
    failed = []
    with tempfile.TemporaryFile("w+") as beside:

        def run_waiting():
            for test in waiting:
                run(test, beside, failed)

        thread = threading.Thread(target=run_waiting)
        thread.start()
        for test in others:
            run(test, sys.stdout, failed)
        thread.join()
        beside.seek(0)
        sys.stdout.write(beside.read())
        sys.stdout.flush()
    documented = subprocess.run(["cargo", "test", "--workspace", "--locked", "--doc", "--no-fail-fast"], check=False)
    for name, said in failed:
        print(f"failed: {name}")
        sys.stdout.writelines(said)
    sys.exit(1 if failed or documented.returncode else 0)


if __name__ == "__main__":
    main()
