#!/usr/bin/env python3
"""The client against the exact server's own record: what it is off by, at loads from 64 to 5,000 streams, with artificial
work on its receive thread, under a burst, at 2,000 requests a second and beside processes that want its core.

Server and client have a core each and sessions of their own (`bench/isolate.sh`). Errors are those of `--truth`: spans of
the client minus spans of the server, request by request. Writes a table with what was aimed at beside what was seen;
nothing is a test, and a machine that is busy shows in the server's own lateness.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import machine  # noqa: E402
from exact_server import CLIENT_CORE, ISOLATE, serve  # noqa: E402


@dataclass(frozen=True)
class Case:
    name: str
    aim: str
    load: list[str]
    server: list[str] = field(default_factory=lambda: ["--ttft", "50ms", "--itl", "10ms", "--tokens", "64"])
    hogs: int = 0


def closed(streams: int, requests: int, *more: str) -> list[str]:
    return ["--concurrency", str(streams), "--requests", str(requests), "--warmup", "0", *more]


SHORT = ["--ttft", "5ms", "--itl", "2ms", "--tokens", "4"]
CASES = [
    Case("64 streams, 6,400 tokens/s", "TTFT and ITL p99 within 0.02 ms", closed(64, 640)),
    Case("the same, 5 us of work per chunk", "as without it", closed(64, 640, "--receive-work", "5us")),
    Case("1,000 streams, 100,000 tokens/s", "TTFT and ITL p99 within 0.05 ms", closed(1000, 8000)),
    Case(
        "1,000 streams, 50,000 tokens/s",
        "TTFT and ITL p99 within 0.05 ms",
        closed(1000, 4000),
        ["--ttft", "50ms", "--itl", "20ms", "--tokens", "64"],
    ),
    Case(
        "the same, 5 us of work per chunk",
        "as without it",
        closed(1000, 4000, "--receive-work", "5us"),
        ["--ttft", "50ms", "--itl", "20ms", "--tokens", "64"],
    ),
    Case("1,024 slots opened at once", "TTFT p99 within 1 ms of the truth", closed(1024, 1024)),
    Case("5,000 streams", "no error", closed(5000, 10000), ["--ttft", "50ms", "--itl", "100ms", "--tokens", "32"]),
    Case("2,000 streams", "less than 150 MB", closed(2000, 6000), ["--ttft", "50ms", "--itl", "50ms", "--tokens", "64"]),
    Case(
        "Poisson, 400 requests/s",
        "all sent, lateness p99 < 0.3 ms, gaps pass",
        ["--rate", "400", "--duration", "10s", "--warmup", "0"],
    ),
    Case(
        "Poisson, 2,000 requests/s",
        "all sent, lateness p99 < 0.3 ms, gaps pass",
        ["--rate", "2000", "--duration", "10s", "--warmup", "0"],
        SHORT,
    ),
    Case(
        "16 streams, 16,000 tokens/s, four hogs on the client's core",
        "says that it was client-limited",
        closed(16, 800),
        ["--ttft", "20ms", "--itl", "1ms", "--tokens", "128"],
        hogs=4,
    ),
]


def hogged(count: int, command: list) -> list:
    """The command in one session with so many endless loops beside it."""
    script = 'n=$1; shift; for _ in $(seq "$n"); do (while :; do :; done) & done; "$@"; s=$?; kill $(jobs -p); exit $s'
    return ["bash", "-c", script, "hogged", str(count), *command] if count else command


def run(goodput: Path, case: Case, folder: Path) -> dict:
    truth = folder / "truth.jsonl"
    with serve(goodput, *case.server, "--truth", truth) as url:
        command = [goodput, "run", "--url", url, "--out", folder, "--name", "run", "--truth", truth, "--quiet", "--json"]
        command += ["--protocol", "openai-completions", "--tokenizer", "bytes", "--input-tokens", "16", *case.load]
        done = subprocess.run(
            [ISOLATE, CLIENT_CORE, *hogged(case.hogs, command)], stdout=subprocess.PIPE, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{case.name}: goodput run ended with {done.returncode}")
    summary = json.loads(done.stdout)
    return summary | {"client": json.loads((folder / "run" / "manifest.json").read_text())["client"]}


def ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def spread(error: dict | None) -> str:
    return "" if error is None else " / ".join(ms(error[key]) for key in ("p50", "p99", "max"))


def row(case: Case, seen: dict) -> list[str]:
    load, truth, client = seen["load"], seen["truth"], seen["client"]
    counts, late, gaps = seen["counts"], load["lateness_ms"], load["gaps"]
    return [
        case.name,
        case.aim,
        f"{counts['ok']:,} of {counts['issued']:,}",
        spread(truth["ttft_ms"]),
        spread(truth["chunk_gap_ms"]),
        f"{ms(load['error_bound_ms']['ttft_p99'])} / {ms(load['error_bound_ms']['itl_p99'])}",
        "" if late is None else " / ".join(ms(late[key]) for key in ("p50", "p99", "max")),
        "" if gaps is None else gaps["verdict"],
        f"{truth['server_late_ms']['p99']:.3f}",
        f"{client['cores_used']:.2f}",
        f"{client['memory_peak_bytes'] / 1e6:.0f}",
        "client-limited" if load["client_limited"] else "",
    ]


HEAD = ["load", "aim", "ok", "TTFT error p50 / p99 / max", "chunk gap error p50 / p99 / max"]
HEAD += ["client adds at most: TTFT / ITL p99", "sent late p50 / p99 / max", "gap law", "server late p99", "cores", "MB", "it says"]


def start_up(goodput: Path, folder: Path) -> str:
    """How long the program takes to say its version, and from its start to the first request at a ready server."""
    def clock(command: list) -> float:
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - begin) * 1e3

    version = sorted(clock([goodput, "--version"]) for _ in range(9))[4]
    lines = [f"`goodput --version`: {version:.1f} ms (median of 9)."]
    with serve(goodput, *SHORT) as url:
        for label, tokenizer in [("bytes", ["--tokenizer", "bytes"]), ("its default", [])]:
            took = []
            for turn in range(5):
                name = f"{label.replace(' ', '-')}-{turn}"
                command = [goodput, "run", "--url", url, "--out", folder, "--name", name, "--quiet", "--json"]
                command += ["--concurrency", "1", "--requests", "1", "--warmup", "0", "--input-tokens", "16", *tokenizer]
                begin = time.time_ns()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                epoch = json.loads((folder / name / "manifest.json").read_text())["clock"]["start"]["unix_ns"]
                took.append((int(epoch) - begin) / 1e6)
            lines.append(f"Start of the program to the start of the load, tokenizer {label}: {sorted(took)[2]:.0f} ms (median of 5).")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goodput", type=Path, default=machine.ROOT / "target" / "release" / "goodput")
    parser.add_argument("--only", help="only loads whose name holds this")
    parser.add_argument("--out", type=Path, help="default: bench/results/DATE-accuracy.md")
    args = parser.parse_args()
    if not args.goodput.is_file():
        sys.exit(f"{args.goodput} is not there: cargo build --release")
    head = f"# The client against the server's truth\n\n{machine.facts()}.\n\nTimes in ms; errors are absolute."
    lines = ["| " + " | ".join(HEAD) + " |", "| --- " * len(HEAD) + "|"]
    for case in CASES:
        if args.only and args.only not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines.append("| " + " | ".join(row(case, run(args.goodput, case, Path(folder)))) + " |")
        print(lines[-1], file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        foot = start_up(args.goodput, Path(folder))
    out = args.out or machine.ROOT / "bench" / "results" / f"{machine.today()}-accuracy.md"
    out.write_text("\n\n".join([head, "\n".join(lines), foot]) + "\n")
    print(f"{out}\n\n{foot}")


if __name__ == "__main__":
    main()
