"""Turns a Hugging Face folder or a GGUF file into an MNN model folder. Runs in an environment of its own.

This file is not imported by the harness: :mod:`harness.payload.export_env` runs it with the interpreter of a
throw-away virtual environment that holds torch, transformers and llmexport::

    python _export_model.py hf   SOURCE_DIR  OUT_DIR --bits 4
    python _export_model.py gguf SOURCE_FILE OUT_DIR --bits 8 --hqq

Two things are done differently from llmexport's own command. Its package folder has to be on ``sys.path``, because it
imports its parts as ``utils``. And it would import ``MNN.tools``, which installs packages and reports to a server on
import: a small stand-in calls the same converter in ``_tools`` directly.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

#: What an MNN folder needs to run; all else that llmexport writes (its arguments, the graph as JSON) is dropped.
KEEP = ("config.json", "llm_config.json", "llm.mnn", "llm.mnn.weight", "tokenizer.mtok", "tokenizer.txt")


def main(argv: list[str]) -> int:
    """Export as the arguments say; the exit code is 0 when the folder is complete."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("hf", "gguf"))
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, default=4, choices=(4, 8))
    parser.add_argument("--hqq", action="store_true", help="round weights by half-quadratic quantization")
    options = parser.parse_args(argv)
    source, out = options.source.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    scratch = out.parent / f"{out.name}.work"
    scratch.mkdir()
    if options.kind == "gguf":
        source = gguf_to_folder(source, scratch / "hf")
    export(source, scratch / "mnn", options.bits, options.hqq)
    for name in KEEP:
        made = scratch / "mnn" / name
        if made.exists():
            made.replace(out / name)
    tidy_config(out / "config.json")
    return 0


def gguf_to_folder(gguf: Path, folder: Path) -> Path:
    """Read a GGUF file with transformers and save it as a folder of plain float weights.

    The weights go into a fresh model: the one that was read carries ``quantization_config``, and saving that fails.
    """
    transformers: Any = importlib.import_module("transformers")
    model_class = transformers.LlamaForCausalLM
    read = model_class.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype="float32")
    values = read.config.to_dict()
    values.pop("quantization_config", None)
    plain = model_class(transformers.LlamaConfig(**values)).float()
    plain.load_state_dict(read.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    template = folder / "chat_template.jinja"
    if template.exists():  # llmexport looks for it in the tokenizer's configuration only
        path = folder / "tokenizer_config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["chat_template"] = template.read_text(encoding="utf-8")
        path.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    return folder


def export(source: Path, out: Path, bits: int, hqq: bool) -> None:
    """Run llmexport on a Hugging Face folder."""
    converter: Any = types.ModuleType("MNN.tools.mnnconvert")
    converter.main = lambda: importlib.import_module("_tools").mnnconvert(sys.argv)
    stand_in: Any = types.ModuleType("MNN.tools")
    stand_in.mnnconvert = converter
    sys.modules["MNN.tools"] = stand_in
    sys.modules["MNN.tools.mnnconvert"] = converter
    spec = importlib.util.find_spec("llmexport")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("llmexport is not installed in this environment")
    sys.path.insert(0, spec.submodule_search_locations[0])
    llmexport: Any = importlib.import_module("llmexport")
    os.chdir(out.parent)  # it writes a log to the current folder
    llmexport.export(str(source), dst_path=str(out), export="mnn", quant_bit=bits, hqq=hqq, mnnconvert="")


def tidy_config(path: Path) -> None:
    """Keep the keys that choose files; make answers repeatable (greedy)."""
    made = json.loads(path.read_text(encoding="utf-8"))
    config = {key: made[key] for key in ("llm_model", "llm_weight", "tokenizer_file", "embedding_file") if key in made}
    config.update(backend_type="cpu", thread_num=4, precision="low", memory="low", sampler_type="greedy")
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
