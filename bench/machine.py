"""What a reader of a result must know about the machine it was taken on."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def today() -> str:
    return datetime.date.today().isoformat()


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown CPU"


def revision() -> str:
    """The commit, with `+` if the program's sources differ from it."""
    commit = output("git", "rev-parse", "--short", "HEAD") or "no git"
    changed = output("git", "status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock")
    return commit + ("+" if changed else "")


def output(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def facts() -> str:
    """One line for the head of a result file."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.datetime.now().astimezone().isoformat(timespec='minutes')}, {cpu_model()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, {output('rustc', '--version') or 'rustc unknown'}, goodput {revision()}, "
        f"load average {load:.1f} when it began"
    )
