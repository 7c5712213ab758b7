#!/usr/bin/env bash
# Requests made from docs/openapi.json against the real server: no failure of the server, no answer that is not
# described. Needs python3. Everything it writes lies in a folder of its own, and under target/.
#
#   schemathesis.sh BINARY [EXAMPLES [SEED]]     (6 examples for each operation take a good minute)
set -euo pipefail

version=4.32.5
binary=$(realpath "$1")
examples=${2:-6}
seed=${3:-20260101}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

venv="$root/target/schemathesis"
if [ "$("$venv/bin/st" --version 2>/dev/null)" != "st, version $version" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q "schemathesis==$version"
fi

folder=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap finish EXIT

mkdir "$folder/work" "$folder/home"
cd "$folder"
HOME="$folder/home" "$binary" --data-dir "$folder/data" --workspace "$folder/work" --provider scripted \
  serve --addr 127.0.0.1:0 >"$folder/out" 2>"$folder/err" &
server=$!
for _ in $(seq 100); do
  [ -s "$folder/out" ] && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
url=$(head -n 1 "$folder/out")
[ -n "$url" ] || { cat "$folder/err" >&2; exit 1; }
token=$(cat "$folder/data/token")

# A session in which something was said, a picture, a compaction: names that requests can hit.
ask() { curl -sS --fail-with-body -H "Authorization: Bearer $token" "$@"; }
field() { "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
json=(-H 'Content-Type: application/json')
session=$(ask "${json[@]}" -d '{"title":"Known"}' "$url/api/sessions" | field id)
hash=$(ask -H 'Content-Type: image/png' --data-binary 'not much of a picture' "$url/api/sessions/$session/blobs?name=a.png" | field hash)
message="{\"sessionId\":\"$session\",\"content\":[{\"type\":\"text\",\"text\":\"Look at this.\"},{\"type\":\"image\",\"blob\":\"$hash\"}]}"
ask "${json[@]}" -d "$message" "$url/api/message" >/dev/null
words=$(printf 'One of many words. %.0s' $(seq 400))
for _ in 1 2 3; do
  until [ "$(ask "$url/api/sessions/$session" | field status)" = idle ]; do sleep 0.1; done
  ask "${json[@]}" -d "{\"sessionId\":\"$session\",\"content\":\"$words\"}" "$url/api/message" >/dev/null
done
until [ "$(ask "$url/api/sessions/$session" | field status)" = idle ]; do sleep 0.1; done
ask -X POST "$url/api/sessions/$session/compact" >/dev/null
edit=$(ask "$url/api/sessions/$session/compactions" | "$venv/bin/python" -c 'import json, sys; print((json.load(sys.stdin)["compactions"] or [{"id": "e0"}])[0]["id"])')
ask "${json[@]}" -d '{"text":"Be brief."}' "$url/api/sessions/$session/orders" >/dev/null

export LONGHAUL_OPENAPI="$root/docs/openapi.json"
LONGHAUL_KNOWN=$("$venv/bin/python" -c '
import json, sys
session, hash, edit = sys.argv[1:]
below = "/api/sessions/{id}"
print(json.dumps({
    "session": session,
    below + "/blobs/{hash} hash": hash,
    below + "/compactions/{edit}/undo edit": edit,
    below + "/compactions/{edit}/release edit": edit,
    below + "/orders/{order} order": "o1",
    "/web/{path} path": "app.js",
}))' "$session" "$hash" "$edit")
export LONGHAUL_KNOWN SCHEMATHESIS_HOOKS="$here/schemathesis_hooks.py"

# Schemas cannot say all that is wanted (names that exist, `after` or `before`, a key that is new): that every request
# which fits them is accepted is not asked for. What is refused must be refused as described.
status=0
timeout "${LONGHAUL_FUZZ_SECONDS:-600}" "$venv/bin/st" run "$LONGHAUL_OPENAPI" --url "$url" \
  --header "Authorization: Bearer $token" --checks all --exclude-checks positive_data_acceptance \
  --max-examples "$examples" --seed "$seed" --workers 1 --request-timeout 20 --continue-on-failure \
  --warnings off || status=$?
kill -0 "$server" || { echo "the server has ended" >&2; status=1; }
if grep -n 'ERROR\|panicked' "$folder/err" >&2; then
  echo "the server's log has errors" >&2
  status=1
fi
exit "$status"
