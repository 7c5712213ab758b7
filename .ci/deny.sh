#!/usr/bin/env bash
# What the dependencies may be: licences, banned crates and sources always; known weaknesses and withdrawn versions where
# the database of advisories can be fetched, and by name if it cannot. cargo-deny is kept in target/tools; built without
# optimisation it is there within a minute or two.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
root="$PWD/target/tools"
deny="$root/bin/cargo-deny"
if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_TARGET_DIR="$root/build" cargo install --quiet --locked --root "$root" --version "$version" cargo-deny
  rm -rf "$root/build"
fi

# A check that lets everything pass would not be noticed: it must refuse a licence that is not in the list.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
for licence in MIT GPL-3.0-only; do
  mkdir -p "$trial/$licence/src" "$trial/$licence/dependency/src"
  touch "$trial/$licence/src/lib.rs" "$trial/$licence/dependency/src/lib.rs"
  printf '[package]\nname = "trial"\nversion = "0.1.0"\nedition = "2024"\nlicense = "MIT"\n[dependencies]\ndependency = { path = "dependency" }\n[workspace]\n' >"$trial/$licence/Cargo.toml"
  printf '[package]\nname = "dependency"\nversion = "0.1.0"\nedition = "2024"\nlicense = "%s"\n' "$licence" >"$trial/$licence/dependency/Cargo.toml"
done
try() { "$deny" --manifest-path "$trial/$1/Cargo.toml" --offline --config deny.toml check licenses >"$trial/said" 2>&1; }
try MIT || { cat "$trial/said"; echo "a licence that is allowed is refused"; exit 1; }
if try GPL-3.0-only || ! grep -q 'GPL-3.0-only' "$trial/said"; then
  cat "$trial/said"
  echo "a licence that is not allowed is not refused"
  exit 1
fi

"$deny" --all-features --log-level error check --hide-inclusion-graph licenses bans sources
if timeout 120 "$deny" --log-level error fetch db >"$trial/fetched" 2>&1; then
  "$deny" --all-features --log-level error check --disable-fetch advisories
else
  tail -n 3 "$trial/fetched"
  echo "NOT CHECKED: known weaknesses of dependencies (the database at github.com/rustsec/advisory-db cannot be fetched from here)"
fi
