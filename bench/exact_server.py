"""`goodput sim fixed` on a core and in a session of its own, for benchmarks that load it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ISOLATE = Path(__file__).resolve().parent / "isolate.sh"
SERVER_CORE, CLIENT_CORE = "0", "1"


@contextmanager
def serve(goodput: Path, *arguments):
    """The server on a free port, until the block ends; gives its URL."""
    command = [ISOLATE, SERVER_CORE, goodput, "sim", "fixed", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        said = process.stdout.readline().strip()
        if not said.startswith("listening on "):
            sys.exit(f"the server did not start: {said or 'it said nothing'}")
        yield said.removeprefix("listening on ")
    finally:
        # The process is the server itself, or a setsid that waits for it and passes no signal on.
        for pid in children(process.pid) or [process.pid]:
            os.kill(pid, signal.SIGTERM)
        process.wait()


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
