#!/usr/bin/env python3
"""The floor and the client in the same run: CPU time per chunk of raw readers beside that of `goodput run`.

Every repeat runs all of them one after the other against the same server, in an order that moves on by one each time, so
that a machine that grows slower or faster meets all alike. Ratios are taken within a repeat; the table shows medians. Uses
the release binaries as they are; build them first (README.md).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import machine  # noqa: E402
from exact_server import CLIENT_CORE, ISOLATE, SERVER_CORE, serve  # noqa: E402

PATHS = ["epoll", "epoll-stamps", "uring", "uring-stamps"]
BASE = "epoll-stamps"
CLIENT = "goodput run"


@dataclass(frozen=True)
class Load:
    name: str
    title: str
    streams: int
    requests: int
    tokens: int
    ttft: str
    itl: str
    # The readers answer at the instant at which an answer ends, so streams that began together stay in step, and share
    # wake-ups that those of a client do not. Spread over one ITL they have as little in common as the client's.
    spread_ms: int


LOADS = [
    Load("paced-64", "64 streams, TTFT 50 ms, ITL 10 ms", 64, 1024, 64, "50ms", "10ms", 10),
    Load("paced-1000", "1,000 streams, TTFT 50 ms, ITL 10 ms", 1000, 6000, 64, "50ms", "10ms", 10),
    Load("batched-64", "64 streams, answers written at once (ITL 0)", 64, 16000, 128, "0ms", "0ms", 0),
]


def tokens_served(url: str) -> int:
    with urllib.request.urlopen(f"{url}/truth") as answer:
        return json.load(answer)["tokens"]


def floor(binary: Path, load: Load, url: str, path: str) -> dict:
    command = [ISOLATE, CLIENT_CORE, binary, "--url", url, "--path", path, "--json"]
    command += ["--streams", str(load.streams), "--requests", str(load.requests), "--tokens", str(load.tokens)]
    command += ["--spread-ms", str(load.spread_ms)]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {key: row[key] for key in ("reads", "chunks_per_s", "cpu_us_per_chunk")} | {
        "user": row["user_us_per_chunk"],
        "sys": row["sys_us_per_chunk"],
        "wakeups": row["wakeups"],
        "chunks": row["chunks"],
    }


def client(binary: Path, load: Load, url: str) -> dict:
    """The CPU time is that of the run alone, from its manifest; user and system time are of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [ISOLATE, CLIENT_CORE, binary, "run", "--url", url, "--out", folder, "--name", "floor", "--quiet"]
        command += ["--concurrency", str(load.streams), "--requests", str(load.requests), "--warmup", "0"]
        command += ["--output-tokens", str(load.tokens), "--ignore-eos", "--input-tokens", "64"]
        command += ["--tokenizer", "bytes", "--salt", "none", "--protocol", "openai-chat"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"goodput run ended with {process.returncode}")
        said = json.loads((Path(folder) / "floor" / "manifest.json").read_text())["client"]
    chunks = load.requests * load.tokens
    return {
        "reads": said["reads"],
        "chunks_per_s": chunks * said["cores_used"] * 1e9 / said["cpu_ns"],
        "cpu_us_per_chunk": said["cpu_ns"] / 1e3 / chunks,
        "user": usage.ru_utime * 1e6 / chunks,
        "sys": usage.ru_stime * 1e6 / chunks,
        "wakeups": said["wakeups"],
        "chunks": chunks,
    }


def repeat(args: argparse.Namespace, load: Load, url: str, turn: int) -> dict[str, dict]:
    """Everything once. The server's own count of tokens says whether all chunks were there."""
    names = [*PATHS, CLIENT]
    rows = {}
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
        before = tokens_served(url)
        rows[name] = client(args.goodput, load, url) if name == CLIENT else floor(args.floor, load, url, name)
        served = tokens_served(url) - before
        if served != rows[name]["chunks"]:
            sys.exit(f"{name}: {served} chunks served, {rows[name]['chunks']} expected")
        print(f"{load.name} {turn + 1}/{args.repeats} {name}: {rows[name]['cpu_us_per_chunk']:.2f} us", file=sys.stderr)
        time.sleep(0.2)
    return rows


def table(load: Load, repeats: list[dict[str, dict]]) -> str:
    head = ["", "chunks/s", "reads per chunk", "wake-ups per chunk", "CPU us per chunk", "least", "most", "user", "sys"]
    lines = [
        f"## {load.title}; {load.requests:,} answers of {load.tokens} tokens",
        "",
        "| " + " | ".join([*head, f"ratio to {BASE}"]) + " |",
        "| --- |" + " ---: |" * len(head),
    ]
    for name in repeats[0]:
        rows = [rows[name] for rows in repeats]
        cost = [row["cpu_us_per_chunk"] for row in rows]
        ratios = [rows[name]["cpu_us_per_chunk"] / rows[BASE]["cpu_us_per_chunk"] for rows in repeats]
        middle = lambda key: statistics.median(row[key] for row in rows)  # noqa: E731
        cells = [
            name,
            f"{middle('chunks_per_s'):,.0f}",
            f"{middle('reads') / rows[0]['chunks']:.2f}",
            f"{middle('wakeups') / rows[0]['chunks']:.2f}",
            f"{statistics.median(cost):.2f}",
            f"{min(cost):.2f}",
            f"{max(cost):.2f}",
            f"{middle('user'):.2f}",
            f"{middle('sys'):.2f}",
            f"{statistics.median(ratios):.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    target = machine.ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goodput", type=Path, default=target / "goodput", help="server and client")
    parser.add_argument("--floor", type=Path, default=target / "goodput-floor")
    parser.add_argument("--load", action="append", choices=[load.name for load in LOADS], help="default: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="default: bench/results/DATE-floor.md")
    args = parser.parse_args()
    for binary in (args.goodput, args.floor):
        if not binary.is_file():
            sys.exit(f"{binary} is not there: see bench/README.md for how to build it")
    sections = ["# CPU time per chunk: raw readers and the client", machine.facts() + "."]
    sections.append(
        f"Medians of {args.repeats} interleaved repeats; `least` and `most` are their range. Server on core {SERVER_CORE}, client "
        f"on core {CLIENT_CORE}, each in a session of its own. User and system time of `{CLIENT}` are of the whole process, "
        "with its start and the Parquet files; its CPU time is of the run alone."
    )
    for load in LOADS:
        if args.load and load.name not in args.load:
            continue
        with serve(args.goodput, "--ttft", load.ttft, "--itl", load.itl, "--tokens", str(load.tokens)) as url:
            sections.append(table(load, [repeat(args, load, url, turn) for turn in range(args.repeats)]))
    out = args.out or machine.ROOT / "bench" / "results" / f"{machine.today()}-floor.md"
    text = "\n\n".join(sections) + "\n"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
