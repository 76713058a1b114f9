#!/usr/bin/env python3
"""Make a tiny Llama with seeded random weights around an existing tokenizer folder.

    tiny_llama.py TOKENIZER_DIR OUT_DIR

The text it writes is nonsense, but an engine that serves it goes through its real scheduler, cache, streaming and metrics,
and fast enough on two cores to be put under load. Runs inside the vLLM environment (torch, transformers).
"""

import sys

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

SEED = 20260101
HIDDEN, HEADS, LAYERS = 128, 4, 2


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=3 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        **special,
    )
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(config).to(torch.float32)
    model.save_pretrained(sys.argv[2], safe_serialization=True)
    tokenizer.save_pretrained(sys.argv[2])
    millions = sum(weights.numel() for weights in model.parameters()) / 1e6
    print(f"random Llama, {millions:.1f} million parameters -> {sys.argv[2]}", file=sys.stderr)


if __name__ == "__main__":
    main()
