#!/usr/bin/env bash
# Fuzzes what reads foreign bytes: scripts/fuzz.sh [SECONDS per target]. Needs cargo-fuzz and clang's runtime. The
# switch below lets the stable compiler take the sanitizer flags that cargo-fuzz passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
export RUSTC_BOOTSTRAP=1

seed() { # TARGET FILE...
  mkdir -p "fuzz/corpus/$1"
  cp -n "${@:2}" "fuzz/corpus/$1/" 2>/dev/null || true
}
for file in testdata/cases/*/*.replay; do
  mkdir -p fuzz/corpus/texts
  cp -n "$file" "fuzz/corpus/texts/$(basename "$(dirname "$file")")-$(basename "$file")"
done
seed datasets testdata/cases/42-*/sharegpt.json
seed answer testdata/recorded/*
seed metrics testdata/recorded/*_metrics.txt testdata/prometheus/shapes.txt testdata/cases/56-*/page.metrics

for target in answer datasets metrics texts; do
  cargo fuzz run "$target" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048
done
