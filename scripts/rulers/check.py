#!/usr/bin/env python3
"""Hold goodput's rulers against the tools whose numbers they restate, on the same byte streams.

    check.py --tokenizer DIR [--vllm CMD] [--vllm-0.32 CMD] [--vllm-rs FILE] [--sglang CMD [--sglang-rust]]
             [--only TEXT] [--markdown FILE]

For every tool and every byte stream of shapes.py: starts the server afresh, runs the real tool against it, starts it afresh
again, runs `goodput run` with the same number of requests, slots and tokens, and reads the stored run under the tool's ruler.
Counts must be equal. Mean times must be within max(1.5 ms, 3 %) of each other (TTFT and E2E: 3 %, and at least 3 % of the
server's time to first token), peaks within one wave; the server's times are chosen so that the smallest bias that a ruler
restates is larger than that, and the last column names the other rulers that would not have passed, which shows what the row
is able to see. Times that disagree are measured again, up to --tries: a busy machine disagrees once, a wrong ruler always.
Differences that a ruler admits to (`goodput explain`, "known faults ... not repeated") are stated in shapes.py, and a stated
difference that is not there is a fault of the statement.

CMD is the Python interpreter of the tool's environment, in quotes if it needs a prefix such as `env PYTHONPATH=...`; see
README.md for how to install the tools from PyPI. Exit code 0 if everything held, 1 if not.
Standard library only, Python 3.11. What was seen is in docs/rulers-checked.md.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import peers
import scripted
import shapes

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOODPUT = REPOSITORY / "target" / "release" / "goodput"
TOLERANCE_MS, TOLERANCE_SHARE = 1.5, 0.03
OTHER_RULERS = 5
FIGURES = (*shapes.COUNTS, *shapes.TIMES, *shapes.PEAKS)


@dataclasses.dataclass
class Row:
    """One tool on one byte stream: its figures, the ruler's, and what came of the comparison."""

    peer: peers.Peer
    shape: shapes.Shape
    theirs: dict
    ours: dict
    wrong: list = dataclasses.field(default_factory=list)
    stated: dict = dataclasses.field(default_factory=dict)
    told_apart: list = dataclasses.field(default_factory=list)
    tries: int = 1

    def verdict(self):
        """One word, or the figures that differ."""
        if self.wrong:
            return "DIFFERS: " + "; ".join(self.wrong)
        return "differs as stated" if self.stated else "agrees"


def agree(figure, theirs, ours):
    """Whether two figures are the same. A tool writes 0 where there is nothing; goodput writes null."""
    theirs, ours = theirs or 0.0, ours or 0.0
    if figure in shapes.COUNTS:
        return theirs == ours
    if figure in shapes.FROM_START:
        # A Python client is some milliseconds late from the start to its first token, whatever the server's time.
        return abs(theirs - ours) <= TOLERANCE_SHARE * max(theirs, shapes.TTFT_MS)
    if figure in shapes.TIMES:
        return abs(theirs - ours) <= max(TOLERANCE_MS, TOLERANCE_SHARE * theirs)
    # Peaks are counted in whole seconds from the first start, so one wave of requests or events may fall on either side.
    return abs(theirs - ours) <= max(shapes.SLOTS, 0.1 * theirs)


@contextlib.contextmanager
def server(goodput, shape):
    """A server with the shape's byte stream; gives its address."""
    if shape.script:
        with scripted.playing(shape.script) as address:
            yield address
        return
    argv = [goodput, "sim", "fixed", "--port", "0", "--tokens", str(shape.tokens)]
    argv += ["--ttft", f"{shapes.TTFT_MS}ms", "--itl", f"{shapes.ITL_MS}ms"]
    argv += [flag for fault in shape.faults for flag in ("--fault", fault)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        heading = process.stdout.readline()
        address = re.search(r"http://[0-9.:]+", heading)
        if address is None:
            raise RuntimeError(f"the server did not start: {heading}{process.stdout.read()}")
        yield address.group()
    finally:
        process.terminate()
        process.communicate()


def measure(goodput, peer, shape, folder):
    """The same load from goodput, read under every ruler: {ruler: figures}."""
    name, tokenizer = "ours", pathlib.Path(peer.tokenizer) / "tokenizer.json"
    run = pathlib.Path(folder) / name
    argv = [goodput, "run", "--protocol", shape.protocol, "--model", "mock", "--concurrency", str(shapes.SLOTS)]
    argv += ["--requests", str(shapes.REQUESTS), "--warmup", "0", "--input-tokens", str(peers.PROMPT_TOKENS)]
    argv += ["--output-tokens", str(shape.tokens), "--ignore-eos", "--tokenizer", str(tokenizer), "--salt", "none"]
    argv += ["--quiet", "--out", folder, "--name", name]
    if not peer.sends_usage_option:
        # The server answers what it is asked: without this goodput would get a usage event that the tool does not ask for.
        argv += ["--body", '{"stream_options":null}']
    with server(goodput, shape) as url:
        subprocess.run([*argv, "--url", url], check=False, stdout=subprocess.DEVNULL, timeout=peers.LIMIT_S)
    shown = subprocess.run([goodput, "show", str(run), "--rulers", "--json"], capture_output=True, text=True, check=True)
    return {summary["ruler"]: figures(summary) for summary in json.loads(shown.stdout)}


def figures(summary):
    """The figures of one summary.json, by the same names as the tools'."""

    def mean(metric):
        return summary["metrics"].get(metric, {}).get("mean")

    return {
        "completed": summary["counts"]["ok"],
        "failed": summary["counts"]["issued"] - summary["counts"]["ok"],
        "output tokens": summary["tokens"]["output"],
        "ITL samples": summary["metrics"].get("itl", {}).get("n", 0),
        "TTFT": mean("ttft"),
        "TPOT": mean("tpot"),
        "ITL": mean("itl"),
        "E2E": mean("e2e"),
        "peak in flight": summary["concurrency"]["peak"],
        "peak output": summary["throughput"]["peak_output_tokens_per_s"],
    }


def compare(peer, shape, theirs, by_ruler):
    """A row from two runs."""
    name = peer.ruler(shape.protocol)
    row = Row(peer, shape, theirs, by_ruler[name])
    for figure in FIGURES:
        if agree(figure, theirs[figure], row.ours[figure]):
            continue
        if why := shape.reason(peer.name, figure):
            row.stated[figure] = why
        else:
            row.wrong.append(f"{figure} {number(theirs[figure])} there, {number(row.ours[figure])} here")
    if not row.wrong and not row.stated and any(peer.name in stated.peers for stated in shape.stated):
        row.wrong.append("agrees although it is stated to differ")
    others = [r for r in by_ruler if r != name]
    row.told_apart = [r for r in others if any(not agree(f, theirs[f], by_ruler[r][f]) for f in FIGURES)]
    return row


def check(goodput, peer, shape, tries, run):
    """One tool, which `run` runs, on one shape; tried again while only figures that depend on time disagree."""
    for attempt in range(1, tries + 1):
        with tempfile.TemporaryDirectory(prefix="goodput-rulers-") as folder:
            with server(goodput, shape) as url:
                try:
                    theirs = run(shape, url, folder)
                except RuntimeError as error:
                    theirs = error
            if isinstance(theirs, RuntimeError):
                why = shape.reason(peer.name, "result")
                row = Row(peer, shape, {}, {}, [] if why else [str(theirs)], {"result": why} if why else {})
                break
            row = compare(peer, shape, theirs, measure(goodput, peer, shape, folder))
        row.tries = attempt
        if not row.wrong or any(problem.startswith(shapes.COUNTS) for problem in row.wrong):
            break
    return row


def number(value):
    """A figure in a table."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) and value != int(value) else f"{value:.0f}"


def cells(row):
    """A row of the table: each figure as `theirs / ours`, once where they are equal."""
    pairs = []
    for figure in FIGURES:
        theirs, ours = number(row.theirs.get(figure)), number(row.ours.get(figure))
        pairs.append(theirs if theirs == ours else f"{theirs} / {ours}")
    apart = "all others" if len(row.told_apart) == OTHER_RULERS else ", ".join(row.told_apart) or "none"
    return [row.shape.protocol, row.shape.name, *pairs, row.verdict(), apart]


def markdown(rows, versions):
    """The tables, one for each tool."""
    head = ["protocol", "byte stream", *FIGURES, "verdict", "told apart from"]
    out = [f"Seen on {datetime.date.today()}. Each cell: the tool / the ruler, once where both are equal; times are means in ms."]
    for name, version in versions.items():
        out += ["", f"### {name} ({version})", "", f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
        mine = [row for row in rows if row.peer.name == name]
        out += [f"| {' | '.join(cells(row))} |" for row in mine]
        reasons = dict.fromkeys((row.shape.key(), why) for row in mine for why in row.stated.values())
        out += [""] + [f"- {key}: {why}" for key, why in reasons] if reasons else []
    return "\n".join(out) + "\n"


def selected(row, only):
    """Whether --only lets this row through."""
    return not only or any(text in row for text in only)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goodput", default=str(GOODPUT), help="binary to check (default: target/release/goodput)")
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path, help="folder with a tokenizer.json, for all")
    parser.add_argument("--vllm", metavar="CMD", help="interpreter with vLLM 0.33")
    parser.add_argument("--vllm-0.32", dest="vllm_0_32", metavar="CMD", help="interpreter with vLLM 0.32 or older")
    parser.add_argument("--vllm-rs", metavar="FILE", help="vLLM's Rust client")
    parser.add_argument("--sglang", metavar="CMD", help="interpreter with SGLang")
    parser.add_argument("--sglang-rust", action="store_true", help="also SGLang's own Rust client")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="rows whose tool/protocol/name has TEXT")
    parser.add_argument("--tries", type=int, default=3, help="measurements of times that disagree (default 3)")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables")
    return parser.parse_args()


def main():
    """Runs everything that was asked for."""
    asked = arguments()
    asked.tokenizer = asked.tokenizer.resolve()
    goodput = os.path.abspath(asked.goodput)
    named = peers.peers(asked)
    if not named:
        sys.exit("name at least one tool, see --help")
    versions, rows = {peer.name: peer.version() for peer in named}, []
    for peer in named:
        wanted = [s for s in shapes.SHAPES if peer.plays(s) and selected(f"{peer.name}/{s.key()}", asked.only)]
        with peer.ready() if wanted else contextlib.nullcontext() as run:
            for shape in wanted:
                row = check(goodput, peer, shape, asked.tries, run)
                rows.append(row)
                print(f"{peer.name:11} {' | '.join(cells(row))}" + (f" (try {row.tries})" if row.tries > 1 else ""), flush=True)
    if asked.markdown:
        pathlib.Path(asked.markdown).write_text(markdown(rows, versions))
    wrong = sum(bool(row.wrong) for row in rows)
    print(f"{len(rows)} comparisons, {len(rows) - wrong} as they should be, {wrong} not")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
