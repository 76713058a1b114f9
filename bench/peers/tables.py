#!/usr/bin/env python3
"""Tables of the results of run.py: all of it as Markdown, or the short one of the README.

    tables.py [FILE.json]           the full tables (default: the newest result)
    tables.py --short [FILE.json]   about ten lines

Standard library only.
"""

import argparse
import json
import pathlib
import statistics

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
OURS = "goodput"
# A client whose core was this full could not have done more; what it reports is no longer about the server.
FULL = 0.95
HEAD = (
    "client", "runs", "sent/s", "gap CV", "gap KS", "chunks/s", "CPU us/chunk", "x ours", "core", "memory MiB", "start s",
    "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "in flight", "connections",
)  # fmt: skip
EXPLAINED = """\
- *sent/s*: requests per second by the server's own record of arrivals (closed loop: answers per second). *gap CV*, *gap KS*: coefficient
  of variation of the gaps between arrivals and their distance from the exponential law, with the verdict at 1 % (Stephens 1974).
- *CPU us/chunk*: CPU time of the client's whole process tree from the first arrival to the last byte written, divided by the chunks.
  *core*: the same as a share of one core. *memory*: most of the tree at once (PSS), start and report included. *start s*: from the
  start of the program to the first arrival.
- *TTFT*, *ITL*: what the client itself reports minus the server's truth of the same request or gap, in ms; 0 is right. The truth is the
  time from the arrival of the whole request to the write of its first chunk, and the gaps between writes, pooled over all requests.
- *in flight*: most requests at once, by the server. *connections*: opened during the whole run, and by whatever the client asks first.
- Each figure is the median over the runs; a run's figures are in the JSON."""


def median(rows, *path):
    """Median of a figure over runs; None where a run has none."""
    found = []
    for row in rows:
        for key in path:
            row = row and row[key]
        found.append(row)
    return None if any(value is None for value in found) else statistics.median(found)


def grouped(results):
    """{load: {client: runs}} in the order of the runs."""
    found = {}
    for row in results["runs"]:
        found.setdefault(row["load"], {}).setdefault(row["client"], []).append(row)
    return found


def number(value, digits=0):
    """A figure in a table."""
    return "-" if value is None else f"{value:,.{digits}f}"


def signed(value):
    """An error in ms: two digits where they mean something."""
    return "-" if value is None else f"{value:+,.{2 if abs(value) < 100 else 0}f}"


def law(rows):
    """Verdict on the gaps, if all runs agree on it."""
    if any(row["gaps"] is None for row in rows):
        return "-"
    passed = [row["gaps"]["poisson"] for row in rows]
    verdict = "passes" if all(passed) else "fails" if not any(passed) else f"passes {sum(passed)} of {len(passed)}"
    return f"{median(rows, 'gaps', 'ks'):.3f} {verdict}"


def cells(name, rows, ours):
    """One client's line."""
    cost, base = median(rows, "cpu_us_per_chunk"), median(ours, "cpu_us_per_chunk") if ours else None
    errors = [signed(median(rows, "error", figure)) for figure in ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99")]
    return [
        name, str(len(rows)), number(median(rows, "sent_per_s"), 1), number(median(rows, "gaps", "cv"), 2), law(rows),
        number(median(rows, "chunks_per_s")), number(cost, 2), number(cost / base, 1) if base else "-",
        f"{median(rows, 'core_used'):.0%}", number(median(rows, "peak_pss_mb")), number(median(rows, "start_s"), 1), *errors,
        number(median(rows, "in_flight_peak")), number(median(rows, "connections")),
    ]  # fmt: skip


def remarks(load, rows):
    """What has to be said about one client on one load, from its runs."""
    found = []
    sent, failed = median(rows, "sent_per_s"), median(rows, "asked_requests") - median(rows, "completed")
    full = median(rows, "core_used") >= FULL
    if load["rate_per_s"] and abs(sent / load["rate_per_s"] - 1) > 0.03:
        found.append(f"sent {sent:.0f}/s for {load['rate_per_s']}/s asked")
    if rows[0]["gaps"] and not any(row["gaps"]["poisson"] for row in rows):
        found.append(f"gaps are not exponential (CV {median(rows, 'gaps', 'cv'):.2f})")
    if load["streams"] and load["itl_ms"] and median(rows, "in_flight_peak") < 0.95 * load["streams"]:
        found.append(f"never more than {median(rows, 'in_flight_peak'):.0f} of {load['streams']} in flight")
    if median(rows, "connections") > 1.5 * (load["streams"] or median(rows, "in_flight_peak")):
        found.append(f"{median(rows, 'connections'):.0f} connections for {median(rows, 'arrived'):.0f} requests")
    if failed:
        found.append(f"{failed:.0f} of {median(rows, 'asked_requests'):.0f} requests not completed by its own count")
    if full:
        found.append("its core is full")
    found += said(rows)
    if rows[0]["itl_is"] == "means":
        found.append("its ITL is of each request's mean, and so is the truth here")
    return found


def said(rows):
    """What a client says of its own runs: each kind of note (the words before its colon) once, with how often it came."""
    kinds = {}
    for row in rows:
        for note in row["notes"]:
            kinds.setdefault(note.partition(":")[0], []).append(note)
    return [notes[0] + (f" ({len(notes)} of {len(rows)} runs)" if len(rows) > 1 else "") for notes in kinds.values()]


def truth_line(clients):
    """The server's own view, over all runs of a load: whether it stayed the yardstick."""
    rows = [row for runs in clients.values() for row in runs]
    late, others = ([row[key] for row in rows] for key in ("server_lateness_p99_us", "others_cores"))
    return (
        f"Truth: TTFT p99 {min(row['true']['ttft_p99'] for row in rows):.2f} to {max(row['true']['ttft_p99'] for row in rows):.2f} ms, "
        f"ITL p99 {min(row['true']['itl_p99'] for row in rows):.2f} to {max(row['true']['itl_p99'] for row in rows):.2f} ms, server's own "
        f"lateness p99 {min(late):.0f} to {max(late):.0f} us; rest of the machine {statistics.median(others):.2f} cores "
        f"(at most {max(others):.2f})."
    )


def markdown(results):
    """The whole result."""
    out = [f"# Clients beside each other, {results['date']}", "", results["machine"] + ".", ""]
    out += ["Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".", "", EXPLAINED, ""]
    for name, clients in grouped(results).items():
        load = results["loads"][name]
        out += [f"## {name}: {load['title']}", "", f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
        out += [f"| {' | '.join(cells(client, rows, clients.get(OURS)))} |" for client, rows in clients.items()]
        out += ["", truth_line(clients), ""]
        out += [f"- {client}: {'; '.join(said)}" for client, rows in clients.items() if (said := remarks(load, rows))] + [""]
    if results["absent"]:
        out += ["## Not measured", ""] + [f"- {name}: {why}" for name, why in results["absent"].items()] + [""]
    return "\n".join(out)


def poisson_word(rows):
    """Whether the sent gaps passed as exponential."""
    passed = [row["gaps"]["poisson"] for row in rows]
    return "yes" if all(passed) else "no" if not any(passed) else "in part"


SHORT = (
    ("CPU us/chunk, 1,000 paced", "paced-1000", lambda rows: number(median(rows, "cpu_us_per_chunk"), 1)),
    ("TTFT p99 error, ms", "paced-1000", lambda rows: signed(median(rows, "error", "ttft_p99"))),
    ("ITL p99 error, ms", "paced-1000", lambda rows: signed(median(rows, "error", "itl_p99"))),
    ("memory MiB", "paced-1000", lambda rows: number(median(rows, "peak_pss_mb"))),
    ("chunks/s, 64 batched", "batched-64", lambda rows: number(median(rows, "chunks_per_s"))),
    ("sent at 400/s", "open-400", lambda rows: number(median(rows, "sent_per_s"))),
    ("Poisson", "open-400", poisson_word),
)  # fmt: skip


def short(results):
    """The table of the README."""
    loads = grouped(results)
    head = ["client", *(title for title, _, _ in SHORT)]
    out = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for name, version in results["versions"].items():
        line = [read(loads.get(load, {}).get(name)) if loads.get(load, {}).get(name) else "-" for _, load, read in SHORT]
        out.append(f"| {name} {version} | {' | '.join(line)} |")
    return "\n".join(out) + "\n"


def newest():
    """The result file with the latest date."""
    return max(RESULTS.glob("*-peers.json"))


def main():
    """Prints one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path, help="result of run.py (default: the newest)")
    parser.add_argument("--short", action="store_true", help="the table of the README")
    asked = parser.parse_args()
    results = json.loads((asked.file or newest()).read_text())
    print(short(results) if asked.short else markdown(results), end="")


if __name__ == "__main__":
    main()
