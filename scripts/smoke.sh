#!/usr/bin/env bash
# The program as a user runs it: the built-in server in one process, the client in another, and what they left on
# disk and on stdout held against what must be true. Bounds on time are loose; exact timing is tested elsewhere.
#
# Usage: scripts/smoke.sh [GOODPUT]     (without an argument the release binary is built first)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $# -gt 0 ]]; then
  goodput=$(realpath "$1")
else
  cargo build --release --locked --quiet --package goodput-cli
  goodput=${CARGO_TARGET_DIR:-$PWD/target}/release/goodput
fi
unset OPENAI_API_KEY

work=$(mktemp -d)
servers=()
clean_up() {
  local status=$?
  [[ ${#servers[@]} -eq 0 ]] || kill "${servers[@]}" 2>/dev/null || true
  wait
  if [[ $status -eq 0 ]]; then
    rm -rf "$work"
    echo "smoke: all passed" >&2
  else
    echo "smoke: FAILED in \"$step\"; its files are in $work" >&2
  fi
}
trap clean_up EXIT
cd "$work"

step=start
begin() {
  step=$1
  echo "smoke: $step" >&2
}

# serve NAME ARGUMENTS...: starts `goodput sim` on a free port and sets $url.
serve() {
  local name=$1
  shift
  : >"$name.out"
  "$goodput" sim "$@" --port 0 >"$name.out" 2>"$name.err" &
  servers+=($!)
  for _ in {1..100}; do
    url=$(sed -n 's/^listening on //p' "$name.out")
    [[ -z $url ]] || return 0
    sleep 0.1
  done
  echo "no server: $(cat "$name.err")" >&2
  return 1
}

# exits STATUS COMMAND...: runs it and wants this exit status. Its output goes on.
exits() {
  local wanted=$1 status=0
  shift
  "$@" || status=$?
  [[ $status -eq $wanted ]] || {
    echo "exit status $status instead of $wanted: $*" >&2
    return 1
  }
}

# differ FILE FILE
differ() {
  if cmp -s "$1" "$2"; then
    echo "$1 and $2 are the same" >&2
    return 1
  fi
}

# holds FILE CONDITION...: each condition is Python over `d`, the JSON of FILE.
holds() {
  python3 - "$@" <<'PYTHON'
import json, sys

d = json.load(open(sys.argv[1]))
failed = sum(v for k, v in d["counts"]["outcomes"].items() if k != "ok") if isinstance(d, dict) and "counts" in d else None

def p(metric):
    return d["metrics"][metric]["p50"]["value"]

def near(metric, wanted, within):
    """The figure is right, or the report itself says that this client was too busy to measure."""
    return abs(p(metric) - wanted) < within or d["load"]["client_limited"]

broken = [condition for condition in sys.argv[2:] if not eval(condition)]
for condition in broken:
    print(f"{sys.argv[1]}: not true: {condition}", file=sys.stderr)
sys.exit(bool(broken))
PYTHON
}

# truth FIELD...: one figure of the server's own account.
truth() {
  python3 -c 'import json, sys, urllib.request
value = json.load(urllib.request.urlopen(sys.argv[1] + "/truth"))
for key in sys.argv[2:]: value = value[key]
print(value)' "$url" "$@"
}

tiny=(--data random --input-tokens 8 --tokenizer bytes)

begin "an open-loop run against exact timing"
serve exact fixed --ttft 50ms --itl 10ms --tokens 64
exact=$url
"$goodput" run --url "$url" --protocol openai-chat --model m --rate 100 --duration 12s --data random \
  --input-tokens 32 --tokenizer bytes --max-tokens 64 --out runs/a --json --quiet >a.json 2>a.err
[[ ! -s a.err ]]
[[ $(ls -d runs/a/*/ | wc -l) -eq 1 ]]
a=$(echo runs/a/*/)
scheduled=$(grep -c ',measured,\|^measured,' "$a/schedule.csv")
finished=$(truth requests finished)
holds a.json 'd["counts"]["ok"] == d["counts"]["issued"] == '"$scheduled" 'failed == 0' \
  'd["counts"]["never_released"] == 0' 'not d["partial"]' '1000 < d["counts"]["issued"] < 1400' \
  'd["counts"]["ok"] + d["counts"]["warmup"] == '"$finished" \
  'd["tokens"]["output"] == 64 * d["counts"]["ok"]' 'd["tokens"]["input"] == 32 * d["counts"]["ok"]' \
  'd["tokens"]["sources"]["server"] == d["counts"]["ok"]' \
  'near("ttft", 50, 5)' 'near("itl", 10, 1)' 'near("e2e", 680, 20)' \
  'abs(d["load"]["asked_rps"] - 100) < 1e-9' 'd["ruler"] == "canonical"'

begin "what is on disk says the same again"
"$goodput" show runs/a --json >show.json
cmp show.json a.json
holds "$a/summary.json" 'd == json.load(open("a.json"))'
rm "$a/summary.json"
"$goodput" show runs/a --json >again.json
cmp again.json a.json
for file in plan.toml schedule.csv workload.json manifest.json requests.parquet chunks.parquet; do
  [[ -s $a/$file ]]
done
"$goodput" show runs/a >show.txt
grep -q TTFT show.txt

begin "other rulers"
"$goodput" show runs/a --ruler vllm --json >vllm.json
holds vllm.json 'd["ruler"] == "vllm"' 'd["counts"]["issued"] == '"$scheduled" 'near("ttft", 50, 5)'
"$goodput" show runs/a --rulers >rulers.txt
for ruler in canonical vllm vllm-0.32 vllm-rs sglang sglang-oai; do
  grep -qw -- "$ruler" rulers.txt
done
"$goodput" explain tpot --ruler sglang >explain.txt
grep -qi sglang explain.txt

begin "one request in a closed loop, the endpoint found by asking"
"$goodput" run --url "$url" --model m --requests 1 --concurrency 1 --warmup 0 "${tiny[@]}" --max-tokens 64 \
  --ignore-eos --out runs/b --json >b.json 2>/dev/null
holds b.json 'd["counts"]["issued"] == d["counts"]["ok"] == 1' 'd["counts"]["warmup"] == 0' \
  'd["load"]["kind"] == "closed"' 'p("ttft") > 49' 'near("ttft", 50, 50)'

begin "the same seed gives the same schedule, another seed another one"
for run in one two other; do
  seed=7
  [[ $run != other ]] || seed=8
  "$goodput" run --url "$url" --rate 200 --requests 50 --input-tokens 'uniform(5,50)' --data random --tokenizer bytes \
    --max-tokens 4 --seed "$seed" --out runs/seeds --name "$run" --quiet >/dev/null
done
cmp runs/seeds/one/schedule.csv runs/seeds/two/schedule.csv
differ runs/seeds/one/schedule.csv runs/seeds/other/schedule.csv
"$goodput" run --plan runs/seeds/one --out runs/seeds --name again --quiet >/dev/null
cmp runs/seeds/one/schedule.csv runs/seeds/again/schedule.csv
cmp runs/seeds/one/plan.toml runs/seeds/again/plan.toml

begin "a cap on an open loop shows the wait it causes"
"$goodput" run --url "$url" --rate 100 --concurrency 2 --requests 20 --warmup 0 "${tiny[@]}" --max-tokens 16 \
  --out runs/cap --json --quiet >cap.json
holds cap.json 'd["counts"]["ok"] == 20' 'd["concurrency"]["peak"] <= 2' 'p("ttft") > 500' 'near("ttft_sent", 50, 50)' \
  'd["load"]["lateness_ms"]["max"] > 1000'

begin "a thousand streams at once"
"$goodput" run --url "$url" --concurrency 1000 --requests 2000 --warmup 0 "${tiny[@]}" --max-tokens 64 --out runs/many \
  --json --quiet >many.json
holds many.json 'd["counts"]["ok"] == d["counts"]["issued"] == 2000' 'd["concurrency"]["peak"] >= 900' \
  'd["tokens"]["output"] == 64 * 2000'

begin "killed in the middle of a run"
python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/truth/reset").read()' "$url"
"$goodput" run --url "$url" --rate 50 --duration 60s --warmup 0 "${tiny[@]}" --max-tokens 16 --out runs/killed --quiet \
  >/dev/null 2>&1 &
victim=$!
sleep 3
finished=$(truth requests finished)
sleep 1
kill -KILL "$victim"
wait "$victim" 2>/dev/null || true
"$goodput" show runs/killed --json >killed.json
holds killed.json 'd["partial"] is True' 'd["counts"]["ok"] > 50' 'd["counts"]["ok"] >= '"$finished" \
  'failed == 0' 'near("ttft", 50, 5)'

begin "interrupted: exit status 130, and the partial run is kept"
"$goodput" run --url "$url" --rate 50 --duration 60s --warmup 0 "${tiny[@]}" --max-tokens 16 --out runs/interrupted \
  --json --quiet >interrupted.json &
victim=$!
sleep 2
kill -INT "$victim"
status=0
wait "$victim" || status=$?
[[ $status -eq 130 ]]
holds interrupted.json 'd["partial"] is True' 'd["counts"]["ok"] > 20'

begin "errors inside answers are failures and improve nothing"
serve broken fixed --ttft 50ms --itl 10ms --tokens 64 --fault error_after=3
exits 3 "$goodput" run --url "$url" --requests 20 --concurrency 4 --warmup 0 "${tiny[@]}" --slo ttft:500ms --out runs/broken \
  --json --quiet >broken.json
holds broken.json 'd["counts"]["ok"] == 0' 'd["counts"]["outcomes"]["stream_error"] == d["counts"]["issued"] == 20' \
  'd["metrics"]["ttft"]["n"] == 0' 'd["goodput"]["good"] == 0' 'd["goodput"]["evaluated"] == 20' \
  'd["goodput"]["attainment"]["value"] == 0' 'd["throughput"]["output_tokens_per_s"] in (0, None)'
serve flaky fixed --ttft 50ms --itl 10ms --tokens 16 --fault status=503@0.5
"$goodput" run --url "$url" --requests 100 --concurrency 20 --warmup 0 "${tiny[@]}" --slo ttft:5s --out runs/flaky \
  --json --quiet >flaky.json
holds flaky.json '20 < d["counts"]["ok"] < 80' 'd["counts"]["ok"] + failed == d["counts"]["issued"] == 100' \
  'd["metrics"]["ttft"]["n"] == d["counts"]["ok"]' 'd["goodput"]["good"] == d["counts"]["ok"]' \
  'd["goodput"]["evaluated"] == 100' 'p("ttft") > 49'
serve hanging fixed --ttft 50ms --itl 10ms --tokens 16 --fault hang_after=3@0.5
"$goodput" run --url "$url" --requests 20 --concurrency 20 --warmup 0 --idle-timeout 1s "${tiny[@]}" --out runs/hanging \
  --json --quiet >hanging.json
holds hanging.json '0 < d["counts"]["outcomes"]["timeout"] == failed' 'd["counts"]["ok"] + failed == 20'

begin "a byte script"
cat >answer.replay <<'REPLAY'
#! header content-type: text/event-stream
AT_MS 20 | data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}\n\n
AT_MS 40 | data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n
AT_MS 40 | data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10}}\n\ndata: [DONE]\n\n
REPLAY
serve script script answer.replay
"$goodput" run --url "$url" --protocol openai-chat --model m --requests 3 --concurrency 1 --warmup 0 "${tiny[@]}" \
  --max-tokens 2 --out runs/script --json --quiet >script.json
holds script.json 'd["counts"]["ok"] == 3' 'd["tokens"]["output"] == 6' 'p("ttft") > 19' 'near("ttft", 20, 20)' 'near("itl", 20, 10)'

begin "exit codes and messages"
exits 2 "$goodput" run --no-such-flag 2>/dev/null
exits 2 "$goodput" run --url "$exact" --rate fast 2>/dev/null
exits 2 "$goodput" run --url "$exact" --model m --requests 1 --concurrency 1 --data sharegpt --data-path no/such/file \
  --tokenizer bytes --quiet 2>missing.err
grep -q no/such/file missing.err
exits 2 "$goodput" show no/such/run 2>/dev/null
exits 2 "$goodput" explain no_such_metric 2>/dev/null
exits 3 "$goodput" run --url http://127.0.0.1:1 --model m --requests 1 --concurrency 1 "${tiny[@]}" --out runs/nobody \
  --quiet 2>/dev/null
exits 1 "$goodput" run --url "$exact" --model m --requests 3 --concurrency 1 --warmup 0 "${tiny[@]}" --max-tokens 4 \
  --slo ttft:1ms --gate --out runs/gate --quiet >/dev/null
exits 0 "$goodput" run --url "$exact" --model m --requests 3 --concurrency 1 --warmup 0 "${tiny[@]}" --max-tokens 4 \
  --slo ttft:5s --gate --out runs/gate --quiet >/dev/null
exits 2 "$goodput" sim fixed --port "${exact##*:}" >taken.out 2>/dev/null
exits 2 "$goodput" run --url "$exact" --model m --requests 1 --concurrency 1 "${tiny[@]}" --ruler nobody --json --out runs/none \
  >none.out 2>/dev/null
[[ ! -s taken.out && ! -s none.out && ! -e runs/none ]]
exits 0 "$goodput" --version >/dev/null
# A reader that goes away, as `| head` does, is no error.
for command in "show runs/a" "show runs/a --rulers" "show runs/a --json" "completions bash"; do
  # shellcheck disable=SC2086 # The words are meant to be split.
  exits 0 "$goodput" $command 2>/dev/null > >(true)
done

begin "no key reaches the disk"
"$goodput" run --url "$exact" --model m --requests 3 --concurrency 1 --warmup 0 "${tiny[@]}" --max-tokens 4 \
  --api-key sk-a1b2c3d4e5 --header 'x-api-key=f6g7h8i9' --out runs/secret --quiet >/dev/null
exits 1 grep -rE 'a1b2c3d4e5|f6g7h8i9' runs/secret >&2

begin "the demo"
timeout 60 "$goodput" demo --out runs/demo --quiet >demo.txt
grep -q TTFT demo.txt
grep -qi stall demo.txt
"$goodput" show runs/demo --json >demo.json
holds demo.json 'failed == 0' 'd["stalls"]["max_itl_ms"] > 1400'
