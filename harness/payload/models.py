"""MNN model folders: found by name or path, and refused here rather than half pushed when a file is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, ModelIncompleteError
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.models_fetch import known_models, model_path

_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class ModelFolder:
    """A model that can be pushed. ``weight_bytes`` counts the files that hold weights."""

    name: str
    folder: PayloadFolder
    weight_bytes: int
    quant_bits: int | None


def find_model(name_or_dir: str) -> Path:
    """Return the folder of a model given by name or by path.

    Raises:
        ConfigError: there is none; the message says how to get it.
    """
    if "/" not in name_or_dir and not Path(name_or_dir).is_dir():
        here = model_path(name_or_dir)
        if here is not None:
            return here
        if name_or_dir in known_models():
            raise ConfigError(
                f"model {name_or_dir} is not on this computer yet", remedy=f"run: mnn-farm models fetch {name_or_dir}"
            )
        raise ConfigError(
            f"there is no model called {name_or_dir}",
            remedy=f"name a folder with config.json in it, or one of: {', '.join(known_models())}",
        )
    path = Path(name_or_dir).expanduser()
    return path.parent if path.name == "config.json" else path


def read_model(path: Path) -> ModelFolder:
    """Check and hash a model folder.

    Raises:
        ModelIncompleteError: a file that the engine needs is missing, empty or a Git LFS pointer.
        ConfigError: the folder or its config.json cannot be read.
    """
    path = path.resolve()
    if not path.is_dir():
        raise ConfigError(f"model {path} is not a folder", remedy="name a folder with config.json in it")
    if not (path / "config.json").is_file():
        raise ModelIncompleteError(f"{path} has no config.json", remedy="name the folder that llmexport wrote")
    config = _read_json(path / "config.json")
    needed = {
        "llm_config": config.get("llm_config", "llm_config.json"),
        "llm_model": config.get("llm_model", "llm.mnn"),
        "llm_weight": config.get("llm_weight", "llm.mnn.weight"),
        "tokenizer_file": config.get("tokenizer_file", _default_tokenizer(path)),
    }
    for key, name in needed.items():
        _check_file(path, key, name)
    folder = read_folder(path)
    sizes = {file.path: file.size for file in folder.files}
    weights = sum(size for name, size in sizes.items() if name.endswith(".weight"))
    named = (path / str(needed["llm_weight"])).stat().st_size
    return ModelFolder(path.name, folder, weights or named, _quant_bits(path, needed))


def _default_tokenizer(path: Path) -> str:
    # MNN 3.6 writes tokenizer.mtok; older exports have tokenizer.txt
    return "tokenizer.mtok" if (path / "tokenizer.mtok").exists() else "tokenizer.txt"


def _check_file(path: Path, key: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ModelIncompleteError(f"{path}/config.json: {key} is {name!r}", remedy="it must name a file")
    file = path / name
    if not file.is_file():
        raise ModelIncompleteError(f"{path} lacks {name} ({key})", remedy="export or download the model again")
    if not file.resolve().is_relative_to(path):
        raise ModelIncompleteError(f"{file} leads out of the model folder", remedy="copy the file into it")
    if file.stat().st_size == 0:
        raise ModelIncompleteError(f"{file} is empty", remedy="export or download the model again")
    with file.open("rb") as opened:
        if opened.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ModelIncompleteError(f"{file} is a Git LFS pointer, not the file", remedy="run: git lfs pull")


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as JSON ({error})", remedy="export the model again") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{file} holds no JSON object", remedy="export the model again")
    return value


def _quant_bits(path: Path, needed: dict[str, Any]) -> int | None:
    """Return the bits a weight has, as llmexport notes them; ``None`` when it did not."""
    for name in ("export_args.json", str(needed["llm_config"])):
        if (path / name).is_file():
            bits = _read_json(path / name).get("quant_bit")
            if isinstance(bits, int) and not isinstance(bits, bool):
                return bits
    return None
