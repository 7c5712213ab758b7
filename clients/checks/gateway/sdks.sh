#!/usr/bin/env bash
# The SDKs of OpenAI, Anthropic, Vercel and LangChain in front of the gateway. Needs python3 and node 20; what it
# installs, in pinned versions, lies in FOLDER (default: target/gateway-clients).
#
#   sdks.sh BINARY [FOLDER [FILTER]]     (a minute or two; the first time half a minute more)
set -euo pipefail

binary=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
folder=${2:-$(cd "$here/../../.." && pwd)/target/gateway-clients}
mkdir -p "$folder/node"
folder=$(realpath "$folder")

if ! cmp -s "$here/sdk/requirements.txt" "$folder/py/requirements.txt"; then
  python3 -m venv "$folder/py"
  "$folder/py/bin/pip" install -q --disable-pip-version-check -r "$here/sdk/requirements.txt"
  cp "$here/sdk/requirements.txt" "$folder/py/"
fi
if ! cmp -s "$here/sdk/package-lock.json" "$folder/node/installed.json"; then
  cp "$here/sdk/package.json" "$here/sdk/package-lock.json" "$folder/node/"
  npm ci --prefix "$folder/node" --no-audit --no-fund --silent
  cp "$here/sdk/package-lock.json" "$folder/node/installed.json"
fi
exec python3 -B "$here/run.py" "$binary" sdks "$folder" "${3:-}"
