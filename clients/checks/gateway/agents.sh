#!/usr/bin/env bash
# Agents in front of the gateway: Codex, Claude Code, opencode, aider, Qwen Code, pi, mini-swe-agent, Cline, Continue, llm,
# and litellm as a client. Needs python3, node 20, npm and 4 GB; what it installs, in pinned versions, lies in FOLDER (default:
# target/gateway-agents). Each runs with a HOME of its own that goes away with it.
#
#   agents.sh BINARY [FOLDER [FILTER]]     (about ten minutes; the first time fifteen more)
set -euo pipefail

binary=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
folder=${2:-$(cd "$here/../../.." && pwd)/target/gateway-agents}
filter=${3:-}
mkdir -p "$folder"
folder=$(realpath "$folder")

node() {
  local at="$folder/$1" what=$2
  [ "$(cat "$at/installed" 2>/dev/null)" = "$what" ] && return
  mkdir -p "$at"
  npm install --prefix "$at" --no-audit --no-fund --silent "$what"
  echo "$what" >"$at/installed"
}

python() {
  local at="$folder/py-$1"
  shift
  [ "$(cat "$at/installed" 2>/dev/null)" = "$*" ] && return
  python3 -m venv "$at"
  "$at/bin/pip" install -q --disable-pip-version-check "$@"
  echo "$*" >"$at/installed"
}

node codex @openai/codex@0.169.0
node claude @anthropic-ai/claude-code@2.1.197
node opencode opencode-ai@1.18.33
node qwen @qwen-code/qwen-code@0.15.10
node pi @mariozechner/pi-coding-agent@0.73.1
node cline cline@3.0.65
node continue @continuedev/cli@1.5.47
python aider aider-chat==0.86.2
python mini-swe-agent mini-swe-agent==2.4.6 mcp==2.3.0
python litellm litellm==1.106.2 mcp==2.3.0
python llm llm==0.36

# INSTALL_ONLY leaves it at that: agents_job.py runs what is installed.
[ -n "${INSTALL_ONLY:-}" ] && exit
exec python3 -B "$here/run.py" "$binary" agents "$folder" "$filter"
