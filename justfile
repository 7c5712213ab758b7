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

# So many minutes in real time with a model server that fails in every way by turns; prints one line of figures.
soak-hour minutes="60":
    cargo build
    clients/checks/soak/hour.sh target/debug/longhaul {{minutes}}

# Every fault, often: kills, power failures, full and failing disks. A failure says its seed.
faults rounds="2000":
    LONGHAUL_FAULT_ROUNDS={{rounds}} cargo test -p longhaul-cli --test it faults:: -- --nocapture

# Bytes that the embedded store writes for short messages and for 200 slow streams, beside the bytes of their events.
writes folder="target":
    cargo run -p longhaul --example writes -- {{folder}}

# Benchmarks; report ratios.
bench:
    cargo bench -p longhaul-core
    cargo bench -p longhaul-store-sqlite
    cargo bench -p longhaul-store-postgres
    cargo bench -p longhaul-tokenizers

# Counting speed beside other implementations (builds them: minutes). Needs the fixtures and target/tokenizers.
peers:
    cargo run --release --manifest-path crates/tokenizers/peers/Cargo.toml --target-dir target/peers

# Planning speed beside LangChain's trim_messages and the AI SDK's pruneMessages (installs them). Needs the fixtures.
plan-peers:
    python3 -m venv target/plan-peers/venv
    target/plan-peers/venv/bin/pip install --quiet -r crates/core/peers/requirements.txt
    mkdir -p target/plan-peers/node
    cp crates/core/peers/package.json target/plan-peers/node/
    npm install --prefix target/plan-peers/node --no-audit --no-fund --silent
    cargo run --release --manifest-path crates/core/peers/Cargo.toml --target-dir target/peers

# The gateway beside other gateways (installs them: minutes), five rounds in about five minutes. Needs the fixtures.
gateway-peers rounds="5":
    cargo build --release
    python3 -m venv target/gateway-peers/venv
    target/gateway-peers/venv/bin/pip install --quiet -r crates/gateway/peers/requirements.txt
    mkdir -p target/gateway-peers/node
    cp crates/gateway/peers/package.json target/gateway-peers/node/
    npm install --prefix target/gateway-peers/node --no-audit --no-fund --silent
    cargo run --release --manifest-path crates/gateway/peers/Cargo.toml --target-dir target/peers -- --rounds {{rounds}}

# What sessions cost in memory: idle, evicted, streaming. Takes six minutes.
memory:
    cargo test -p longhaul-cli --test it -- memory::report --ignored --nocapture --test-threads=1

# Requests made from docs/openapi.json against the server, for as long as is wanted: EXAMPLES for each operation.
fuzz-api examples="200" seed="1":
    cargo build
    LONGHAUL_FUZZ_SECONDS=3600 clients/checks/schemathesis.sh target/debug/longhaul {{examples}} {{seed}}

# What the gateway costs and keeps in a job of 40 steps, beside the same requests with an endless window.
gateway-job *options:
    cargo build
    python3 -B clients/checks/gateway/job.py target/debug/longhaul {{options}}

# The gateway with kills of itself and of its client, in a chat of 1,000 turns, and with 200 streams. Two minutes.
gateway-endure *options:
    cargo build
    python3 -B clients/checks/gateway/endure.py target/debug/longhaul {{options}}

# Real agents in the same job, behind the gateway and alone (installs them: minutes; about a minute for each run).
agents-job clients="codex,claude-code,opencode,qwen-code,pi,cline":
    cargo build
    INSTALL_ONLY=1 clients/checks/gateway/agents.sh target/debug/longhaul
    python3 -B clients/checks/gateway/agents_job.py target/debug/longhaul target/gateway-agents {{clients}}
    python3 -B clients/checks/gateway/agents_job.py target/debug/longhaul target/gateway-agents {{clients}} --windows 64000 --alone

# The gateway with the SDKs of others, and with their agents (codex, Claude Code, opencode, aider …): minutes to install.
gateway-clients:
    cargo build
    clients/checks/gateway/sdks.sh target/debug/longhaul
    clients/checks/gateway/agents.sh target/debug/longhaul

# One target of fuzz/ for so many seconds, with coverage, on the stable toolchain (needs a C++ compiler). `just fuzz` alone lists them.
fuzz target="" seconds="60":
    .ci/fuzz.sh "{{target}}" "{{seconds}}"

# Licences, sources and known weaknesses of all dependencies; cargo-deny is installed into target/tools if it is missing.
deny:
    .ci/deny.sh

# What the binary is made of, as CycloneDX.
sbom:
    python3 .ci/sbom.py > target/longhaul.cdx.json

# The demo, as a newcomer sees it.
demo:
    cargo run --release -- demo

# Check links and pages of the documentation; with mdbook installed, build the site into target/book.
docs:
    .ci/docs.py
    docs/reference.py --check
    if command -v mdbook; then mdbook build docs; fi

# How many items each crate shows in its documentation, and how many it hides. Fails above 600 shown ones.
public-items:
    docs/public_items.py --leaks --max 600

# The moving picture of the README, drawn anew.
recording:
    cargo build
    docs/record.py target/debug/longhaul > target/demo.svg
    mv target/demo.svg docs/images/demo.svg

# What sessions of so many megabytes cost to open, search and compact (release build; 25 MB takes seconds, 500 MB minutes).
long-sessions sizes="1 25 100":
    cargo build --release
    python3 clients/checks/long/long.py target/release/longhaul {{sizes}}
    python3 clients/checks/long/calls.py target/release/longhaul

# Every crate as it would be published, packed and built from its package, in order. About ten minutes.
publish-dry-run:
    cargo publish --workspace --dry-run --locked

# How long the page takes to open a session of 2,000 messages, and its longest task while an answer streams.
page-times:
    cargo build
    cd crates/server/web-tests && npm ci --silent && LONGHAUL="$PWD/../../../target/debug/longhaul" node --test measure/long.mjs

# A small model that reads ten files, before a real model server (URL without /v1); `--pi FOLDER` runs pi beside.
small-model url model *options:
    cargo build
    python3 -B clients/checks/small_model.py target/debug/longhaul {{url}} --model {{model}} {{options}}
