#!/usr/bin/env python3
"""Ten million chunks through `goodput run`: does memory stay where it is, and how many bytes are left on disk?

Each row is a run of its own against `goodput sim fixed`, client on the last core, server on the first. The kernel's own peak
of the resident set (`ru_maxrss`) is the client's memory; the proportional set (PSS) is sampled twenty times a second. What the
log took is the largest size that its folder was seen at, so it is a little too small. Standard library only.

    cargo build --release
    bench/soak/run.py [--chunks 10000000] [--port 21150] [--tokenizer bytes]
"""

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import machine

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENT_CORE, SERVER_CORE = os.cpu_count() - 1, 0


@dataclasses.dataclass(frozen=True)
class Load:
    """What is sent. Without times the server answers as fast as it can."""

    streams: int
    requests: int
    tokens: int
    ttft: str = "0"
    itl: str = "0"


def loads(chunks):
    """The run of the memory target, a tenth of the soak, the soak, and many streams at an engine's pace. The soak is timed, so
    that nearly every gap is a value of its own, as with a real engine: the most that statistics and compression can be asked."""
    return [
        Load(64, 2_000, 128),
        Load(64, chunks // 10_000, 1_000, ttft="1ms", itl="1ms"),
        Load(64, chunks // 1_000, 1_000, ttft="1ms", itl="1ms"),
        Load(2_000, 6_000, 64, ttft="50ms", itl="10ms"),
    ]


def start(core, *command, **options):
    """On a core, in a session whose weight is raised where that is allowed; the process is the command itself."""

    def prepare():
        os.setsid()
        try:
            Path("/proc/self/autogroup").write_text("-15")
        except OSError:
            pass
        os.sched_setaffinity(0, {core})

    return subprocess.Popen(command, preexec_fn=prepare, **options)


def size(folder):
    """Bytes of the files under a folder, which may change meanwhile."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except OSError:
                pass
    return total


def pss(pid):
    """Proportional set in KiB; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def resident(pid):
    """Resident set in KiB; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def watch(client, run):
    """Waits for the client; peaks of memory while requests ran and afterwards, of PSS, and of the log."""
    peaks = {"sending": 0, "after": 0, "pss": 0, "log": 0}
    turn = 0
    while True:
        pid, _, usage = os.wait4(client.pid, os.WNOHANG)
        if pid:
            client.returncode = 0
            return peaks | {"rss": usage.ru_maxrss, "cpu": usage.ru_utime + usage.ru_stime}
        over = (run / "chunks.parquet.partial").exists() or (run / "chunks.parquet").exists()
        phase = "after" if over else "sending"
        peaks[phase] = max(peaks[phase], resident(client.pid))
        if turn % 5 == 0:
            peaks["pss"] = max(peaks["pss"], pss(client.pid))
            peaks["log"] = max(peaks["log"], size(run / "log"))
        turn += 1
        time.sleep(0.01)


def measure(goodput, load, port, tokenizer):
    """One run: what was seen from outside, and what the run says of itself."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    times = ("--ttft", load.ttft, "--itl", load.itl)
    server = start(SERVER_CORE, goodput, "sim", "fixed", "--port", str(port), "--tokens", str(load.tokens), *times, **quiet)
    out = Path(tempfile.mkdtemp(prefix="goodput-soak-"))
    try:
        time.sleep(1)
        what = ("--concurrency", str(load.streams), "--requests", str(load.requests), "--max-tokens", str(load.tokens))
        where = ("--url", f"http://127.0.0.1:{port}", "--out", str(out), "--name", "soak", "--quiet")
        how = ("--input-tokens", "32", "--tokenizer", tokenizer)
        client = start(CLIENT_CORE, goodput, "run", *where, *what, *how, **quiet)
        seen = watch(client, out / "soak")
        summary = json.loads((out / "soak" / "summary.json").read_text())
        manifest = json.loads((out / "soak" / "manifest.json").read_text())
        parquet = sum((out / "soak" / name).stat().st_size for name in ("requests.parquet", "chunks.parquet"))
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(out)
    assert summary["counts"]["ok"] == load.requests, summary["counts"]
    tokens = summary["tokens"]["output"]
    return seen | {
        "load": load,
        "tokens": tokens,
        "rate": tokens / summary["window"]["duration_s"],
        "parquet_per_token": parquet / tokens,
        "log_per_token": seen["log"] / tokens,
        "stalls": manifest["client"]["record_stalls"],
    }


def table(rows):
    """As Markdown."""
    head = ["streams", "requests x tokens", "pace", "chunks/s", "peak RSS MB", "while sending", "afterwards", "peak PSS MB",
            "log B/token", "Parquet B/token", "sink stalls"]
    lines = ["| " + " | ".join(head) + " |", "| ---: " * len(head) + "|"]
    for row in rows:
        load = row["load"]
        pace = f"{load.ttft}, {load.itl}" if load.itl != "0" else "full speed"
        cells = [f"{load.streams:,}", f"{load.requests:,} x {load.tokens:,}", pace, f"{row['rate']:,.0f}"]
        cells += [f"{row[key] * 1024 / 1e6:.1f}" for key in ("rss", "sending", "after", "pss")]
        cells += [f"{row['log_per_token']:.2f}", f"{row['parquet_per_token']:.2f}", f"{row['stalls']:,}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--goodput", default=str(ROOT / "target" / "release" / "goodput"))
    parser.add_argument("--chunks", type=int, default=10_000_000)
    parser.add_argument("--port", type=int, default=21150)
    parser.add_argument("--tokenizer", default="bytes", help="a vocabulary takes memory of its own")
    parser.add_argument("--results", default=str(ROOT / "bench" / "results"))
    args = parser.parse_args()
    facts = machine.facts()
    rows = []
    for number, load in enumerate(loads(args.chunks)):
        rows.append(measure(args.goodput, load, args.port + number, args.tokenizer))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    small, large = rows[1], rows[2]
    growth = (large["rss"] - small["rss"]) * 1024 / 1e6
    line = (f"memory: {small['rss'] * 1024 / 1e6:.1f} MB at {small['tokens']:,} chunks, {large['rss'] * 1024 / 1e6:.1f} MB at "
            f"{large['tokens']:,} ({growth:+.1f} MB)")
    text = f"# Soak\n\n{facts}; tokenizer {args.tokenizer}\n\n{table(rows)}\n\n{line}\n"
    path = Path(args.results) / f"{machine.today()}-soak.md"
    path.write_text(text)
    print(f"\n{table(rows)}\n\n{line}\n\nwritten to {path}")


if __name__ == "__main__":
    main()
