#!/usr/bin/env bash
# One target of fuzz/ with libFuzzer, on the stable toolchain: these flags are what `cargo fuzz -s none` sets. What it
# finds new is kept in target/fuzz-corpus, what breaks a target in target/fuzz-artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${1:-}"
seconds="${2:-60}"
if [ -z "$target" ]; then
  ls fuzz/fuzz_targets | sed 's/\.rs$//'
  exit 0
fi
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4"
host="$(rustc -vV | sed -n 's/^host: //p')"
cargo build --manifest-path fuzz/Cargo.toml --features libfuzzer --bins --target "$host" --target-dir target/fuzz
mkdir -p "target/fuzz-corpus/$target" "target/fuzz-artifacts"
export LONGHAUL_FUZZ_FIXTURES=../shared/fixtures LONGHAUL_FUZZ_SEEDS="target/fuzz-corpus/$target"
exec "target/fuzz/$host/debug/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
  -artifact_prefix="target/fuzz-artifacts/$target-" "target/fuzz-corpus/$target"
