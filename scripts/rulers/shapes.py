"""The byte streams of check.py, as data: what the server is to send, and what each ruler is known not to repeat.

A shape is either the exact server with faults (`goodput sim fixed --fault ...`) or a script of events written here, which
scripted.py plays to every request. Times are far apart on purpose: a bias of one event in eight is 5 ms at 40 ms
between tokens, well outside what a busy machine adds to a mean. Standard library only.
"""

import dataclasses

CHAT, COMPLETIONS, NATIVE = "openai-chat", "openai-completions", "sglang"
PYTHON_VLLM = ("vllm", "vllm-0.32")
TTFT_MS, ITL_MS, TOKENS, REQUESTS, SLOTS = 150, 40, 8, 24, 4

# Figures of a comparison, see check.py.
COUNTS = ("completed", "failed", "output tokens", "ITL samples")
TIMES = ("TTFT", "TPOT", "ITL", "E2E")
FROM_START = ("TTFT", "E2E")
PEAKS = ("peak in flight", "peak output")


@dataclasses.dataclass(frozen=True)
class Stated:
    """A difference that is known: these peers, for this reason. At least one of the figures has to differ; all of them may."""

    peers: tuple
    figures: tuple
    why: str


@dataclasses.dataclass(frozen=True)
class Shape:
    """One byte stream. `script`, if there is one, is a list of (milliseconds, JSON objects or raw text sent at once)."""

    name: str
    protocol: str
    faults: tuple = ()
    tokens: int = TOKENS
    script: tuple = ()
    stated: tuple = ()
    peers: tuple = ()

    def key(self):
        """Name by which --only selects."""
        return f"{self.protocol}/{self.name}"

    def reason(self, peer, figure):
        """Why this peer is known to differ in this figure; None where it has to agree."""
        return next((s.why for s in self.stated if peer in s.peers and figure in s.figures), None)


def delta(finish=None, **fields):
    """A chat event with one choice."""
    choice = {"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [choice]}


def usage(tokens):
    """A chat event without a choice, with usage."""
    counts = {"prompt_tokens": 16, "total_tokens": 16 + tokens, "completion_tokens": tokens}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [], "usage": counts}


def text(content, finish=None):
    """A completions event with one choice."""
    choice = {"index": 0, "text": content, "logprobs": None, "finish_reason": finish}
    return {"id": "c", "object": "text_completion", "created": 1, "model": "mock", "choices": [choice]}


def frame(content, tokens):
    """An event of SGLang's own protocol, with all the text so far."""
    meta = {"id": "g", "finish_reason": None, "prompt_tokens": 16, "completion_tokens": tokens, "cached_tokens": 0}
    return {"text": content, "output_ids": list(range(tokens)), "meta_info": meta}


ROLE = delta(role="assistant", content="")
# SGLang's chat: both fields in every event, a finish event without content, then usage and the end a little later.
SGLANG_CHAT = (
    (150, delta(role="assistant", content="", reasoning_content=None), delta(content="a", reasoning_content=None)),
    (190, delta(content="b", reasoning_content=None)),
    (230, delta(content="c", reasoning_content=None)),
    (270, delta("length", reasoning_content=None)),
    (350, usage(3), "[DONE]"),
)
# llama.cpp's chat: the role with a null content, an empty delta at the end, usage late.
LLAMA_CHAT = (
    (20, delta(role="assistant", content=None)),
    (150, delta(content="a")),
    (190, delta(content="b")),
    (230, delta(content="c")),
    (270, delta("stop")),
    (350, usage(3), "[DONE]"),
)


def thinking(field):
    """A chat in which the first half of the tokens is reasoning, under one of its names."""
    return (
        (150, ROLE, delta(**{field: "a"})),
        (190, delta(**{field: "b"})),
        (230, delta(content="c")),
        (270, delta("stop", content="d"), usage(4), "[DONE]"),
    )


# A token without text in the middle, as engines send for unfinished characters.
EMPTY_TOKEN_CHAT = (
    (150, ROLE, delta(content="a")),
    (190, delta(content="")),
    (230, delta(content="b")),
    (270, delta("length", content="c"), usage(4), "[DONE]"),
)
EMPTY_TOKEN_TEXT = (
    (150, text("a")),
    (190, text("")),
    (230, text("b")),
    (270, text("c", "length"), "[DONE]"),
)
TOOL_CALL = {"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL_CHAT = (
    (150, ROLE, delta(tool_calls=[TOOL_CALL])),
    (190, delta(tool_calls=[{"index": 0, "function": {"arguments": "x"}}])),
    (230, delta("tool_calls", content=""), usage(3), "[DONE]"),
)
# The HTTP body ends as it should, and the answer in it does not: no finish reason, no usage, no [DONE].
EARLY_END_CHAT = ((150, ROLE, delta(content="a")), (190, delta(content="b")), (230, delta(content="c")))
EARLY_END_TEXT = ((150, text("a")), (190, text("b")), (230, text("c")))
EARLY_END_NATIVE = ((150, frame("a", 1)), (190, frame("ab", 2)), (230, frame("abc", 3)))
HALF = "@0.5"
EVERY = ("vllm", "vllm-0.32", "vllm-rs", "sglang", "sglang-rust")
BROKEN_AFTER_FINISH = Stated(
    EVERY,
    (*COUNTS, *TIMES, *PEAKS),
    "the body breaks off after the finish reason: the tool fails the request, goodput's record calls it ok",
)
TEXT_NOT_COUNTED = Stated(
    PYTHON_VLLM,
    ("output tokens", "TPOT"),
    "the tool does not read usage that comes with a choice and counts the text; where usage came, goodput has no other count",
)
RUST_READS_ON = Stated(
    ("sglang-rust",),
    (*COUNTS, *TIMES, *PEAKS),
    "SGLang's Rust client skips the error object and calls the request a success; the ruler restates the Python client",
)
RUST_WANTS_TEXT = Stated(
    ("sglang-rust",),
    (*COUNTS, *TIMES, *PEAKS),
    "SGLang's Rust client fails an answer without text, the Python client, whose ruler this is, calls it a success with a TTFT of 0",
)
COMMENTS = Stated(("sglang",), ("result",), "the tool fails on a comment line, and without one success it writes no result")
EVERY_OPENAI = (CHAT, COMPLETIONS)


def fixed(name, faults="", protocols=EVERY_OPENAI, **rest):
    """The exact server with these faults, once for each protocol."""
    return [Shape(name, p, tuple(faults.split(",")) if faults else (), **rest) for p in protocols]


SHAPES = [
    *fixed("plain", protocols=(CHAT, COMPLETIONS, NATIVE)),
    *fixed("one token", protocols=(CHAT, COMPLETIONS, NATIVE), tokens=1),
    *fixed("empty finish", "empty_finish"),
    *fixed("early role", "early_role", (CHAT,)),
    *fixed("4 tokens a chunk", "tokens_per_chunk=4", (CHAT, COMPLETIONS, NATIVE), tokens=16),
    *fixed("4 events a write", "events_per_write=4", (CHAT, COMPLETIONS, NATIVE), tokens=16),
    *fixed("usage on last", "usage_on_last", stated=(TEXT_NOT_COUNTED,)),
    *fixed("usage on every chunk", "usage_everywhere", stated=(TEXT_NOT_COUNTED,)),
    *fixed("no usage", "no_usage"),
    *fixed("no [DONE]", "no_done", (CHAT, COMPLETIONS, NATIVE)),
    *fixed("error object", "error_after=4" + HALF, (CHAT, NATIVE)),
    *fixed("error object", "error_after=4" + HALF, (COMPLETIONS,), stated=(RUST_READS_ON,)),
    *fixed("cut in the body", "cut_after=4" + HALF, (CHAT, COMPLETIONS, NATIVE)),
    *fixed("reset", "reset_after=4" + HALF, (CHAT, COMPLETIONS, NATIVE)),
    *fixed("refused", "status=503" + HALF, (CHAT, COMPLETIONS, NATIVE)),
    *fixed("cut after the finish", "cut_after=8" + HALF, stated=(BROKEN_AFTER_FINISH,)),
    *fixed("comments", "comments", stated=(COMMENTS,)),
    Shape("body ends early", CHAT, script=EARLY_END_CHAT),
    Shape("body ends early", COMPLETIONS, script=EARLY_END_TEXT),
    Shape("body ends early", NATIVE, script=EARLY_END_NATIVE),
    Shape("SGLang's chat", CHAT, script=SGLANG_CHAT, tokens=3),
    Shape("llama.cpp's chat", CHAT, script=LLAMA_CHAT, tokens=3),
    Shape("reasoning", CHAT, script=thinking("reasoning"), tokens=4),
    Shape("reasoning_content", CHAT, script=thinking("reasoning_content"), tokens=4),
    Shape("token without text", CHAT, script=EMPTY_TOKEN_CHAT, tokens=4),
    Shape("token without text", COMPLETIONS, script=EMPTY_TOKEN_TEXT, tokens=4),
    Shape("tool call", CHAT, script=TOOL_CHAT, tokens=3, stated=(RUST_WANTS_TEXT,)),
]
