"""What is known of each real engine, how it is started, and what its own /metrics page counts.

Used by check.py; standard library only. The metric names are the engines' own (vLLM 0.32, SGLang 0.5.23, llama.cpp b11434).
"""

import dataclasses
import http.client
import json
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
START_LIMIT_S = 400  # vLLM imports torch in three processes, one after the other
SETTLE_LIMIT_S = 15  # an engine may book a request a moment after its last byte


class Unavailable(Exception):
    """The check cannot be made: a server does not start, is not there, or is not a known one."""


@dataclasses.dataclass(frozen=True)
class Counter:
    """A quantity of a metrics page: the sum of the named samples over all label sets, less those with an excluded label."""

    names: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Engine:
    """One engine: how it is addressed, the load it can be given, and the counters it keeps."""

    key: str
    title: str
    model: str
    port: int
    protocols: tuple[str, ...]
    slots: int
    prefix: str
    counters: dict[str, Counter]


OPENAI = ("openai-chat", "openai-completions")

ENGINES = {
    engine.key: engine
    for engine in (
        Engine(
            key="llama",
            title="llama.cpp",
            model="smol",
            port=9300,
            protocols=OPENAI,
            slots=4,
            prefix="llamacpp:",
            counters={
                # Prompt tokens that were found in the cache are counted apart.
                "input": Counter(("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total")),
                "cached": Counter(("llamacpp:prompt_tokens_cached_total",)),
                "output": Counter(("llamacpp:tokens_predicted_total",)),
            },
        ),
        Engine(
            key="vllm",
            title="vLLM",
            model="tiny",
            port=9200,
            protocols=OPENAI,
            slots=16,
            prefix="vllm:",
            counters={
                "requests": Counter(("vllm:request_success_total",), ('finished_reason="abort"', 'finished_reason="error"')),
                "input": Counter(("vllm:prompt_tokens_total",)),
                "cached": Counter(("vllm:prompt_tokens_cached_total",)),
                "output": Counter(("vllm:generation_tokens_total",)),
                "ttft_s": Counter(("vllm:time_to_first_token_seconds_sum",)),
                "ttft_n": Counter(("vllm:time_to_first_token_seconds_count",)),
            },
        ),
        Engine(
            key="sglang",
            title="SGLang",
            model="tiny",
            port=9400,
            protocols=(*OPENAI, "sglang"),
            slots=16,
            prefix="sglang:",
            counters={
                "requests": Counter(("sglang:num_requests_total",)),
                "input": Counter(("sglang:prompt_tokens_total",)),
                "cached": Counter(("sglang:cached_tokens_total",)),
                "output": Counter(("sglang:generation_tokens_total",)),
                "ttft_s": Counter(("sglang:time_to_first_token_seconds_sum",)),
                "ttft_n": Counter(("sglang:time_to_first_token_seconds_count",)),
            },
        ),
    )
}

SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")


def read_counters(page, counters):
    """The counters' values on one metrics page (Prometheus text); a counter without any sample is 0."""
    totals = dict.fromkeys(counters, 0.0)
    for line in page.splitlines():
        sample = SAMPLE.match(line)
        if sample is None:
            continue
        name, labels, value = sample.groups()
        for key, counter in counters.items():
            if name in counter.names and not any(label in (labels or "") for label in counter.without):
                totals[key] += float(value)
    return totals


def fetch(url, timeout=10):
    """The body behind a URL as text."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode("utf-8")


def settled_counters(url, engine, expected_requests=None):
    """The engine's counters once they have stopped moving (and, if it counts requests, once all of them are booked)."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    before = None
    while True:
        now = read_counters(fetch(f"{url}/metrics"), engine.counters)
        booked = expected_requests is None or now.get("requests", expected_requests) >= expected_requests
        if (now == before and booked) or time.monotonic() > deadline:
            return now
        before = now
        time.sleep(0.5)


def identify(url):
    """Which engine a running server is, by the prefix of its metrics."""
    page = fetch(f"{url}/metrics")
    for engine in ENGINES.values():
        if f"\n{engine.prefix}" in page:
            return engine
    raise Unavailable(f"{url}/metrics names no known engine; expected one of {', '.join(ENGINES)}")


def version(url, engine):
    """What the server says of its own version."""
    if engine.key == "llama":
        return json.loads(fetch(f"{url}/props")).get("build_info", "unknown")
    path = "version" if engine.key == "vllm" else "server_info"
    return json.loads(fetch(f"{url}/{path}")).get("version", "unknown")


def first_stream(url, engine):
    """Sends one short streaming request to each endpoint; first requests are slow, and a server that cannot stream is told early."""
    sampling = {"model": engine.model, "stream": True, "max_tokens": 4}
    bodies = {
        "openai-chat": ("/v1/chat/completions", {**sampling, "messages": [{"role": "user", "content": "Hello"}]}),
        "openai-completions": ("/v1/completions", {**sampling, "prompt": "Hello"}),
        "sglang": ("/generate", {"text": "Hello", "stream": True, "sampling_params": {"max_new_tokens": 4}}),
    }
    for protocol in engine.protocols:
        path, body = bodies[protocol]
        request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            if b"data: [DONE]" not in answer.read():
                raise Unavailable(f"{url}{path}: the stream did not end with [DONE]")


class Server:
    """An engine started by engines.sh, ended with the `with` block."""

    def __init__(self, engine, folder):
        self.engine = engine
        self.url = f"http://127.0.0.1:{engine.port}"
        self.log = pathlib.Path(folder) / f"{engine.key}.log"
        self.command = [str(HERE / "engines.sh"), "serve", str(folder), engine.key, str(engine.port)]
        self.ready_after_s = None

    def __enter__(self):
        # A server that is already there would answer in place of the one started here.
        if self._answers():
            raise Unavailable(f"{self.url} is already in use; stop that server, or check it with --url")
        started = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        try:
            while not self._answers():
                if self.process.poll() is not None:
                    raise Unavailable(f"{self.engine.title} ended at once; see {self.log}")
                if time.monotonic() - started > START_LIMIT_S:
                    raise Unavailable(f"{self.engine.title} was not ready within {START_LIMIT_S} s; see {self.log}")
                time.sleep(0.25)
        except BaseException:
            self.__exit__()
            raise
        self.ready_after_s = time.monotonic() - started
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answers(self):
        try:
            fetch(f"{self.url}/health", timeout=2)
            return True
        except (urllib.error.URLError, http.client.HTTPException, OSError):
            return False
