#!/usr/bin/env python3
"""Holds `goodput-observe` against Prometheus itself: scripts/prometheus/check.py [--bless] [--port N]

1. `promtool check metrics` reads the written pages, and has nothing to say of them that it does not say of the
   pages recorded from the real engines.
2. A real Prometheus scrapes the written pages over 127.0.0.1, in both text formats, at two moments.
3. Every quantile that it computes (histogram_quantile: since the start, over the window between the moments, and
   all series of a family pooled) is the one that our reader computes from the same two pages. How far increase()
   would have moved them is printed.
4. So are those over testdata/prometheus/shapes.txt, whose answers are kept in quantiles.json for the tests; --bless
   writes that file.

Needs cargo and Debian's `prometheus` package: it is taken from PATH, or else fetched with `apt-get download` and
unpacked into target/prometheus, which needs no root.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SHAPES = ROOT / "testdata/prometheus/shapes.txt"
GOLDEN = ROOT / "testdata/prometheus/quantiles.json"
QUANTILES = ["0", "0.01", "0.25", "0.5", "0.9", "0.95", "0.99", "1"]
CONTENT_TYPES = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
# Both compute with the same doubles in the same order.
RELATIVE = 1e-12


def tool(name):
    """Prometheus' own program of this name, unpacked from the Debian package if it is not installed."""
    found = shutil.which(name)
    if found:
        return found
    folder = TARGET / "prometheus"
    program = folder / "usr/bin" / name
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=work, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            package = next(Path(work).glob("prometheus_*.deb"))
            subprocess.run(["dpkg", "-x", package, folder], check=True)
    return str(program)


def build():
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "goodput-observe", "--examples"], cwd=ROOT, check=True)


def example(name, *arguments):
    program = TARGET / "debug/examples" / name
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


class Differences:
    """What was compared, and what was not the same."""

    def __init__(self):
        self.agreed = 0
        self.largest = 0.0
        self.wrong = []

    def compare(self, what, ours, theirs):
        if ours is None or theirs is None:
            same = ours is theirs
        else:
            apart = abs(ours - theirs) / max(abs(ours), abs(theirs), 1e-300)
            same = apart <= RELATIVE
            self.largest = max(self.largest, apart)
        if same:
            self.agreed += 1
        else:
            self.wrong.append(f"{what}: ours {ours}, Prometheus {theirs}")

    def report(self, title):
        print(f"{title}: {self.agreed} quantiles agree, {len(self.wrong)} differ "
              f"(largest relative difference {self.largest:.1e})")
        for line in self.wrong[:20]:
            print("   ", line)
        return not self.wrong


def lint(page):
    """What promtool says of a page: its complaints as a set of (family, complaint)."""
    run = subprocess.run([tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
    if run.returncode not in (0, 3):
        sys.exit(f"promtool cannot read the page: {run.stdout}{run.stderr}")
    return {tuple(line.split(" ", 1)) for line in (run.stdout + run.stderr).splitlines()}


def check_lint(pages):
    """promtool reads every page; the complaints are those that the real engines' pages draw too."""
    fine = True
    for engine in ("vllm", "sglang"):
        real = lint((ROOT / f"testdata/recorded/{engine}_metrics.txt").read_text())
        kinds = {complaint for _, complaint in real}
        families = {family for family, _ in real}
        for moment in ("before", "after"):
            ours = lint(pages[engine, "text", moment])
            # A family that the recorded server had no cause to write may draw a complaint of a kind that others do.
            new = {(f, c) for f, c in ours - real if f in families or c not in kinds}
            print(f"promtool check metrics, {engine} {moment}: read whole, {len(ours)} complaints about the engine's names, "
                  f"{len(new)} that the real page does not draw")
            fine &= not new
            for family, complaint in sorted(new):
                print("   ", family, complaint)
    return fine


class Pages(BaseHTTPRequestHandler):
    """Serves /JOB/metrics from a table that the main thread changes."""

    table = {}

    def do_GET(self):
        kind, body = self.table.get(self.path, (None, ""))
        self.send_response(200 if kind else 404)
        self.send_header("content-type", kind or "text/plain")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Prometheus:
    """A real Prometheus over pages that this process serves."""

    def __init__(self, work, port, jobs):
        server = ThreadingHTTPServer(("127.0.0.1", port), Pages)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.api = f"http://127.0.0.1:{port + 1}/api/v1/query"
        scrape = [
            {"job_name": job, "metrics_path": f"/{job}/metrics", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for job in jobs
        ]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": scrape}
        # JSON is YAML.
        (work / "prometheus.yml").write_text(json.dumps(config))
        self.log = open(work / "prometheus.log", "w")
        self.process = subprocess.Popen(
            [tool("prometheus"), f"--config.file={work / 'prometheus.yml'}", f"--storage.tsdb.path={work / 'data'}",
             f"--web.listen-address=127.0.0.1:{port + 1}"],
            stdout=self.log, stderr=self.log)

    def query(self, expression, at=None):
        form = {"query": expression} | ({"time": f"{at:.3f}"} if at else {})
        with urllib.request.urlopen(self.api, urllib.parse.urlencode(form).encode(), timeout=10) as reply:
            return json.load(reply)["data"]["result"]

    def wait_for(self, expression, seconds=30):
        """The first answer to `expression` that is not empty."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                found = self.query(expression)
                if found:
                    return found
            except OSError:
                if self.process.poll() is not None:
                    break
            time.sleep(0.2)
        sys.exit(f"Prometheus gave no answer to {expression}; its log:\n{Path(self.log.name).read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def by_labels(result):
    """A vector as a dictionary from labels (those that Prometheus adds left out) to number; NaN is None."""
    found = {}
    for series in result:
        labels = frozenset((k, v) for k, v in series["metric"].items() if k not in ("job", "instance", "__name__"))
        value = float(series["value"][1])
        found[labels] = None if math.isnan(value) else value
    return found


def ours(before, after, form):
    """What our reader says: {(family, labels or None): {q: interpolated}}."""
    lines = [json.loads(line) for line in example("window", before, after, form, *QUANTILES).splitlines()]
    table = {}
    for line in lines:
        labels = frozenset(line["labels"].items()) if line.get("labels") is not None else None
        quantiles = {q: found["interpolated"] for q, found in zip(QUANTILES, line.get("quantiles", []))}
        table[line["family"], labels] = quantiles
    return table


def compare(prometheus, table, buckets, found, at):
    """Every quantile in `table` against what Prometheus says of `buckets` (an expression over {family}_bucket)."""
    families = sorted({family for family, _ in table})
    for family in families:
        single = {labels: qs for (f, labels), qs in table.items() if f == family and labels is not None}
        pooled = table.get((family, None))
        expression = buckets.replace("FAMILY", family)
        for q in QUANTILES:
            theirs = by_labels(prometheus.query(f"histogram_quantile({q}, {expression})", at))
            for labels, qs in single.items():
                found.compare(f"{family}{sorted(labels)} q={q}", qs[q], theirs.get(labels))
            if pooled:
                summed = prometheus.query(f"histogram_quantile({q}, sum by (le) ({expression}))", at)
                found.compare(f"{family} pooled q={q}", pooled[q], by_labels(summed).get(frozenset()))


def check_engines(prometheus, work, pages):
    fine = True
    jobs = [(engine, form) for engine in ("vllm", "sglang") for form in ("text", "openmetrics")]
    counts = {"vllm": "vllm:request_success_total", "sglang": "sglang:num_requests_total"}
    first = max(float(prometheus.wait_for(f'timestamp({counts[e]}{{job="{e}-{f}"}})')[0]["value"][1]) for e, f in jobs)
    # A second scrape of the first moment, so that `increase` has samples on both sides of the change.
    for engine, form in jobs:
        prometheus.wait_for(f'timestamp({counts[engine]}{{job="{engine}-{form}"}}) > {first}')
    middle = time.time()
    for engine, form in jobs:
        Pages.table[f"/{engine}-{form}/metrics"] = (CONTENT_TYPES[form], pages[engine, form, "after"])
    for engine, form in jobs:
        selector = f'{counts[engine]}{{job="{engine}-{form}"}}'
        prometheus.wait_for(f"sum({selector}) > sum({selector} @ {middle:.3f})")
    now = time.time()
    for engine, form in jobs:
        name = f"{engine}-{form}"
        files = {moment: work / f"{name}-{moment}" for moment in ("before", "after", "nothing")}
        for moment in ("before", "after"):
            files[moment].write_text(pages[engine, form, moment])
        files["nothing"].write_text("")
        bucket = f'FAMILY_bucket{{job="{name}"}}'
        found = Differences()
        compare(prometheus, ours(files["nothing"], files["after"], form), bucket, found, now)
        fine &= found.report(f"{name}, since the start")
        # A series that the first page does not have yet began at 0.
        window = f"(({bucket} - {bucket} @ {middle:.3f}) or {bucket})"
        table = ours(files["before"], files["after"], form)
        found = Differences()
        compare(prometheus, table, window, found, now)
        fine &= found.report(f"{name}, window")
        if engine == "vllm":
            # increase() extrapolates every bucket to the window's borders on its own, and not below 0, so that buckets
            # grow by different factors. That is no error of ours, and worth knowing.
            found = Differences()
            compare(prometheus, table, f"increase({bucket}[5m])", found, now)
            print(f"{name}, increase(): {len(found.wrong)} of {len(found.wrong) + found.agreed} quantiles move with its "
                  f"extrapolation, by up to {found.largest:.1%}")
    return fine


def check_shapes(prometheus, work, bless):
    (work / "nothing").write_text("")
    prometheus.wait_for("shape_usual_bucket")
    now = time.time()
    golden = {}
    families = [line.split()[2] for line in SHAPES.read_text().splitlines() if line.startswith("# TYPE")]
    for family in families:
        answers = {q: prometheus.query(f"histogram_quantile({q}, {family}_bucket)", now) for q in QUANTILES}
        golden[family] = {q: by_labels(found).get(frozenset()) for q, found in answers.items()}
    text = json.dumps(golden, indent=1) + "\n"
    if bless:
        GOLDEN.write_text(text)
    kept = json.loads(GOLDEN.read_text())
    table = ours(work / "nothing", SHAPES, "text")
    found = Differences()
    for family, answers in golden.items():
        mine = table.get((family, frozenset()), table.get((family, None), {}))
        for q, theirs in answers.items():
            found.compare(f"{family} q={q}", mine.get(q), theirs)
            found.compare(f"{family} q={q}, kept in quantiles.json", kept.get(family, {}).get(q), theirs)
    return found.report("shapes")


def main():
    parser = argparse.ArgumentParser(description="Holds goodput-observe against Prometheus itself.")
    parser.add_argument("--bless", action="store_true", help="write testdata/prometheus/quantiles.json anew")
    parser.add_argument("--port", type=int, default=21500, help="this port and the next one are used (21500)")
    arguments = parser.parse_args()
    began = time.monotonic()
    build()
    pages = {
        (engine, form, moment): example("simulated_page", engine, form, moment)
        for engine in ("vllm", "sglang")
        for form in CONTENT_TYPES
        for moment in ("before", "after")
    }
    fine = check_lint(pages)
    for (engine, form, moment), page in pages.items():
        if moment == "before":
            Pages.table[f"/{engine}-{form}/metrics"] = (CONTENT_TYPES[form], page)
    Pages.table["/shapes/metrics"] = (CONTENT_TYPES["text"], SHAPES.read_text())
    jobs = [path.split("/")[1] for path in Pages.table]
    with tempfile.TemporaryDirectory() as folder:
        prometheus = Prometheus(Path(folder), arguments.port, jobs)
        try:
            fine &= check_shapes(prometheus, Path(folder), arguments.bless)
            fine &= check_engines(prometheus, Path(folder), pages)
        finally:
            prometheus.stop()
    print(f"{'all agree' if fine else 'DIFFERENCES'}, in {time.monotonic() - began:.0f} s")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
