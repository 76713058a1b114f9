"""The tables of check.py: one row a run, as text while it goes on and as markdown at the end. Standard library only."""

import dataclasses

COLUMNS = (
    "protocol", "load", "asked/s", "sent/s", "ok / sent", "prompt tokens", "server's", "output tokens", "server's",
    "TTFT p50 ms", "p99", "mean", "server's mean", "ITL p50 ms", "peak", "late p99 ms", "result",
)  # fmt: skip
WIDTHS = (18, 9, 7, 7, 9, 13, 8, 13, 8, 11, 8, 8, 13, 10, 4, 11, 7)


@dataclasses.dataclass
class Report:
    """Everything seen of one server."""

    engine: object
    version: str
    results: list
    ready_after_s: float | None = None


def figure(value, digits=1):
    """A number for a table cell; an absent one is a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def cells(checked):
    """One run as table cells, in the order of COLUMNS."""
    summary, server = checked.summary, checked.server
    result = "differs" if checked.problems else "agrees"
    if summary is None or "ttft" not in summary.get("metrics", {}):
        return [checked.protocol, checked.load.name, *["-"] * (len(COLUMNS) - 3), result]
    ttft, itl = summary["metrics"]["ttft"], summary["metrics"]["itl"]
    inside = 1e3 * server["ttft_s"] / server["ttft_n"] if server.get("ttft_n") else None
    return [
        checked.protocol,
        checked.load.name,
        figure(summary["load"]["asked_rps"], 2),
        figure(summary["load"]["offered_rps"], 2),
        f"{summary['counts']['ok']} / {summary['counts']['issued']}",
        str(summary["tokens"]["input"]),
        figure(server.get("input"), 0),
        str(summary["tokens"]["output"]),
        figure(server.get("output"), 0),
        figure(ttft["p50"]["value"]),
        figure(ttft["p99"]["value"]),
        figure(ttft["mean"]),
        figure(inside),
        figure(itl["p50"]["value"]),
        str(summary["concurrency"]["peak"]),
        figure((summary["load"].get("lateness_ms") or {}).get("p99"), 2),
        result,
    ]


def line(values):
    """Cells in columns of fixed width, words left and numbers right."""
    padded = [value.ljust(width) if i < 2 else value.rjust(width) for i, (value, width) in enumerate(zip(values, WIDTHS))]
    return "  ".join(padded).rstrip()


def print_head(engine, version):
    """The engine's title and the table head."""
    print(f"\n{engine.title} {version}\n{line(COLUMNS)}", flush=True)


def print_row(checked):
    """One run, as soon as it is known."""
    print(line(cells(checked)), flush=True)


def problems(reports):
    """Every problem with the run it belongs to."""
    return [
        f"{report.engine.title} {checked.protocol} {checked.load.name}: {problem}"
        for report in reports
        for checked in report.results
        for problem in checked.problems
    ]


def markdown(reports):
    """All reports as markdown: a heading and a table an engine, then what did not hold."""
    out = []
    for report in reports:
        ready = f", ready after {report.ready_after_s:.1f} s" if report.ready_after_s is not None else ""
        out += [f"### {report.engine.title} {report.version}{ready}", ""]
        out += [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
        out += [f"| {' | '.join(cells(checked))} |" for checked in report.results]
        out += ["", f"{sum(checked.wall_s for checked in report.results):.0f} s of runs in all.", ""]
    found = problems(reports)
    out += ["What did not agree:", "", *(f"- {problem}" for problem in found)] if found else ["Everything agreed."]
    return "\n".join(out) + "\n"
