#!/usr/bin/env python3
"""Tests of the checks themselves: each must pass what is right and name what is not. Run: python3 test_check.py"""

import copy
import types
import unittest

import check
import serving
import tables
import verdicts

PAGE = """# HELP vllm:request_success_total Count.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 4.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 5.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="tiny"} 1.8e+09
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1.2e+02
vllm:prompt_tokens_cached_total{engine="0",model_name="tiny"} 7.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 113.0
"""


def distribution(low, middle, high):
    """One metric of a summary, with the interval of p50 around its value."""
    return {
        "mean": middle,
        "min": low,
        "max": high,
        "p50": {"value": middle, "low": low, "high": high},
        "p99": {"value": high, "low": middle, "high": None},
    }


def summary():
    """A summary that agrees with itself: 7 requests of 10 prompt and 4 output tokens."""
    return {
        "schema": "goodput.summary/1.0",
        "ruler": "canonical",
        "counts": {"issued": 7, "ok": 7, "outcomes": {name: 7 if name == "ok" else 0 for name in verdicts.OUTCOMES}},
        "window": {},
        "load": {"asked_rps": 2.0, "offered_rps": 1.9, "client_limited": False},
        "throughput": {"requests_per_s": 2.0},
        "concurrency": {"peak": 3},
        "tokens": {"input": 70, "output": 28, "sources": {"server": 7}, "cached_input": None},
        "metrics": {name: distribution(10.0, 20.0, 30.0) for name in verdicts.METRICS},
        "findings": [],
    }


SERVER = {"requests": 7.0, "input": 70.0, "output": 28.0, "cached": 5.0, "ttft_s": 0.105, "ttft_n": 7.0}


class Metrics(unittest.TestCase):
    def test_a_counter_is_summed_over_its_labels_without_the_excluded_ones(self):
        counters = serving.read_counters(PAGE, serving.ENGINES["vllm"].counters)
        self.assertEqual(counters["requests"], 7)
        self.assertEqual(counters["input"], 120)
        self.assertEqual(counters["cached"], 7)
        self.assertEqual(counters["output"], 0)


class Shape(unittest.TestCase):
    def test_a_right_summary_has_no_problems(self):
        self.assertEqual(verdicts.shape_problems(summary()), [])
        self.assertEqual(verdicts.outcome_problems(summary(), 7), [])
        self.assertEqual(verdicts.count_problems(summary(), SERVER), [])
        self.assertEqual(verdicts.ttft_problems(summary(), SERVER), [])

    def test_json_is_strict(self):
        for text in ('{"a": NaN}', '{"a": -Infinity}', "{} {}", "progress\n{}", ""):
            with self.assertRaises(ValueError, msg=text):
                verdicts.parse_strict(text)

    def test_each_contradiction_is_named(self):
        def broken(change):
            changed = copy.deepcopy(summary())
            change(changed)
            return verdicts.shape_problems(changed)

        self.assertIn("lacks tokens", broken(lambda s: s.pop("tokens"))[0])
        self.assertIn("metrics.itl", broken(lambda s: s["metrics"].pop("itl"))[0])
        self.assertIn("add up to 8", broken(lambda s: s["counts"]["outcomes"].update(reset=1))[0])
        self.assertIn("ok is 6", broken(lambda s: s["counts"].update(ok=6))[0])
        self.assertIn("ascend", broken(lambda s: s["metrics"]["ttft"].update(max=25.0))[0])
        self.assertIn("own interval", broken(lambda s: s["metrics"]["ttft"]["p50"].update(low=21.0))[0])


class Agreement(unittest.TestCase):
    def test_a_failed_request_and_an_estimated_count_are_named(self):
        changed = summary()
        changed["counts"]["outcomes"].update(ok=6, timeout=1)
        changed["counts"]["ok"] = 6
        changed["tokens"]["sources"] = {"server": 5, "chunks": 1}
        problems = verdicts.outcome_problems(changed, 8)
        self.assertEqual(len(problems), 3)
        self.assertIn("timeout", problems[1])

    def test_one_token_of_difference_is_named(self):
        self.assertEqual(verdicts.count_problems(summary(), {**SERVER, "output": 29.0}), ["output: goodput 28, server 29"])

    def test_a_counter_that_the_server_lacks_is_not_compared(self):
        self.assertEqual(verdicts.count_problems(summary(), {"output": 28.0}), [])

    def test_a_ttft_below_the_servers_own_is_impossible(self):
        self.assertEqual(len(verdicts.ttft_problems(summary(), {"ttft_s": 0.2, "ttft_n": 7.0})), 1)

    def test_a_queue_must_show(self):
        above = summary()
        above["metrics"]["ttft"] = distribution(10.0, 45.0, 90.0)
        self.assertEqual(verdicts.growth_problems(summary(), above), [])
        self.assertEqual(len(verdicts.growth_problems(above, summary())), 1)


class Refusal(unittest.TestCase):
    def test_the_message_must_name_file_place_entries_and_flag(self):
        told = "error: d/sharegpt.json: broken at byte 1234; 56 whole entries precede it and --salvage uses them"
        right = types.SimpleNamespace(returncode=2, stdout="", stderr=told)
        self.assertEqual(check.refusal_problems(right), [])
        right.stderr = right.stderr.replace("56 whole entries precede it and", "whole entries before it: 56;")
        self.assertEqual(check.refusal_problems(right), [])
        vague = types.SimpleNamespace(returncode=1, stdout="", stderr="error: invalid JSON")
        self.assertEqual(len(check.refusal_problems(vague)), 5)


class Tables(unittest.TestCase):
    def test_a_row_has_a_cell_for_every_column_with_and_without_a_summary(self):
        engine = serving.ENGINES["vllm"]
        good = check.Checked(engine, "openai-chat", check.Load("below", [], 7), summary(), SERVER)
        bad = check.Checked(engine, "openai-chat", check.Load("above", [], 7), problems=["no summary"])
        for checked in (good, bad):
            self.assertEqual(len(tables.cells(checked)), len(tables.COLUMNS))
        page = tables.markdown([tables.Report(engine, "0.32.0", [good, bad])])
        self.assertIn("- vLLM openai-chat above: no summary", page)


if __name__ == "__main__":
    unittest.main()
