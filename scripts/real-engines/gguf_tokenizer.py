#!/usr/bin/env python3
"""Write the tokenizer folder (tokenizer.json, tokenizer_config.json) of the byte-level BPE model inside a GGUF file.

    gguf_tokenizer.py MODEL.gguf OUT_DIR

A GGUF carries vocabulary, merges, special tokens and chat template as metadata, so the model's own tokenizer can be had
without a model hub. Needs the standard library only. The GGUF layout (version 2 and 3, little endian) is that of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; tokenizer.json is the format of the `tokenizers` library.
Only the pre-tokenizer of the SmolLM family is known here: single digits, then GPT-2's split.
"""

import json
import pathlib
import struct
import sys

STRING, ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
CONTROL, USER_DEFINED = 3, 4  # token types that are matched before the text is split


class Reader:
    """Reads GGUF values one after the other from a byte buffer."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def scalar(self, layout):
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def string(self):
        size = self.scalar("<Q")
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def read_metadata(path):
    """All metadata of a GGUF file as a dictionary; the tensors are not read."""
    reader = Reader(memoryview(pathlib.Path(path).read_bytes()))
    if bytes(reader.data[:4]) != b"GGUF":
        raise SystemExit(f"{path}: not a GGUF file")
    reader.at = 4
    version, _tensors, pairs = reader.scalar("<I"), reader.scalar("<Q"), reader.scalar("<Q")
    if version not in (2, 3):
        raise SystemExit(f"{path}: GGUF version {version}; expected 2 or 3")
    metadata = {}
    for _ in range(pairs):
        key = reader.string()
        metadata[key] = reader.value(reader.scalar("<I"))
    return metadata


def tokenizer_json(metadata):
    """The content of tokenizer.json for a byte-level BPE with SmolLM's pre-tokenizer."""
    kind, split = metadata["tokenizer.ggml.model"], metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in ("smollm", "default", None):
        raise SystemExit(f"tokenizer {kind!r} with pre-tokenizer {split!r}; only byte-level BPE ('gpt2') of SmolLM is handled")
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": index, "content": text, **added}
            for index, (text, kind) in enumerate(zip(tokens, types))
            if kind in (CONTROL, USER_DEFINED)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: index for index, text in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(metadata):
    """The content of tokenizer_config.json: special tokens by role, and the chat template."""
    tokens = metadata["tokenizer.ggml.tokens"]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata.get(f"{metadata['general.architecture']}.context_length", 8192),
        "chat_template": metadata["tokenizer.chat_template"],
    }
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if index is not None:
            config[f"{role}_token"] = tokens[index]
    return config


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    metadata = read_metadata(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("tokenizer_config.json", tokenizer_config(metadata)),
        ("tokenizer.json", tokenizer_json(metadata)),
    ):
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    print(f"tokenizer of {len(metadata['tokenizer.ggml.tokens'])} entries -> {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
