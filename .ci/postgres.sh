#!/bin/sh
# Starts a PostgreSQL of our own in target/postgres, for tests, and prints its URL.
set -eu
cd "$(dirname "$0")/.."
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
folder=$(mktemp -d)
port=${1:-54329}
# initdb refuses root.
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi; }
[ "$(id -u)" != 0 ] || chown postgres "$folder"
as "$programs/initdb" --no-sync --auth=trust --username=postgres --encoding=UTF8 --locale=C -D "$folder/data" >/dev/null
# With TLS, as servers elsewhere have it.
openssl req -new -x509 -days 30 -nodes -subj /CN=localhost -keyout "$folder/data/server.key" -out "$folder/data/server.crt" 2>/dev/null
chmod 600 "$folder/data/server.key"
[ "$(id -u)" != 0 ] || chown postgres "$folder/data/server.key" "$folder/data/server.crt"
as "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" -o "-p $port -k $folder -c listen_addresses=127.0.0.1 -c max_connections=300 -c ssl=on" start >/dev/null
url="postgres://postgres@127.0.0.1:$port"
psql -q "$url/postgres" -c "CREATE DATABASE test" >/dev/null
echo "$url/test"
