"""Runs SGLang's Rust client from its extension module alone: sglang_rust.py FOLDER [FLAG...]

`python -m sglang.benchmark.rust_client` does the same after importing its package. The module in FOLDER was taken out of the
wheel and is for the interpreter that runs this.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

folder, *flags = sys.argv[1:]
path = str(next(pathlib.Path(folder).glob("_bench*.so")))
loader = importlib.machinery.ExtensionFileLoader("_bench", path)
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_bench", loader))
loader.exec_module(module)
sys.exit(module.run_argv(["sglbench-rs", *flags]))
