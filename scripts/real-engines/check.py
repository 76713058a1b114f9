#!/usr/bin/env python3
"""Run `goodput run` against real engines and hold its counts against the engines' own metrics.

    check.py [llama] [vllm] [sglang]         start each engine with engines.sh, check, stop it (default: llama)
    check.py --url http://127.0.0.1:9300     check a server that is already running and otherwise idle

For every protocol of the engine: a closed loop with fixed lengths, which also shows what the server can do; random lengths at
a Poisson rate of 0.4 times that; the same at 3 times that; and the ShareGPT conversations, whose prompts are longer, at 0.1
times that. The ShareGPT file is damaged (cut off in the middle), so a run without --salvage must refuse it first. Each run
must send and finish exactly the requests asked for, agree with the growth of the server's counters to the token, and write a
well-formed summary.json that `goodput show` makes again from the run directory; the queue above capacity must show in TTFT.

Prints a table. Exit code 0 if all of it held, 1 if not, 2 if it could not be tried.
Standard library only, Python 3.11. What was seen is summarised in docs/real-engines.md.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import serving
import tables
import verdicts

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "goodput" / "engines"
RUN_LIMIT_S = 600
FIXED_INPUT, FIXED_OUTPUT = 32, 32
OK, BAD_INPUT = 0, 2  # goodput's exit codes


@dataclasses.dataclass
class Load:
    """One load to offer: its name, goodput's flags for it, and the number of requests."""

    name: str
    flags: list[str]
    requests: int


@dataclasses.dataclass
class Checked:
    """One `goodput run` and what was found: `summary` is None when there was none to read."""

    engine: serving.Engine
    protocol: str
    load: Load
    summary: dict | None = None
    server: dict[str, float] = dataclasses.field(default_factory=dict)
    wall_s: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)


class Session:
    """Runs goodput against one server; knows the paths, and keeps every result in order."""

    def __init__(self, options, engine, url, folder):
        self.options = options
        self.engine = engine
        self.url = url
        self.folder = folder
        self.results = []

    def command(self, protocol, load):
        """The `goodput run` of one load as an argument list."""
        return [
            str(self.options.goodput), "run", "--url", self.url, "--model", self.engine.model, "--protocol", protocol,
            "--tokenizer", str(self.options.dir / "tok-smollm2" / "tokenizer.json"), "--seed", str(self.options.seed),
            "--warmup", "0", "--requests", str(load.requests), *load.flags,
            "--out", str(self.out(protocol, load)), "--json", "--quiet",
        ]  # fmt: skip

    def out(self, protocol, load):
        """The folder that holds the run directory of one load."""
        return self.folder / f"{self.engine.key}-{protocol}-{load.name}"

    def execute(self, command):
        """Runs a command to its end; stdout and stderr are text."""
        if self.options.verbose:
            print("+", shlex.join(command), file=sys.stderr)
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)

    def run(self, protocol, load):
        """One measured run with every check that needs no other run; the result is kept and returned."""
        checked = Checked(self.engine, protocol, load)
        self.results.append(checked)
        before = serving.settled_counters(self.url, self.engine)
        started = time.monotonic()
        done = self.execute(self.command(protocol, load))
        checked.wall_s = time.monotonic() - started
        wanted = before["requests"] + load.requests if "requests" in before else None
        after = serving.settled_counters(self.url, self.engine, wanted)
        checked.server = {key: after[key] - before[key] for key in after}
        try:
            checked.summary = verdicts.parse_strict(done.stdout)
        except ValueError as error:
            checked.problems.append(f"exit code {done.returncode}, no summary on stdout ({error}): {one_line(done.stderr)}")
            return checked
        checked.problems += verdicts.shape_problems(checked.summary)
        if not checked.problems:
            checked.problems += self.run_problems(checked, done)
        return checked

    def run_problems(self, checked, done):
        """Exit code, outcomes, counts and stored form of a run whose summary has the right shape."""
        summary = checked.summary
        problems = [] if done.returncode == OK else [f"exit code {done.returncode}: {one_line(done.stderr)}"]
        problems += verdicts.outcome_problems(summary, checked.load.requests)
        problems += verdicts.count_problems(summary, checked.server)
        problems += verdicts.ttft_problems(summary, checked.server)
        return problems + self.stored_problems(checked)

    def stored_problems(self, checked):
        """Whether the run directory holds the summary that was printed, and `goodput show` makes the same one from it again."""
        runs = list(self.out(checked.protocol, checked.load).iterdir())
        if len(runs) != 1:
            return [f"{len(runs)} run directories, expected 1"]
        shown = self.execute([str(self.options.goodput), "show", str(runs[0]), "--json"])
        stored = {"summary.json": (runs[0] / "summary.json").read_text(encoding="utf-8"), "goodput show": shown.stdout}
        problems = []
        for name, text in stored.items():
            try:
                same = verdicts.parse_strict(text) == checked.summary
            except ValueError as error:
                same = f"unreadable ({error})"
            if same is not True:
                problems.append(f"{name} is not the printed summary" if same is False else f"{name} is {same}")
        return problems

    def closed_loop(self, protocol):
        """Every slot of the server busy with requests of one size. Returns the requests per second it could do."""
        load = Load(
            "closed",
            ["--concurrency", str(self.engine.slots), "--data", "random", "--input-tokens", str(FIXED_INPUT),
             "--output-tokens", str(FIXED_OUTPUT), "--ignore-eos"],
            6 * self.engine.slots,
        )  # fmt: skip
        checked = self.run(protocol, load)
        if checked.summary is None or verdicts.shape_problems(checked.summary):
            return None
        tokens = checked.summary["tokens"]
        if tokens["output"] != FIXED_OUTPUT * load.requests:
            checked.problems.append(f"{tokens['output']} output tokens, asked {FIXED_OUTPUT} x {load.requests}")
        # Chat adds the template's tokens to every prompt; the other endpoints get the prompt as it is.
        if protocol != "openai-chat" and tokens["input"] != FIXED_INPUT * load.requests:
            checked.problems.append(f"{tokens['input']} prompt tokens, asked {FIXED_INPUT} x {load.requests}")
        return checked.summary["throughput"]["requests_per_s"]

    def poisson(self, protocol, name, rate, seconds):
        """Random lengths at a Poisson rate (requests per second) for about `seconds`."""
        load = Load(
            name,
            ["--rate", f"{rate:.3g}", "--data", "random", "--input-tokens", "uniform(16,48)", "--output-tokens", "uniform(16,48)",
             "--ignore-eos"],
            max(4 * self.engine.slots, round(rate * seconds)),
        )  # fmt: skip
        return self.run(protocol, load)

    def sharegpt(self, protocol, rate, seconds):
        """Real conversations at a Poisson rate: the damaged file is refused first, then used as far as it is whole."""
        # Chats end where the model ends them. A bare prompt may make it end at once, and an answer without a token is no success.
        ending = [] if protocol == "openai-chat" else ["--ignore-eos"]
        load = Load(
            "sharegpt",
            ["--rate", f"{rate:.3g}", "--data", "sharegpt", "--data-path", str(self.options.dir / "sharegpt.json"),
             "--sharegpt-filter", "vllm", "--output-tokens", str(FIXED_OUTPUT), *ending],
            max(10, round(rate * seconds)),
        )  # fmt: skip
        refused = self.execute(self.command(protocol, load))
        load.flags.append("--salvage")
        checked = self.run(protocol, load)
        checked.problems += refusal_problems(refused)

    def protocol(self, protocol):
        """All loads of one protocol."""
        first = len(self.results)
        self.loads(protocol)
        for checked in self.results[first:]:
            tables.print_row(checked)

    def loads(self, protocol):
        """The four loads, sized by what the first one shows."""
        capacity = self.closed_loop(protocol)
        if not capacity:
            print(f"{self.engine.title} {protocol}: no capacity known, so the other loads are left out", file=sys.stderr)
            return
        below = self.poisson(protocol, "below", 0.4 * capacity, self.options.seconds)
        above = self.poisson(protocol, "above", 3 * capacity, self.options.seconds / 3)
        if below.summary and above.summary and not below.problems + above.problems:
            above.problems += verdicts.growth_problems(below.summary, above.summary)
        self.sharegpt(protocol, 0.1 * capacity, self.options.seconds)


# What the message about a damaged data file must name, and how that is recognised.
REFUSAL = {
    "file": r"sharegpt\.json",
    "byte": r"byte \d+",
    "whole entries": r"\d+ whole entries|whole entries[\w ]*:? \d+",
    "flag": "--salvage",
}


def refusal_problems(refused):
    """Whether a damaged data file was refused with file, place, number of whole entries and the flag that would use them."""
    problems = []
    if refused.returncode != BAD_INPUT or refused.stdout:
        problems.append(f"damaged file: exit code {refused.returncode} and {len(refused.stdout)} bytes on stdout, expected 2 and 0")
    for what, pattern in REFUSAL.items():
        if not re.search(pattern, refused.stderr):
            problems.append(f"damaged file: the message does not name the {what}: {one_line(refused.stderr)}")
    return problems


def one_line(text):
    """What was said on stderr, shortened to one line."""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())[:400] or "(nothing on stderr)"


def check_server(options, engine, url, folder):
    """All protocols of one running server. Returns its description and results."""
    serving.first_stream(url, engine)
    tables.print_head(engine, serving.version(url, engine))
    session = Session(options, engine, url, folder)
    for protocol in engine.protocols:
        if not options.protocol or protocol in options.protocol:
            session.protocol(protocol)
    return tables.Report(engine, serving.version(url, engine), session.results)


def parse_arguments():
    """The command line; paths are made absolute."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help="llama, vllm, sglang")
    parser.add_argument("--url", help="check this running server and start none")
    parser.add_argument("--goodput", type=pathlib.Path, default=REPOSITORY / "target" / "release" / "goodput", help="the binary")
    parser.add_argument("--dir", type=pathlib.Path, default=DEFAULT_FOLDER, help="where engines.sh installed")
    parser.add_argument("--protocol", action="append", help="only this protocol (repeatable)")
    parser.add_argument("--seconds", type=float, default=20, help="how long each open-loop run offers load, about")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--runs", type=pathlib.Path, help="keep the run directories here (default: a folder that is removed)")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables to this file as well")
    parser.add_argument("--verbose", action="store_true", help="print every goodput command line")
    options = parser.parse_args()
    unknown = [key for key in options.engines if key not in serving.ENGINES]
    if unknown or (options.url and options.engines):
        parser.error(f"unknown engine {unknown[0]}" if unknown else "--url takes the engine from the server; name none")
    if options.runs and options.runs.exists() and any(options.runs.iterdir()):
        parser.error(f"{options.runs} is not empty; old run directories would be taken for new ones")
    options.goodput, options.dir = options.goodput.resolve(), options.dir.resolve()
    if not os.access(options.goodput, os.X_OK):
        parser.error(f"{options.goodput} is not there; build it with: cargo build --release")
    if not (options.dir / "sharegpt.json").exists():
        parser.error(f"{options.dir}/sharegpt.json is not there; run: {serving.HERE}/engines.sh install {options.dir} data")
    return options


def check_all(options):
    """The server behind --url, or each named engine in turn."""
    reports = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.runs.resolve() if options.runs else pathlib.Path(scratch)
        if options.url:
            url = options.url.rstrip("/")
            reports.append(check_server(options, serving.identify(url), url, folder))
        else:
            for key in options.engines or ["llama"]:
                with serving.Server(serving.ENGINES[key], options.dir) as server:
                    reports.append(check_server(options, server.engine, server.url, folder))
                    reports[-1].ready_after_s = server.ready_after_s
    return reports


def main():
    options = parse_arguments()
    try:
        reports = check_all(options)
    except (serving.Unavailable, OSError, subprocess.TimeoutExpired) as error:
        print(f"cannot check: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if options.markdown:
        options.markdown.write_text(tables.markdown(reports), encoding="utf-8")
    problems = tables.problems(reports)
    print("\n".join(problems) if problems else "everything agrees")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
