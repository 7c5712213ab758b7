# Routines. `just` lists them.
default:
    @just --list

# Format, lint, test, documentation.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# What takes longer than CI may.
soak:
    PROPTEST_CASES=100000 cargo test --release -p longhaul-core
    LONGHAUL_SIM_SESSIONS=100000 cargo test --release -p longhaul-core --test it sim

# Benchmarks; report ratios.
bench:
    cargo bench -p longhaul-core
    cargo bench -p longhaul-store-sqlite

# The demo, as a newcomer sees it.
demo:
    cargo run --release -- demo
