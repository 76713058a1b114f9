"""The clients of run.py: how each is installed, called, and its result file read. Standard library only.

A client is asked for the load's requests with prompts of PROMPT_TOKENS random tokens, completions, streamed, no warm-up. What it
reports is read as it reports it, in ms; `itl` names which figure that is, so that it is held against the truth of the same one.
"""

import dataclasses
import json
import pathlib

from install import HERE
from loads import FAST, MIDDLE, PROMPT_TOKENS, SLOW

MODEL = "mock"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
GAPS, MEANS = "gaps", "means"
REPORTED = ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99")


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: the load, how many requests, where the server is, an empty folder, and the folder of the tokenizer."""

    load: object
    requests: int
    url: str
    folder: pathlib.Path
    tokenizer: pathlib.Path

    @property
    def result(self):
        """Where a client that is told so writes its result."""
        return self.folder / "result.json"

    def pick(self, closed, opened):
        """Flags of a closed loop or of an open one, each a format of the number of streams or the rate."""
        asked = closed.format(self.load.streams) if self.load.streams else opened.format(self.load.rate_per_s)
        return asked.split()


@dataclasses.dataclass(frozen=True)
class Client:
    """One client. `pin` is its distribution on PyPI and the version; `speed` picks how many requests it is given. `itl` is GAPS if its
    ITL quantiles are of single gaps between chunks, MEANS if they are of each request's mean. `install` takes the shelf and gives the
    program's place; `command` takes that and a job and gives the arguments; `read` takes the job and gives the REPORTED figures,
    `completed`, and `notes`, each of them a kind, a colon and the particulars."""

    name: str
    pin: str
    speed: str
    itl: str
    install: object
    command: object
    read: object
    environment: dict = dataclasses.field(default_factory=lambda: OFFLINE)


def lateness(job, name, mean_ms):
    """A note on how late requests left on average in an open loop, where a tool has that in a field of its own."""
    return [f"its own {name}: mean {mean_ms:,.0f} ms, not in its TTFT"] if job.load.rate_per_s and mean_ms > 10 else []


# goodput

def goodput_command(program, job):
    """The binary that serves is the one that loads."""
    return [
        str(program), "run", "--url", job.url, "--protocol", "openai-completions", "--model", MODEL,
        *job.pick("--concurrency {}", "--rate {}"), "--requests", str(job.requests), "--warmup", "0",
        "--input-tokens", str(PROMPT_TOKENS), "--output-tokens", str(job.load.tokens), "--ignore-eos",
        "--tokenizer", str(job.tokenizer / "tokenizer.json"), "--salt", "none", "--percentiles", "50,99",
        "--quiet", "--out", str(job.folder), "--name", "run",
    ]  # fmt: skip


def read_goodput(job):
    """summary.json, ruler canonical: TTFT from the instant when the request was due."""
    found = json.loads((job.folder / "run" / "summary.json").read_text())
    ttft, gap = (found["metrics"][name] for name in ("ttft", "chunk_gap"))
    reported = {"ttft_p50": ttft["p50"]["value"], "ttft_p99": ttft["p99"]["value"]}
    reported |= {"itl_p50": gap["p50"]["value"], "itl_p99": gap["p99"]["value"]}
    limited = found["load"].get("reasons") or []
    said = [f"says that it was client-limited: {'; '.join(map(str, limited))}"] if found["load"].get("client_limited") else []
    return {**reported, "completed": found["counts"]["ok"], "notes": said}


# vLLM and SGLang: two clients each, with one set of flags and one form of result.

def vllm_flags(job):
    """Flags of `bench serve`, the same for both clients."""
    return [
        "bench", "serve", "--backend", "openai", "--base-url", job.url, "--endpoint", "/v1/completions", "--model", MODEL,
        "--tokenizer", str(job.tokenizer), "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS),
        "--random-output-len", str(job.load.tokens), "--ignore-eos", "--num-prompts", str(job.requests), "--num-warmups", "0",
        "--ready-check-timeout-sec", "0", "--disable-tqdm", "--percentile-metrics", "ttft,itl", "--metric-percentiles", "50,99",
        "--save-result", "--result-dir", str(job.folder), "--result-filename", job.result.name,
        *job.pick("--max-concurrency {}", "--request-rate {}"),
    ]  # fmt: skip


def sglang_flags(job):
    """Flags of `sglang.benchmark.serving`, the same for both clients."""
    return [
        "--backend", "vllm", "--base-url", job.url, "--dataset-name", "random-ids", "--model", MODEL,
        "--tokenizer", str(job.tokenizer), "--random-input-len", str(PROMPT_TOKENS), "--random-range-ratio", "1.0",
        "--random-output-len", str(job.load.tokens), "--warmup-requests", "0", "--disable-tqdm",
        "--num-prompts", str(job.requests), "--output-file", str(job.result),
        *job.pick("--max-concurrency {}", "--request-rate {}"),
    ]  # fmt: skip


def read_bench(job):
    """The flat object that vLLM's and SGLang's clients write; SGLang's append a line each run."""
    found = json.loads(job.result.read_text().splitlines()[-1])
    reported = {
        "ttft_p50": found["median_ttft_ms"], "ttft_p99": found["p99_ttft_ms"],
        "itl_p50": found["median_itl_ms"], "itl_p99": found["p99_itl_ms"],
    }  # fmt: skip
    return {**reported, "completed": found["completed"], "notes": []}


# AIPerf

def aiperf_command(programs, job):
    """One process per role; results in a folder."""
    return [
        str(programs / "aiperf"), "profile", "--model", MODEL, "--tokenizer", str(job.tokenizer), "--url", job.url,
        "--endpoint-type", "completions", "--streaming", "--isl", str(PROMPT_TOKENS), "--isl-stddev", "0",
        "--osl", str(job.load.tokens), "--osl-stddev", "0", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry",
        "--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--num-dataset-entries", "1000",
        "--request-count", str(job.requests), "--artifact-dir", str(job.folder / "artifacts"),
        *job.pick("--concurrency {}", "--request-rate {} --arrival-pattern poisson"),
    ]  # fmt: skip


def read_aiperf(job):
    """`inter_chunk_latency` is of single gaps; `inter_token_latency` would be of each request's mean."""
    found = json.loads((job.folder / "artifacts" / "profile_export_aiperf.json").read_text())
    ttft, gap = found["time_to_first_token"], found["inter_chunk_latency"]
    reported = {"ttft_p50": ttft["p50"], "ttft_p99": ttft["p99"], "itl_p50": gap["p50"], "itl_p99": gap["p99"]}
    late = found.get("credit_to_start_latency", {}).get("avg", 0.0)
    return {**reported, "completed": round(found["request_count"]["avg"]), "notes": lateness(job, "credit_to_start_latency", late)}


# GuideLLM

def guidellm_command(programs, job):
    """Prompts from its own synthetic data."""
    return [
        str(programs / "guidellm"), "run", "--disable-console-interactive",
        "--backend", f"kind=openai_http,target={job.url},model={MODEL},request_format=/v1/completions",
        "--tokenizer", f"kind=huggingface_auto,model={job.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={job.load.tokens}",
        "--constraint", f"kind=max_requests,count={job.requests}", "--output", f"kind=json,path={job.result}",
        "--profile", *job.pick("kind=concurrent,streams={}", "kind=poisson,rate={}"),
    ]  # fmt: skip


def read_guidellm(job):
    """Its ITL is each request's mean, counted once for each of its tokens."""
    found = json.loads(job.result.read_text())["benchmarks"][0]
    ttft, itl = (found["metrics"][name]["successful"] for name in ("time_to_first_token_ms", "inter_token_latency_ms"))
    reported = {"ttft_p50": ttft["percentiles"]["p50"], "ttft_p99": ttft["percentiles"]["p99"]}
    reported |= {"itl_p50": itl["percentiles"]["p50"], "itl_p99": itl["percentiles"]["p99"]}
    said = [f"warns of {warning['message'].rstrip('.')}" for warning in found.get("warnings") or []]
    return {**reported, "completed": ttft["count"], "notes": said}


# inference-perf

def inference_perf_command(programs, job):
    """A file of settings (JSON is YAML). Its default cap on requests in flight, 100 a worker, is raised above every load's."""
    length = {"std_dev": 0, "total_count": job.requests + 16}
    fixed = {n: {"min": n, "max": n, "mean": n, **length} for n in (PROMPT_TOKENS, job.load.tokens)}
    stage = {"num_requests": job.requests, "concurrency_level": job.load.streams}
    if job.load.rate_per_s:
        stage = {"rate": job.load.rate_per_s, "duration": job.requests // job.load.rate_per_s}
    settings = {
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random", "input_distribution": fixed[PROMPT_TOKENS], "output_distribution": fixed[job.load.tokens]},
        "load": {
            "type": "concurrent" if job.load.streams else "poisson", "stages": [stage],
            "num_workers": 1, "worker_max_concurrency": 4_000,
        },
        "server": {"type": "vllm", "model_name": MODEL, "base_url": job.url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(job.tokenizer)},
        "storage": {"local_storage": {"path": str(job.folder / "reports")}},
    }  # fmt: skip
    path = job.folder / "settings.yml"
    path.write_text(json.dumps(settings))
    return [str(programs / "inference-perf"), "-c", str(path)]


def read_inference_perf(job):
    """Seconds. How late requests left is a field of its own."""
    found = json.loads((job.folder / "reports" / "stage_0_lifecycle_metrics.json").read_text())
    latency = found["successes"]["latency"]
    ttft, itl = latency["time_to_first_token"], latency["inter_token_latency"]
    reported = {"ttft_p50": ttft["median"], "ttft_p99": ttft["p99"], "itl_p50": itl["median"], "itl_p99": itl["p99"]}
    late = 1e3 * found["load_summary"]["schedule_delay"]["mean"]
    reported = {name: 1e3 * value for name, value in reported.items()}
    return {**reported, "completed": found["successes"]["count"], "notes": lateness(job, "schedule_delay", late)}


# What is installed. Versions are pinned: another one is another client, and its flags may differ.

VLLM, SGLANG = "vllm==0.33.0", "sglang==0.5.23"
INFERENCE_PERF, AIPERF, GUIDELLM = "inference-perf==0.7.0", "aiperf==0.13.0", "guidellm==0.8.1"
# What `sglang.benchmark.serving` imports on its way, without the CUDA stack of the server.
SGLANG_NEEDS = (
    "aiohttp", "apache-tvm-ffi", "compressed-tensors", "datasets", "gguf", "IPython", "msgspec", "numpy", "orjson", "pillow",
    "psutil", "pybase64", "pyzmq", "requests", "sentencepiece", "starlette", "torch==2.14.1", "torchvision", "tqdm",
    "transformers",
)  # fmt: skip


def clients(binary):
    """All clients; the first is ours, which every ratio is to."""
    return [
        Client("goodput", "", FAST, GAPS, lambda shelf: binary, goodput_command, read_goodput),
        Client(
            "vLLM, Rust", VLLM, FAST, GAPS, lambda shelf: shelf.taken_out("vllm-rs", VLLM, "vllm/vllm-rs") / "vllm-rs",
            lambda program, job: [str(program), *vllm_flags(job)], read_bench,
        ),
        Client(
            "SGLang, Rust", SGLANG, FAST, GAPS, lambda shelf: (
                shelf.tools(), shelf.taken_out("sglang-rs", SGLANG, "sglang/srt/rust_extensions/_bench")),
            lambda place, job: [
                str(place[0]), str(HERE / "sglang_rust.py"), str(place[1]), *sglang_flags(job), "--worker-threads", "1"],
            read_bench,
        ),
        Client(
            "vLLM, Python", VLLM, MIDDLE, GAPS, lambda shelf: shelf.environment("vllm", [], [VLLM.replace("==", "[bench]==")]),
            lambda programs, job: [str(programs / "vllm"), *vllm_flags(job)], read_bench,
        ),
        Client(
            "SGLang, Python", SGLANG, MIDDLE, GAPS, lambda shelf: shelf.environment("sglang", [SGLANG], SGLANG_NEEDS),
            lambda programs, job: [str(programs / "python"), "-m", "sglang.benchmark.serving", *sglang_flags(job)], read_bench,
        ),
        Client(
            "inference-perf", INFERENCE_PERF, MIDDLE, GAPS,
            lambda shelf: shelf.environment("inference-perf", [], [INFERENCE_PERF], least=(3, 12)),
            inference_perf_command, read_inference_perf,
        ),
        Client(
            "AIPerf", AIPERF, SLOW, GAPS, lambda shelf: shelf.environment("aiperf", [], [AIPERF]),
            aiperf_command, read_aiperf, {},  # With HF_HUB_OFFLINE it takes the tokenizer's folder for the name of a repository.
        ),
        Client(
            "GuideLLM", GUIDELLM, SLOW, MEANS, lambda shelf: shelf.environment("guidellm", [], [GUIDELLM]),
            guidellm_command, read_guidellm,
        ),
    ]  # fmt: skip
