#!/bin/sh
# Regenerates .sqlx: what the compiler must know of the queries in this crate, so that it needs no database.
# Run it after changing a query or a migration, and commit the result. Needs the `psql` command and a PostgreSQL server:
# the one that LONGHAUL_TEST_POSTGRES names, or postgres://postgres@127.0.0.1:5432/test. It works in a schema of its own.
# With --check it changes nothing and fails if .sqlx is not up to date.
set -eu
cd "$(dirname "$0")"
url=${LONGHAUL_TEST_POSTGRES:-postgres://postgres@127.0.0.1:5432/test}
schema=longhaul_prepare_$$
work=$(mktemp -d)
trap 'rm -rf "$work"; psql -q "$url" -c "SET client_min_messages = warning; DROP SCHEMA IF EXISTS $schema CASCADE"' EXIT
psql -q -v ON_ERROR_STOP=1 "$url" -c "CREATE SCHEMA $schema"
for migration in migrations/*.sql; do
    PGOPTIONS="-c search_path=$schema" psql -q -v ON_ERROR_STOP=1 "$url" -f "$migration"
done
mkdir "$work/sqlx"
touch src/lib.rs
case $url in *\?*) join='&' ;; *) join='?' ;; esac
SQLX_OFFLINE=false DATABASE_URL="$url${join}options[search_path]=$schema" SQLX_OFFLINE_DIR="$work/sqlx" \
    cargo check --quiet --package longhaul-store-postgres
touch src/lib.rs
if [ "${1-}" = "--check" ]; then
    diff -r "$work/sqlx" .sqlx
else
    rm -rf .sqlx
    cp -r "$work/sqlx" .sqlx
fi
