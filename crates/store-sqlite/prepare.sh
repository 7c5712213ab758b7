#!/bin/sh
# Regenerates .sqlx: what the compiler must know of the queries in this crate, so that it needs no database.
# Run it after changing a query or a migration, and commit the result. Needs the `sqlite3` command.
# With --check it changes nothing and fails if .sqlx is not up to date.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for migration in migrations/*.sql; do
    sqlite3 "$work/schema.db" < "$migration"
done
mkdir "$work/sqlx"
touch src/lib.rs
SQLX_OFFLINE=false DATABASE_URL="sqlite://$work/schema.db" SQLX_OFFLINE_DIR="$work/sqlx" \
    cargo check --quiet --package longhaul-store-sqlite
touch src/lib.rs
if [ "${1-}" = "--check" ]; then
    diff -r "$work/sqlx" .sqlx
else
    rm -rf .sqlx
    cp -r "$work/sqlx" .sqlx
fi
