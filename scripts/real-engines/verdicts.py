"""What must hold of one `goodput run` and its summary.json; every function returns the list of things that do not.

Used by check.py; standard library only, no input or output. The names are those of summary.json, schema goodput.summary/1.
"""

import json
import math

OUTCOMES = (
    "ok", "http_error", "stream_error", "aborted", "truncated", "no_tokens", "short_output", "timeout", "connect",
    "reset", "protocol", "cancelled",
)  # fmt: skip
REQUIRED = {
    "schema": str,
    "ruler": str,
    "counts": dict,
    "window": dict,
    "load": dict,
    "throughput": dict,
    "concurrency": dict,
    "tokens": dict,
    "metrics": dict,
    "findings": list,
}
METRICS = ("ttft", "tpot", "itl", "e2e")


def parse_strict(text):
    """The one JSON document that `text` is; NaN, Infinity, a second document or other text around it raise ValueError."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def shape_problems(summary):
    """Whether the summary has every member that its schema promises, and no figure contradicts another."""
    missing = [key for key, kind in REQUIRED.items() if not isinstance(summary.get(key), kind)]
    missing += [f"metrics.{name}" for name in METRICS if name not in summary.get("metrics", {})]
    if missing:
        return [f"summary.json lacks {', '.join(missing)}"]
    problems = []
    if not summary["schema"].startswith("goodput.summary/1."):
        problems.append(f"schema is {summary['schema']!r}")
    counts = summary["counts"]
    if sorted(counts["outcomes"]) != sorted(OUTCOMES):
        problems.append(f"outcomes are {sorted(counts['outcomes'])}")
    if sum(counts["outcomes"].values()) != counts["issued"]:
        problems.append(f"outcomes add up to {sum(counts['outcomes'].values())}, issued is {counts['issued']}")
    if counts["outcomes"].get("ok") != counts["ok"]:
        problems.append(f"outcomes.ok is {counts['outcomes'].get('ok')}, ok is {counts['ok']}")
    for name, metric in summary["metrics"].items():
        problems += order_problems(name, metric)
    return problems


def order_problems(name, metric):
    """Whether min, the percentiles in order, and max of one distribution ascend, and each interval holds its value."""
    percentiles = sorted(
        (float(key[1:]), value) for key, value in metric.items() if isinstance(value, dict) and key.startswith("p")
    )
    values = [metric["min"], *(quantile["value"] for _, quantile in percentiles), metric["max"]]
    known = [value for value in values if value is not None]
    problems = []
    if known != sorted(known):
        problems.append(f"{name}: min, percentiles and max do not ascend: {known}")
    for percent, quantile in percentiles:
        low, value, high = quantile["low"], quantile["value"], quantile["high"]
        if value is not None and not (low or -math.inf) <= value <= (math.inf if high is None else high):
            problems.append(f"{name} p{percent:g}: {value} lies outside its own interval {low} to {high}")
    return problems


def outcome_problems(summary, requests):
    """Whether exactly `requests` were sent and each has a whole answer with the server's own token count."""
    counts = summary["counts"]
    problems = []
    if counts["issued"] != requests:
        problems.append(f"{counts['issued']} requests issued, {requests} asked")
    failed = {name: count for name, count in counts["outcomes"].items() if count and name != "ok"}
    if failed:
        problems.append(f"not all ok: {failed}")
    counted_by_server = summary["tokens"]["sources"].get("server", 0)
    if counted_by_server != counts["ok"]:
        problems.append(f"only {counted_by_server} of {counts['ok']} output counts are the server's")
    return problems


def count_problems(summary, server):
    """Whether requests and tokens equal what the server's counters grew by; `server` holds those it has."""
    mine = {
        "requests": summary["counts"]["ok"],
        "input": summary["tokens"]["input"],
        "output": summary["tokens"]["output"],
        "cached": summary["tokens"].get("cached_input"),
    }
    return [
        f"{name}: goodput {mine[name]}, server {server[name]:.0f}"
        for name in mine
        if name in server and mine[name] is not None and mine[name] != server[name]
    ]


def ttft_problems(summary, server):
    """Whether the mean TTFT is at least the server's own, which leaves out the network and the front end's parsing."""
    if not server.get("ttft_n"):
        return []
    inside, outside = 1e3 * server["ttft_s"] / server["ttft_n"], summary["metrics"]["ttft"]["mean"]
    if outside is None or outside < inside:
        return [f"mean TTFT {outside} ms is below the server's own {inside:.3f} ms"]
    return []


def growth_problems(below, above, factor=2.0):
    """Whether the median TTFT above capacity is at least `factor` times that below it: a queue must be visible."""
    low, high = (summary["metrics"]["ttft"]["p50"]["value"] for summary in (below, above))
    if low is None or high is None or high < factor * low:
        return [f"TTFT p50 went from {low} ms below capacity to {high} ms above it, expected {factor:g} times as much"]
    return []
