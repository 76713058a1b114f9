"""Tests of the check itself, without any tool: `python3 -m unittest discover scripts/rulers`."""

import json
import unittest
import urllib.error
import urllib.request

import check
import peers
import scripted
import shapes

PLAIN = {
    "completed": 24, "failed": 0, "output tokens": 192, "ITL samples": 168,
    "TTFT": 150.0, "TPOT": 40.0, "ITL": 40.0, "E2E": 430.0,
    "peak in flight": 12, "peak output": 80,
}  # fmt: skip


def peer(name):
    return peers.Peer(name, ("tool",), "tokenizer", True)


def compared(theirs, ours, name="vllm", shape=None):
    shape = shape or shapes.Shape("plain", shapes.CHAT)
    return check.compare(peer(name), shape, {**PLAIN, **theirs}, {name: {**PLAIN, **ours}, "canonical": PLAIN})


class Comparison(unittest.TestCase):
    def test_counts_are_exact_and_times_are_not(self):
        self.assertEqual(compared({"TTFT": 152.0, "peak in flight": 16}, {}).verdict(), "agrees")
        self.assertIn("peak in flight", compared({"peak in flight": 4}, {}).verdict())
        self.assertIn("ITL samples", compared({"ITL samples": 167}, {}).verdict())
        self.assertIn("TTFT", compared({"TTFT": 155.0}, {}).verdict())

    def test_one_event_in_eight_is_seen(self):
        self.assertIn("ITL 35", compared({"ITL": 35.0}, {}).verdict())

    def test_nothing_is_nothing_however_it_is_written(self):
        self.assertEqual(compared({"TPOT": 0.0}, {"TPOT": None}).verdict(), "agrees")

    def test_other_rulers_that_would_not_have_passed_are_named(self):
        self.assertEqual(compared({"ITL": 35.0}, {"ITL": 35.0}).told_apart, ["canonical"])
        self.assertEqual(compared({}, {}).told_apart, [])

    def test_a_stated_difference_has_to_be_there(self):
        shape = shapes.Shape("x", shapes.CHAT, stated=(shapes.Stated(("vllm",), ("ITL",), "because"),))
        self.assertEqual(compared({"ITL": 35.0}, {}, shape=shape).verdict(), "differs as stated")
        self.assertIn("agrees although", compared({}, {}, shape=shape).verdict())
        self.assertIn("TTFT", compared({"ITL": 35.0, "TTFT": 90.0}, {}, shape=shape).verdict())
        self.assertIn("ITL", compared({"ITL": 35.0}, {}, name="vllm-rs", shape=shape).verdict())

    def test_failed_requests_give_no_samples(self):
        found = {"completed": 1, "total_output_tokens": 3, "itls": [[0.1, 0.1], [0.1]], "errors": ["", "reset"]}
        found |= {f"mean_{m}_ms": 1.0 for m in ("ttft", "tpot", "itl", "e2el")}
        found |= {"max_concurrent_requests": 1, "max_output_tokens_per_s": 3}
        self.assertEqual(peer("vllm").read(found)["ITL samples"], 2)


class Shapes(unittest.TestCase):
    def test_names_are_unique_and_statements_name_what_exists(self):
        keys = [shape.key() for shape in shapes.SHAPES]
        self.assertEqual(len(keys), len(set(keys)))
        for stated in (s for shape in shapes.SHAPES for s in shape.stated):
            self.assertLessEqual(set(stated.figures), {*check.FIGURES, "result"})

    def test_sglang_has_two_rulers(self):
        self.assertEqual(peer("sglang-rust").ruler(shapes.NATIVE), "sglang")
        self.assertEqual(peer("sglang").ruler(shapes.CHAT), "sglang-oai")
        self.assertFalse(peer("vllm").plays(shapes.Shape("plain", shapes.NATIVE)))


class Scripted(unittest.TestCase):
    def test_the_script_is_played_and_other_pages_are_absent(self):
        with scripted.playing(((0, {"a": 1}), (20, "[DONE]"))) as url:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/generate", b"{}")) as answer:
                self.assertEqual(answer.read(), b'data: {"a": 1}\n\ndata: [DONE]\n\n')
            with urllib.request.urlopen(f"{url}/v1/models") as answer:
                self.assertEqual(json.load(answer)["data"][0]["id"], "mock")
            with self.assertRaises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{url}/server_info")


if __name__ == "__main__":
    unittest.main()
