"""One run of one client against the exact server, and everything that is measured from outside. Standard library only, Linux.

The server runs on one core and the client's whole process tree on another, each in a session of its own with raised weight
(isolate.sh). What the client costs is the CPU time of its tree from the first arrival to the last write, both by the server's
clock, so that imports, preparation and reports count for nobody. Truth is the server's: `GET /truth`.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import gaps
from clients import GAPS, REPORTED, Job
from install import HERE

ISOLATE = HERE.parent / "isolate.sh"
SERVER_CORE, CLIENT_CORE = 0, 1
LIMIT_S = 240
CPU_EVERY_S, TREE_EVERY_S, MEMORY_EVERY_S = 0.01, 0.1, 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A run that gave no result, and why."""


class Server:
    """`goodput sim fixed` for one run."""

    def __init__(self, binary, load):
        argv = [str(ISOLATE), str(SERVER_CORE), str(binary), "sim", "fixed", "--port", "0", "--tokens", str(load.tokens)]
        argv += ["--ttft", f"{load.ttft_ms}ms", "--itl", f"{load.itl_ms}ms"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        heading = self.process.stdout.readline()
        address = re.search(r"http://[0-9.:]+", heading)
        if address is None:
            raise Failed(f"the server did not start: {heading}{self.process.stdout.read()}")
        self.url = address.group()

    def ask(self, path):
        """One of its pages."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


def session_members(leader):
    """All processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.getsid(int(name)) == leader:
                found.append(int(name))
    return found


def cpu_s(pid):
    """CPU time of a process with all its threads, to the nanosecond: the clock id of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def pss_mb(pid):
    """Memory of a process, pages shared with others counted in part."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def busy_s():
    """Busy time of all cores since the start of the machine."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS_PER_S


class Watch(threading.Thread):
    """Samples the CPU time of a session, of the server and of the machine, and the session's memory, until stopped."""

    def __init__(self, leader, server):
        super().__init__(daemon=True)
        self.leader, self.server = leader, server
        self.done = threading.Event()
        self.each = {}
        self.client, self.others = [], []
        self.peak_mb = 0.0

    def run(self):
        """Samples."""
        next_tree = next_memory = 0.0
        members = []
        while not self.done.wait(CPU_EVERY_S):
            now = time.monotonic()
            if now >= next_tree:
                members, next_tree = session_members(self.leader), now + TREE_EVERY_S
                with contextlib.suppress(OSError):
                    total = self.spent(members) + cpu_s(self.server)
                    self.others.append((time.time_ns(), busy_s() - total))
            self.client.append((time.time_ns(), self.spent(members)))
            if now >= next_memory:
                self.peak_mb, next_memory = max(self.peak_mb, self.memory(members)), now + MEMORY_EVERY_S

    def spent(self, members):
        """CPU time of the session so far. A process that has ended keeps what was last seen of it."""
        for pid in members:
            with contextlib.suppress(OSError):
                self.each[pid] = cpu_s(pid)
        return sum(self.each.values())

    @staticmethod
    def memory(members):
        """Memory of the session now."""
        total = 0.0
        for pid in members:
            with contextlib.suppress(OSError):
                total += pss_mb(pid)
        return total


def between(samples, start_ns, end_ns):
    """Growth of a sampled total between two instants, linear between samples."""
    return at(samples, end_ns) - at(samples, start_ns)


def at(samples, instant_ns):
    """A sampled total at an instant."""
    before = samples[0]
    for sample in samples:
        if sample[0] >= instant_ns:
            share = (instant_ns - before[0]) / ((sample[0] - before[0]) or 1)
            return before[1] + max(0.0, share) * (sample[1] - before[1])
        before = sample
    return before[1]


def call(client, place, job, server, log):
    """Runs the client to its end. Gives the watch on it and the instant when it was started, Unix ns."""
    argv = [str(ISOLATE), str(CLIENT_CORE), *client.command(place, job)]
    started = time.time_ns()
    with open(log, "w") as output:
        process = subprocess.Popen(
            argv, cwd=job.folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, **client.environment}
        )
        watch = Watch(process.pid, server.process.pid)
        watch.start()
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            watch.done.set()
            watch.join()
            # The session is ours, and what a client leaves behind in it would disturb the next.
            for pid in session_members(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    if code is None:
        raise Failed(f"it had not ended after {LIMIT_S} s")
    return watch, started, code


def measure(binary, client, place, load, tokenizer, keep=None):
    """One run: a row of results. Its folder is moved to `keep`, if that is given."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="goodput-peers-"))
    server = None
    try:
        server = Server(binary, load)
        job = Job(load, load.requests[client.speed], server.url, folder, tokenizer)
        watch, started, code = call(client, place, job, server, folder / "log")
        truth, arrivals = server.ask("/truth"), server.ask("/truth/arrivals")["unix_ns"]
        try:
            reported = client.read(job)
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            words = " ".join((folder / "log").read_text().split())[-300:]
            raise Failed(f"no result (exit {code}, {type(error).__name__}): {words}") from error
        return row(client, job, reported, truth, arrivals, watch, started)
    finally:
        if server:
            server.stop()
        if keep:
            shutil.move(folder, keep)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def row(client, job, reported, truth, arrivals, watch, started):
    """All figures of a run. Times in ms where the name does not say otherwise, memory in MiB."""
    first, last = truth["arrivals"]["first_unix_ns"], truth["last_write_unix_ns"]
    if not first or not last or last <= first:
        raise Failed("no answer was served")
    window = (last - first) / 1e9
    spent = between(watch.client, first, last)
    true_itl = truth["itl_ms"] if client.itl == GAPS else truth["tpot_ms"]
    true = {"ttft_p50": truth["ttft_ms"]["p50"], "ttft_p99": truth["ttft_ms"]["p99"]}
    true |= {"itl_p50": true_itl["p50"], "itl_p99": true_itl["p99"]}
    return {
        "client": client.name,
        "load": job.load.name,
        "asked_requests": job.requests,
        "arrived": truth["requests"]["arrived"],
        "completed": reported["completed"],
        "sent_per_s": truth["arrivals"]["rate_per_s"] if job.load.rate_per_s else truth["requests"]["finished"] / window,
        "gaps": gaps.law(arrivals) if job.load.rate_per_s else None,
        "window_s": window,
        "chunks_per_s": truth["chunks"] / window,
        "cpu_us_per_chunk": 1e6 * spent / truth["chunks"],
        "core_used": spent / window,
        "peak_pss_mb": watch.peak_mb,
        "start_s": (first - started) / 1e9,
        "in_flight_peak": truth["requests"]["in_flight_peak"],
        # Asking for the truth took one.
        "connections": truth["connections"]["accepted"] - 1,
        "itl_is": client.itl,
        "true": true,
        "reported": {name: reported[name] for name in REPORTED},
        "error": {name: reported[name] - true[name] for name in REPORTED},
        "server_lateness_p99_us": truth["lateness_us"]["p99"],
        "others_cores": max(0.0, between(watch.others, first, last) / window),
        "notes": reported["notes"],
    }
