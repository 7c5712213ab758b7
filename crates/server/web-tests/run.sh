#!/bin/sh
# Tests of the page. run.sh BINARY [FILE…]: the pure parts, then Chromium against that binary.
set -eu
LONGHAUL=$(realpath "$1")
cd "$(dirname "$0")"
export LONGHAUL
shift
[ -d node_modules/playwright-core ] || npm ci --silent
node --test unit/*.test.mjs
if [ $# -eq 0 ]; then set -- browser/*.test.mjs; fi
node --test --test-concurrency=1 --test-timeout=120000 "$@"
