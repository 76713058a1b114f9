"""The loads of run.py, as data. Standard library only.

Batched: the server sends a whole answer at once, so that the client's parser is the limit. Paced: first token after 50 ms, then
one every 10 ms, which is what an engine does; truth is the same for every request. Open: the same answers at Poisson arrivals.
"""

import dataclasses

PROMPT_TOKENS = 64
FAST, MIDDLE, SLOW = "fast", "middle", "slow"


@dataclasses.dataclass(frozen=True)
class Load:
    """One load. Either `streams` or `rate_per_s` is set. `requests` by class of client: enough for some seconds of each."""

    name: str
    tokens: int
    requests: dict
    ttft_ms: int = 0
    itl_ms: int = 0
    streams: int | None = None
    rate_per_s: int | None = None

    def title(self):
        """For a heading."""
        asked = f"{self.streams:,} streams" if self.streams else f"Poisson, {self.rate_per_s:,} requests/s"
        timing = f"TTFT {self.ttft_ms} ms, ITL {self.itl_ms} ms" if self.ttft_ms else "each answer at once"
        return f"{asked}, {self.tokens} tokens, {timing}"

    def quick(self):
        """The same for a first look: a quarter of the requests, and at least two for each stream."""
        least = 2 * (self.streams or 1)
        return dataclasses.replace(self, requests={kind: max(least, n // 4) for kind, n in self.requests.items()})


def batched(streams):
    """Closed loop, everything at once."""
    return Load(f"batched-{streams}", 128, {FAST: 24_000, MIDDLE: 6_000, SLOW: 2 * streams + 1_000}, streams=streams)


def paced(streams, fast, middle, slow):
    """Closed loop of timed answers, 0.68 s each."""
    counts = {FAST: fast, MIDDLE: middle, SLOW: slow}
    return Load(f"paced-{streams}", 64, counts, ttft_ms=50, itl_ms=10, streams=streams)


def poisson(rate, requests, slow):
    """Open loop of timed answers."""
    counts = {FAST: requests, MIDDLE: requests, SLOW: slow}
    return Load(f"open-{rate}", 64, {k: v for k, v in counts.items() if v}, ttft_ms=50, itl_ms=10, rate_per_s=rate)


LOADS = (
    batched(64),
    batched(1_000),
    paced(64, 1_280, 1_280, 960),
    paced(1_000, 15_000, 5_000, 3_000),
    poisson(400, 8_000, 8_000),
    # Python's clients are over at a quarter of this, which the load before shows.
    dataclasses.replace(poisson(2_000, 20_000, None), requests={FAST: 20_000}),
)
