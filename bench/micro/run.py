#!/usr/bin/env python3
"""Every small piece of the program, timed by criterion and its instructions counted by callgrind, in one table.

Builds what it runs. Where valgrind or gungraun-runner is absent it says so and gives times only.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import machine  # noqa: E402

BENCH = machine.ROOT / "bench"
CORE = "1"
HEAD = ["task", "item", "items", "ns per item", "± %", "instructions per item"]


def build(target: Path) -> dict[str, Path]:
    """Both benchmarks as programs, so that running them does not compile."""
    command = ["cargo", "bench", "--no-run", "--package", "goodput-micro", "--message-format", "json"]
    command += ["--target-dir", str(target)]
    built = subprocess.run(command, cwd=BENCH, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = (json.loads(line) for line in built.splitlines() if line.startswith("{"))
    artifacts = [message for message in messages if message.get("executable")]
    return {artifact["target"]["name"]: Path(artifact["executable"]) for artifact in artifacts}


def tasks(program: Path) -> list[tuple[str, str]]:
    """(item, name) of every task, in the order in which they run."""
    listed = subprocess.run([program, "--bench", "--list"], check=True, capture_output=True, text=True).stdout
    names = [line.removesuffix(": benchmark") for line in listed.splitlines() if line.endswith(": benchmark")]
    return [tuple(name.split("/", 1)) for name in names]


def times(program: Path, folder: Path, found: list[tuple[str, str]]) -> dict[str, dict]:
    """Per task: items in a run, the median of nanoseconds per item, and half its confidence interval in percent."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = os.environ | {"CRITERION_HOME": str(folder)}
    subprocess.run([BENCH / "isolate.sh", CORE, program, "--bench"], check=True, env=environment, stdout=sys.stderr)
    measured = {}
    for item, name in found:
        new = folder / item / name / "new"
        items = json.loads((new / "benchmark.json").read_text())["throughput"]["Elements"]
        median = json.loads((new / "estimates.json").read_text())["median"]
        bounds, middle = median["confidence_interval"], median["point_estimate"]
        spread = (bounds["upper_bound"] - bounds["lower_bound"]) / 2 / middle
        measured[name] = {"items": items, "ns": middle / items, "spread": 100 * spread}
    return measured


def instructions(program: Path, folder: Path, found: list[tuple[str, str]]) -> dict[str, int]:
    """Instructions of one run of each task; nothing if they cannot be counted here."""
    missing = why_not()
    if missing:
        print(f"instructions are not counted: {missing}", file=sys.stderr)
        return {}
    shutil.rmtree(folder, ignore_errors=True)
    environment = os.environ | {"GUNGRAUN_HOME": str(folder)}
    command = [program, "--bench", "--save-summary=json", "--callgrind-args=--cache-sim=no"]
    subprocess.run(command, cwd=BENCH / "micro", check=True, env=environment, stdout=sys.stderr)
    counted = {}
    for path in folder.rglob("summary.json"):
        summary = json.loads(path.read_text())
        at = int(summary["id"].rsplit("_", 1)[1])
        counted[found[at][1]] = summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"]
    return counted


def why_not() -> str | None:
    if not shutil.which("valgrind"):
        return "valgrind is not installed (Debian, Ubuntu: apt install valgrind)"
    locked = tomllib.loads((BENCH / "Cargo.lock").read_text())["package"]
    version = next(package["version"] for package in locked if package["name"] == "gungraun")
    runner = os.environ.get("GUNGRAUN_RUNNER") or shutil.which("gungraun-runner")
    if not runner:
        return f"gungraun-runner is not installed (cargo install gungraun-runner --version {version} --locked)"
    return None


def table(found: list[tuple[str, str]], timed: dict[str, dict], counted: dict[str, int]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- |" + " ---: |" * (len(HEAD) - 2)]
    for item, name in found:
        row = timed[name]
        count = f"{counted[name] / row['items']:,.1f}" if name in counted else ""
        cells = [name, item, f"{row['items']:,}", f"{row['ns']:,.1f}", f"{row['spread']:.1f}", count]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="default: bench/results/DATE-micro.md")
    default = Path(os.environ.get("CARGO_TARGET_DIR", machine.ROOT / "target"))
    parser.add_argument("--target-dir", type=Path, default=default)
    args = parser.parse_args()
    facts, target = machine.facts(), args.target_dir.resolve()
    programs = build(target)
    found = tasks(programs["time"])
    counted = instructions(programs["instructions"], target / "bench-micro" / "gungraun", found)
    timed = times(programs["time"], target / "bench-micro" / "criterion", found)
    text = (
        f"# Micro-benchmarks\n\n{facts}.\n\nTimes on core {CORE} by criterion: the median, and half its 95 % confidence interval; "
        "instructions by callgrind, one run. How to read them: bench/README.md.\n\n" + table(found, timed, counted) + "\n"
    )
    out = args.out or machine.ROOT / "bench" / "results" / f"{machine.today()}-micro.md"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
