#!/usr/bin/env bash
# What `/v1/responses/compact` keeps where no model writes a summary, measured with compaction-conformance-kit from PyPI.
# Needs python3 (3.11 or later). The kit is installed into target/venv if it is missing.
#
#   conformance_kit.sh BINARY [options of conformance_kit.py]     (about a minute)
set -euo pipefail

version=0.8.0
LONGHAUL=$(realpath "$1")
export LONGHAUL
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

venv="$root/target/venv"
installed=$("$venv/bin/python" -c 'import compaction_kit.versioning as it; print(it.kit_version())' 2>/dev/null || true)
if [ "$installed" != "$version" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q "compaction-conformance-kit==$version"
fi
exec "$venv/bin/python" "$here/conformance_kit.py" "$@"
