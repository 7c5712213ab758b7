#!/usr/bin/env bash
# An hour in real time with a model server that is killed, stalled, reset, slow and full of errors by turns: every run ends
# by its answer, nothing is lost, nothing is asked twice while the first request is alive. Needs python3 only.
#
#   hour.sh BINARY [MINUTES [SEED]]     (60 minutes; prints one line of figures, and what went wrong)
set -euo pipefail

binary=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$here/soak.py" "$binary" --minutes "${2:-60}" --seed "${3:-1}"
