#!/usr/bin/env python3
"""Turn a Llama-family GGUF file into a plain Hugging Face model folder with bfloat16 weights.

    gguf_to_hf.py MODEL.gguf TOKENIZER_DIR OUT_DIR

vLLM's CPU engine does not serve the GGUF itself. Runs inside the vLLM environment (torch, transformers, gguf, accelerate).
"""

import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    source, tokenizer, out = map(pathlib.Path, sys.argv[1:])
    quantized = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the saved weights are plain, and a loader would look for packed ones
    # A fresh model forgets how its weights were loaded, which saving would otherwise write down as well.
    plain = LlamaForCausalLM(config)
    plain.load_state_dict(quantized.state_dict())
    plain.to(torch.bfloat16).save_pretrained(out, safe_serialization=True)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(out)
    print(f"{source.name} in bfloat16 -> {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
