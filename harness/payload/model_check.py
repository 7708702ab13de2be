"""Looks at a model folder as a whole: every file that the engine will read, and whether they belong together.

MNN itself takes half a weight file or another model's tokenizer and shows a speed for it. All findings come at once, in
the order in which the engine would meet them; no file is hashed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.payload.mnn_graph import Layer, MnnGraph, read_graph
from harness.payload.mnn_tokenizer import MnnTokenizer, read_tokenizer
from harness.payload.model_fit import check_embedding, check_ids, check_tokenizer, embedding_of
from harness.payload.model_problem import Problem
from harness.payload.model_settings import check_settings

CONFIG = "config.json"
_LFS_POINTER = b"version https://git-lfs"
#: What ``LlmConfig`` (MNN's ``transformers/llm/engine/src/llmconfig.hpp``) takes where a key is missing.
_DEFAULTS = {
    "llm_config": "llm_config.json",
    "llm_model": "llm.mnn",
    "llm_weight": "llm.mnn.weight",
    "tokenizer_file": "tokenizer.txt",
    "embedding_file": "embeddings_bf16.bin",
    "visual_model": "visual.mnn",
    "audio_model": "audio.mnn",
}
#: ``FileLoader::merge`` counts a graph's bytes in 32 bits, and a flatbuffer's offsets go no further. The weight file
#: has no such limit in a 64-bit program: the graph's places in it have 64 bits, and so has what MNN seeks with.
LARGEST_GRAPH_BYTES = 2**31 - 1
_NEW_TOKENIZER = "tokenizer.mtok"
#: Encoders that a model has when its configuration says so, each with a weight file of its own.
_ENCODERS = {"is_visual": "visual_model", "is_audio": "audio_model"}


@dataclass
class ModelCheck:
    """What was found in a model folder.

    Attributes:
        path: the folder.
        problems: all that is wrong or suspicious.
        config: ``config.json`` with what ``llm_config`` names laid over it, as the engine does.
        export_args: what llmexport noted of how it was called, empty where it did not.
        files: the files that the engine reads, by the key that names them, as far as they are there.
        graph: what the language model's graph says, ``None`` where it cannot be read.
        tokenizer: the same for the tokenizer.
        rows: how many tokens the model has, ``None`` where nothing tells it.
    """

    path: Path
    problems: list[Problem] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    export_args: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    graph: MnnGraph | None = None
    tokenizer: MnnTokenizer | None = None
    rows: int | None = None

    @property
    def engine_version(self) -> str | None:
        """Version of MNN's converter that wrote the graph, where it says."""
        return self.graph.version if self.graph is not None else None

    @property
    def errors(self) -> list[Problem]:
        """The problems for which the model is refused."""
        return [problem for problem in self.problems if not problem.warning]


def check_model(path: Path) -> ModelCheck:
    """Check a model folder; what is wrong is in the answer, never raised."""
    check = ModelCheck(path.resolve())
    config = _config(check)
    if config is None:
        return check
    check.config = config
    check.export_args = _export_args(check.path)
    check.problems += check_settings(config, str(check.path / CONFIG))
    _find(check, "llm_config")
    if "llm_config" in check.files:
        file = check.files["llm_config"]
        model_config = _read_json(check, file)
        if model_config is not None:
            check.problems += check_settings(model_config, str(file))
            check.config = _merged(config, model_config)
    if "base_dir" in check.config:
        said = f"{check.path}: base_dir in the configuration sends the engine to another folder"
        check.problems.append(Problem("file_outside", said, "remove it"))
    for key in ("llm_model", "llm_weight", "tokenizer_file"):
        _find(check, key)
    check.graph = _graph(check, "llm_model", "llm_weight")
    logits = check.graph.logits if check.graph is not None else None
    check.rows = max((n for n in (logits, _embedding_rows(check, logits)) if n is not None), default=None)
    _check_weight_end(check)
    _check_vocabulary(check)
    for flag, key in _ENCODERS.items():
        if check.config.get(flag) is True:
            _check_encoder(check, key)
    if "ple_embed_file" in check.config:
        _find(check, "ple_embed_file")
    return check


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        both[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


def _config(check: ModelCheck) -> dict[str, Any] | None:
    """Read the file that names all others."""
    file = check.path / CONFIG
    if not file.is_file() and not file.is_symlink():
        said = f"{check.path} has no {CONFIG}"
        check.problems.append(Problem("file_missing", said, "name the folder that llmexport wrote"))
        return None
    problem = _checked_file(check, "configuration", CONFIG)
    if problem is not None:
        check.problems.append(problem)
        return None
    return _read_json(check, file)


def _read_json(check: ModelCheck, file: Path) -> dict[str, Any] | None:
    try:
        value = _object(file)
    except (OSError, ValueError, RecursionError) as error:
        said = f"{file} cannot be read as JSON ({error})"
        check.problems.append(Problem("config_unreadable", said, "export the model again"))
        return None
    if value is None:
        check.problems.append(Problem("config_unreadable", f"{file} holds no JSON object", "export the model again"))
    return value


def _object(file: Path) -> dict[str, Any] | None:
    value = json.loads(file.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else None


def _export_args(folder: Path) -> dict[str, Any]:
    """Read a note that nothing depends on: one that cannot be read is none."""
    try:
        return _object(folder / "export_args.json") or {}
    except (OSError, ValueError, RecursionError):
        return {}


def _find(check: ModelCheck, key: str) -> None:
    """Find the file that ``key`` names, or note why it cannot be used."""
    name = check.config.get(key, _DEFAULTS.get(key))
    problem = _checked_file(check, key, name)
    if problem is None:
        check.files[key] = check.path / str(name)
    else:
        check.problems.append(problem)


def _checked_file(check: ModelCheck, key: str, name: object) -> Problem | None:
    """Return why the file of this name cannot be used, ``None`` if it can."""
    try:
        return _file_problem(check, key, name)
    except (OSError, RuntimeError) as error:  # too long for a name, or links that lead in a circle
        return Problem("file_unreadable", f"{check.path}/{name} ({key}) cannot be read ({error})")


def _file_problem(check: ModelCheck, key: str, name: object) -> Problem | None:
    if not isinstance(name, str) or not name or not name.isprintable():
        return Problem("file_unnamed", f"{check.path}/{CONFIG}: {key} is {name!r}", "it must name a file")
    file = check.path / name
    if not file.resolve().is_relative_to(check.path):
        return Problem("file_outside", f"{file} leads out of the model folder", "copy the file into it")
    if not file.is_file():
        if key == "tokenizer_file" and key not in check.config and (check.path / _NEW_TOKENIZER).is_file():
            said = f"{check.path}/{CONFIG} names no {key}: the engine looks for {name}, not {_NEW_TOKENIZER}"
            return Problem("file_unnamed", said, f'write "{key}": "{_NEW_TOKENIZER}" into it')
        return Problem("file_missing", f"{check.path} lacks {name} ({key})")
    try:
        with file.open("rb") as opened:
            start = opened.read(len(_LFS_POINTER))
    except OSError as error:
        return Problem("file_unreadable", f"{file} ({key}) cannot be read ({error.strerror})", "check its permissions")
    if not start:
        return Problem("file_empty", f"{file} is empty")
    if start == _LFS_POINTER:
        return Problem("lfs_pointer", f"{file} ({key}) is a Git LFS pointer, not the file", "run: git lfs pull")
    return None


def _graph(check: ModelCheck, key: str, weight_key: str) -> MnnGraph | None:
    """Read a graph and hold its weight file against it."""
    if key not in check.files:
        return None
    file = check.files[key]
    size = file.stat().st_size
    if size > LARGEST_GRAPH_BYTES:
        said = f"{file} ({key}) has {size} bytes, and MNN reads graphs of up to {LARGEST_GRAPH_BYTES}"
        check.problems.append(
            Problem("graph_too_big", said, "export the model with its weights in a file of their own")
        )
        return None
    try:
        graph = read_graph(file.read_bytes())
    except ValueError as error:
        check.problems.append(Problem("graph_unreadable", f"{file} ({key}) is no whole MNN graph: {error}"))
        return None
    if weight_key in check.files:
        check.problems += _weights(check.files[weight_key], weight_key, graph)
    return graph


def _weights(file: Path, key: str, graph: MnnGraph) -> Iterator[Problem]:
    size = file.stat().st_size
    if size < graph.weight_end:
        said = f"{file} ({key}) is cut off: it has {size} bytes and the graph reads {graph.weight_end}"
        yield Problem("weights_short", said)
        return
    with file.open("rb") as opened:
        for layer in graph.layers:
            opened.seek(layer.offset)
            if not layer.begins(opened.read(Layer.HEAD_BYTES)):
                said = f"{file} ({key}) does not have the layer {layer.name} of the graph at byte {layer.offset}"
                yield Problem("weights_other", f"{said}: it is another model's, or was never written")
                return


def _embedding_rows(check: ModelCheck, logits: int | None) -> int | None:
    embedding = embedding_of(check.config)
    if embedding is None:
        said = f"{check.path}: hidden_size or tie_embeddings in the configuration are no numbers that fit"
        check.problems.append(Problem("config_unreadable", said, "export the model again"))
        return None
    if embedding.key not in check.files and embedding.key == "embedding_file":
        _find(check, embedding.key)
    if embedding.key not in check.files:
        return embedding.rows
    file = check.files[embedding.key]
    rows, problems = check_embedding(embedding, str(file), file.stat().st_size, logits)
    if not any(problem.check == "weights_short" for problem in check.problems):
        check.problems += problems
    return rows


def _check_weight_end(check: ModelCheck) -> None:
    """Note a weight file that goes on behind all that is read from it."""
    embedding = embedding_of(check.config)
    if check.graph is None or not check.graph.weight_end or embedding is None or "llm_weight" not in check.files:
        return
    file = check.files["llm_weight"]
    end = max(check.graph.weight_end, embedding.end if embedding.key == "llm_weight" else 0)
    size = file.stat().st_size
    if size > end:
        said = f"{file} (llm_weight) has {size} bytes and the model reads {end}: it may be another model's"
        check.problems.append(Problem("weights_long", said, warning=True))


def _check_vocabulary(check: ModelCheck) -> None:
    if "tokenizer_file" in check.files:
        file = check.files["tokenizer_file"]
        try:
            check.tokenizer = read_tokenizer(file.read_bytes())
        except ValueError as error:
            said = f"{file} (tokenizer_file) is no whole MNN tokenizer: {error}"
            check.problems.append(Problem("tokenizer_unreadable", said))
    if check.rows is None:
        return
    if check.tokenizer is not None:
        file = check.files["tokenizer_file"]
        check.problems += check_tokenizer(check.tokenizer, str(file), check.rows, check.config)
    check.problems += check_ids(check.config, f"{check.path}: the configuration", check.rows)


def _check_encoder(check: ModelCheck, key: str) -> None:
    _find(check, key)
    if key in check.files:
        weight_key = f"{key} weights"
        name = check.files[key].relative_to(check.path).as_posix() + ".weight"
        if (check.path / name).is_file():
            check.files[weight_key] = check.path / name
        graph = _graph(check, key, weight_key)
        if graph is not None and graph.weight_end and weight_key not in check.files:
            check.problems.append(Problem("file_missing", f"{check.path} lacks {name} ({weight_key})"))
