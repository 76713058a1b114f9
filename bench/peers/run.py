#!/usr/bin/env python3
"""goodput and other load clients beside each other: the same exact server, the same work, the same core.

    run.py [--only TEXT] [--quick] [--repeats N] [--keep DIR] [--out STEM] [--install]

Installs every client from PyPI (once, into ~/.cache/goodput/peers, about 16 GB of which most is torch), runs each on every load of
loads.py, and writes tables and JSON to bench/results/DATE-peers.{md,json}. The fast clients are run --repeats times in turns, the
others once. A client that cannot be installed or gives no result is a line with the reason. With --only or --quick nothing is
written unless --out says where. Needs Linux, Python 3.11, and target/release/goodput. See README.md.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys

import tables
from clients import clients
from install import HERE, REPOSITORY, Absent, Shelf, tokenizer
from loads import FAST, LOADS
from measure import CLIENT_CORE, SERVER_CORE, Failed, measure

sys.path.insert(0, str(HERE.parent))
import machine  # noqa: E402


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="runs whose `client/load` has TEXT; repeatable")
    parser.add_argument("--quick", action="store_true", help="a quarter of the requests, one run each")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of a fast client on each load (default 3)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep each run's folder: log and result files")
    parser.add_argument("--out", type=pathlib.Path, metavar="STEM", help="write STEM.md and STEM.json")
    parser.add_argument("--install", action="store_true", help="install and stop")
    parser.add_argument("--goodput", type=pathlib.Path, default=REPOSITORY / "target" / "release" / "goodput", metavar="FILE")
    return parser.parse_args()


def installed(every, absent):
    """Where each client is; those that cannot be had go to `absent`."""
    shelf, places = Shelf(), {}
    for client in every:
        try:
            places[client.name] = client.install(shelf)
        except Absent as why:
            absent[client.name] = str(why)
            print(f"{client.name}: {why}", file=sys.stderr, flush=True)
    return places


def turns(chosen, loads, repeats, only):
    """(load, client, turn) in the order of the runs: a load at a time, the fast clients in turns, the others once."""
    for load in loads:
        able = [c for c in chosen if c.speed in load.requests and (not only or any(t in f"{c.name}/{load.name}" for t in only))]
        for turn in range(repeats):
            # Each round begins with another client, so that none always comes first.
            fast = [c for c in able if c.speed == FAST]
            for client in fast[turn % len(fast) :] + fast[: turn % len(fast)] if fast else []:
                yield load, client, turn
        for client in able:
            if client.speed != FAST:
                yield load, client, 0


def progress(row):
    """A line while it goes on."""
    error = " ".join(f"{name} {value:+.3f}" for name, value in row["error"].items())
    cost = f"{row['cpu_us_per_chunk']:7.2f} us/chunk core {row['core_used']:4.0%} {row['peak_pss_mb']:6.0f} MiB"
    rate = f"{row['sent_per_s']:9.1f}/s {row['chunks_per_s']:9.0f} chunks/s"
    print(f"  {rate} {cost}  {error}  others {row['others_cores']:.2f}", flush=True)


def collect(asked, every, places, absent, names):
    """Runs everything with the tokenizer in folder `names`; gives the result so far after each run, so that a stop loses one run."""
    loads = [load.quick() for load in LOADS] if asked.quick else LOADS
    ours = subprocess.run([str(asked.goodput), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    results = {
        "date": machine.today(),
        "machine": machine.facts(),
        "versions": {c.name: c.pin.partition("==")[2] or ours for c in every if c.name in places},
        "loads": {load.name: {**dataclasses.asdict(load), "title": load.title()} for load in loads},
        "absent": absent,
        "runs": [],
    }
    chosen = [client for client in every if client.name in places]
    for load, client, turn in turns(chosen, loads, 1 if asked.quick else asked.repeats, asked.only):
        print(f"{datetime.datetime.now():%H:%M:%S} {load.name} {client.name} {turn + 1}", flush=True)
        keep = asked.keep and asked.keep / f"{load.name}-{client.name.replace(', ', '-')}-{turn + 1}"
        try:
            row = measure(asked.goodput, client, places[client.name], load, names, keep)
        except (Failed, OSError) as why:
            absent[f"{client.name}, {load.name}"] = str(why)
            print(f"  no result: {why}", flush=True)
            continue
        results["runs"].append(row)
        progress(row)
        yield results


def write(stem, results):
    """Both files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_name(stem.name + ".json").write_text(json.dumps(results, indent=1) + "\n")
    stem.with_name(stem.name + ".md").write_text(tables.markdown(results))


def main():
    """Installs, runs, writes."""
    asked = arguments()
    asked.goodput = asked.goodput.resolve()
    if not asked.goodput.exists():
        sys.exit(f"there is no {asked.goodput}: cargo build --release, or --goodput FILE")
    absent, every = {}, clients(asked.goodput)
    wanted = [c for c in every if not asked.only or any(t in f"{c.name}/{load.name}" for t in asked.only for load in LOADS)]
    places = installed(wanted, absent)
    if asked.install:
        return
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    # This script's own work belongs on neither core if there is a third, and never on the client's.
    os.sched_setaffinity(0, (os.sched_getaffinity(0) - {SERVER_CORE, CLIENT_CORE}) or {SERVER_CORE})
    stem = asked.out or (None if asked.only or asked.quick else tables.RESULTS / f"{machine.today()}-peers")
    results = None
    try:
        for results in collect(asked, wanted, places, absent, tokenizer()):
            if stem:
                write(stem, results)
    except Absent as why:
        sys.exit(f"no tokenizer, which all clients need: {why}")
    if results is None:
        sys.exit("nothing was measured")
    print(tables.markdown(results))
    if stem:
        print(f"written to {stem}.md and .json", file=sys.stderr)


if __name__ == "__main__":
    main()
