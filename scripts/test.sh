#!/usr/bin/env bash
# Everything a change must pass: format, lints, tests, documentation, licences. Run from anywhere in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*" >&2; "$@"; }

step cargo fmt --all --check
step cargo clippy --workspace --all-targets --locked -- -D warnings
# Benchmarks are a workspace of their own: they must build and be clean, and are not run. The dependencies are shared.
bench=(--manifest-path bench/Cargo.toml --workspace --all-targets --target-dir "${CARGO_TARGET_DIR:-target}")
step cargo fmt --manifest-path bench/Cargo.toml --all --check
step cargo clippy "${bench[@]}" -- -D warnings
if command -v cargo-nextest >/dev/null; then
  step cargo nextest run --workspace --locked --profile ci
  step cargo test --workspace --doc --locked --quiet
else
  step cargo test --workspace --locked --quiet
fi
RUSTDOCFLAGS='-D warnings' step cargo doc --workspace --no-deps --locked --quiet
step python3 scripts/real-engines/test_check.py
step python3 scripts/rulers/test_check.py
step python3 bench/peers/test_peers.py
# Advisories change by the day and need a network, so they are looked at before a release and not here.
if command -v cargo-deny >/dev/null; then
  step cargo deny --log-level error check bans licenses sources
else
  echo 'cargo-deny is not installed: licences and sources are not checked (cargo install cargo-deny --locked)' >&2
fi
