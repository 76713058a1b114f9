"""The real tools of check.py: how each is called and how its result file is read. Standard library only.

Every tool is asked for the same thing: REQUESTS prompts of 16 random tokens, SLOTS at a time, a fixed number of output tokens,
no warm-up, raw samples in the file.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess

import shapes

PROMPT_TOKENS = 16
LIMIT_S = 300
# Importing these clients takes ten seconds of a core, so one interpreter imports a client once and runs it in a fork for each
# line that it reads: a JSON object with arguments, folder, file for the output and time limit. Answers with the exit status.
WARM = """
import importlib, json, os, runpy, signal, sys
module, *needed = sys.argv[1:]
for name in needed:
    importlib.import_module(name)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(job["limit_s"])
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1), os.dup2(log, 2), os.chdir(job["folder"])
        sys.argv = [module, *job["arguments"]]
        code = 1
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush(), os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
VLLM_MODULES = ("vllm.entrypoints.cli.main", "vllm.entrypoints.cli.benchmark.main", "vllm.benchmarks.serve", "transformers")
SGLANG_MODULES = ("sglang.benchmark.serving", "sglang.benchmark.datasets", "sglang.benchmark.rust_client", "transformers")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@dataclasses.dataclass(frozen=True)
class Peer:
    """A tool with one of its clients: the command that the user named, and the rulers its figures are held against."""

    name: str
    command: tuple
    tokenizer: str
    sends_usage_option: bool

    def ruler(self, protocol):
        """Name of the ruler that restates this tool on this protocol."""
        if self.name.startswith("sglang"):
            return "sglang" if protocol == shapes.NATIVE else "sglang-oai"
        return self.name

    def plays(self, shape):
        """Whether the tool speaks the shape's protocol, and the shape is meant for it."""
        native = self.name.startswith("sglang")
        return (native or shape.protocol != shapes.NATIVE) and (not shape.peers or self.name in shape.peers)

    def version(self):
        """What the tool says that it is."""
        if self.name == "vllm-rs":
            asked = [*self.command, "--version"]
        else:
            package = "vllm" if self.name.startswith("vllm") else "sglang"
            asked = [*self.command, "-c", f"import importlib.metadata as m; print(m.version('{package}'))"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=LIMIT_S)
        return done.stdout.split()[-1]

    def modules(self):
        """The module that is the client, and what it imports on its way; nothing for a program."""
        if self.name == "vllm-rs":
            return ()
        return VLLM_MODULES if self.name.startswith("vllm") else SGLANG_MODULES

    def arguments(self, shape, url, result):
        """The flags of one run."""
        both = ["--base-url", url, "--model", "mock", "--tokenizer", self.tokenizer, "--disable-tqdm"]
        both += ["--num-prompts", str(shapes.REQUESTS), "--max-concurrency", str(shapes.SLOTS)]
        both += ["--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(shape.tokens)]
        both += ["--ready-check-timeout-sec", "0"]
        if self.name.startswith("sglang"):
            backend = {shapes.CHAT: "sglang-oai-chat", shapes.COMPLETIONS: "sglang-oai", shapes.NATIVE: "sglang"}[shape.protocol]
            rust = ["--rust-client"] if self.name == "sglang-rust" else []
            return [
                "--backend", backend, *both, "--dataset-name", "random-ids",
                "--random-range-ratio", "1.0", "--warmup-requests", "0", "--output-details", "--output-file", str(result), *rust,
            ]  # fmt: skip
        backend, path = ("openai", "/v1/completions")
        if shape.protocol == shapes.CHAT:
            backend, path = ("openai-chat", "/v1/chat/completions")
        return [
            "bench", "serve", "--backend", backend, "--endpoint", path, *both, "--dataset-name", "random",
            "--ignore-eos", "--num-warmups", "0", "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result",
            "--save-detailed", "--result-dir", str(result.parent), "--result-filename", result.name,
        ]  # fmt: skip

    @contextlib.contextmanager
    def ready(self):
        """Gives a function that runs the tool: (shape, url, folder) to figures, RuntimeError if there is no result."""
        environment = {**os.environ, **OFFLINE}
        if not self.modules():
            yield lambda shape, url, folder: self.run(shape, url, folder, self.execute)
            return
        module, *needed = self.modules()
        argv = [*self.command, "-c", WARM, module, *needed]
        with subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as warm:

            def fork(arguments, folder, log):
                warm.stdin.write(json.dumps({"arguments": arguments, "folder": str(folder), "log": str(log), "limit_s": LIMIT_S}) + "\n")
                warm.stdin.flush()
                return warm.stdout.readline().strip() or "the interpreter ended"

            try:
                yield lambda shape, url, folder: self.run(shape, url, folder, fork)
            finally:
                warm.stdin.close()

    def execute(self, arguments, folder, log):
        """Runs a tool that is a program."""
        with open(log, "w") as output:
            argv = [*self.command, *arguments]
            return subprocess.run(argv, cwd=folder, timeout=LIMIT_S, stdout=output, stderr=output, check=False).returncode

    def run(self, shape, url, folder, how):
        """One run and its figures."""
        result, log = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "log"
        code = how(self.arguments(shape, url, result), folder, log)
        if not result.exists():
            raise RuntimeError(f"no result (exit {code}): {' '.join(log.read_text().split())[-400:]}")
        return self.read(json.loads(result.read_text().splitlines()[-1]))

    def read(self, found):
        """The figures of a result, by the names of check.py. Times in ms."""
        e2e = "e2e_latency" if self.name.startswith("sglang") else "e2el"
        finished = [itls for itls, error in zip(found["itls"], found["errors"], strict=True) if not error]
        return {
            "completed": found["completed"],
            "failed": shapes.REQUESTS - found["completed"],
            "output tokens": found["total_output_tokens"],
            "ITL samples": sum(len(itls) for itls in finished),
            "TTFT": found["mean_ttft_ms"],
            "TPOT": found["mean_tpot_ms"],
            "ITL": found["mean_itl_ms"],
            "E2E": found[f"mean_{e2e}_ms"],
            "peak in flight": found["max_concurrent_requests"],
            "peak output": found["max_output_tokens_per_s"],
        }


def peers(arguments):
    """The tools that the user named."""
    named = [
        ("vllm", arguments.vllm), ("vllm-0.32", arguments.vllm_0_32), ("vllm-rs", arguments.vllm_rs),
        ("sglang", arguments.sglang), ("sglang-rust", arguments.sglang if arguments.sglang_rust else None),
    ]  # fmt: skip
    tokenizer = str(arguments.tokenizer)
    return [Peer(name, tuple(shlex.split(c)), tokenizer, name.startswith("vllm")) for name, c in named if c]
