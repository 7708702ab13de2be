"""MNN model folders: found by name or path, and refused here rather than half pushed when something is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import ConfigError, ModelIncompleteError
from harness.core.reasons import Reason
from harness.payload.engine_needs import EngineNeed, check_engine, engine_needs, too_old
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.model_check import ModelCheck, check_model
from harness.payload.model_memory import WAYS_OUT, Use, cannot_fit, needs_64_bit, needs_of
from harness.payload.model_pins import check_pin, pin_file, read_pin
from harness.payload.model_problem import Problem
from harness.payload.model_quant import Quantization, read_quantization
from harness.payload.model_shape import ModelShape, shape_of
from harness.payload.models_fetch import KNOWN, SHIPPED, known_models, model_path
from harness.payload.models_place import kept_models, place_of

if TYPE_CHECKING:  # numpy comes with it, and no verb about language models should wait for it
    from harness.payload.tensor_model import TensorCheck, TensorModel

_LOG = logging.getLogger(__name__)
# Files of which a folder of a language model has one at least, also where others are missing.
_OF_LANGUAGE_MODELS = ("config.json", "llm_config.json", "llm.mnn", "tokenizer.txt", "tokenizer.mtok")


@dataclass(frozen=True)
class ModelFolder:
    """A model that can be pushed.

    Attributes:
        name: of the folder.
        folder: its files with their hashes.
        weight_bytes: in all files that hold weights.
        quant_bits: bits that most weights have; ``None`` when nothing tells.
        pinned: whether the files were compared with a pin, and are as it says.
        read_per_token_bytes: bytes of the language model's weight file that each decoded token reads, as the file
            stores them: every piece that the graph names, once, so a tied last layer counts and an embedding that is
            only looked up does not. A backend may hold the scales in half the bytes. ``None`` where it depends.
        read_per_token_why: why that is ``None``, else empty.
        engine_version: of MNN's converter that wrote the graph, where it says.
        warnings: what is suspicious about it, for people.
        shape: what decides how much memory it takes, ``None`` where nobody looked.
        engine_needs: what it has that not every MNN knows.
        tensor: what else there is of a model that is no language model, ``None`` of one that is.
    """

    name: str
    folder: PayloadFolder
    weight_bytes: int
    quant_bits: int | None
    pinned: bool = False
    read_per_token_bytes: int | None = None
    read_per_token_why: str = "nobody looked"
    engine_version: str | None = None
    warnings: tuple[str, ...] = ()
    shape: ModelShape | None = None
    engine_needs: tuple[EngineNeed, ...] = ()
    tensor: TensorModel | None = None


@dataclass(frozen=True)
class ModelReport:
    """All that is wrong with a model folder at once, and what is known of it."""

    problems: tuple[Problem, ...]
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the model can be used."""
        return all(problem.warning for problem in self.problems)


def here_models() -> list[str]:
    """Return the names of the models on this computer or to be fetched, sorted."""
    return sorted({*known_models(), *kept_models()})


def find_model(name_or_dir: str) -> Path:
    """Return the folder of a model given by name or by path.

    Raises:
        ConfigError: there is none; the message says how to get it.
    """
    if name_or_dir.startswith("hf:"):
        raise ConfigError(
            f"{name_or_dir} is where a model can be fetched from, not one that is here",
            remedy=f"run: mnn-farm models fetch {name_or_dir}, then give its name",
        )
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
            remedy=f"name a folder with config.json in it, or one of: {', '.join(here_models())}",
        )
    path = Path(name_or_dir).expanduser()
    return path.parent if path.name == "config.json" else path


def read_model(path: Path) -> ModelFolder:
    """Check and hash a model folder, and compare it with its pin if it has one.

    Each file of weights is read once. What is only suspicious goes to the log and into ``warnings``.

    Raises:
        ModelIncompleteError: a file that the engine needs is missing, not whole or does not belong.
        ConfigError: the folder cannot be read, or a file is not as it was pinned (reason ``payload_corrupt``).
    """
    check = _checked(path)
    content = read_folder(check.path)
    pin = read_pin(check.path)
    if pin is not None:
        _refuse(check.path, list(check_pin(pin, content, _get_again(check.path))))
    model = _model_of(check, content, pinned=pin is not None)
    for warning in model.warnings:
        _LOG.warning("%s", warning)
    return model


def read_tensor_model(path: Path) -> ModelFolder:
    """Check and hash a folder of ``mnn-farm models convert``, of which a phone gets the model alone.

    All of it is compared with its pin, if it has one.

    Raises:
        ModelIncompleteError: the model is cut off, or not the one that its record tells of, or a sample does not fit.
        ConfigError: it is no folder, holds a language model, cannot be read, or is not as it was pinned.
    """
    from harness.payload.tensor_model import check_tensor_folder

    folder = _folder(path)
    if not is_tensor_folder(folder) and (folder / "config.json").exists():
        raise ConfigError(
            f"{folder} holds a language model, and the plan is of kind tensor",
            remedy="take a plan of kind burst or sustained, or a folder that mnn-farm models convert wrote",
        )
    check = check_tensor_folder(folder)
    _refuse(check.path, [problem for problem in check.problems if not problem.warning])
    pin = read_pin(check.path)
    if pin is not None:
        _refuse(check.path, list(check_pin(pin, read_folder(check.path), _get_again(check.path))))
    model = _tensor_model_of(check, pinned=pin is not None)
    for warning in model.warnings:
        _LOG.warning("%s", warning)
    return model


def read_any_model(path: Path) -> ModelFolder:
    """Check and hash a model folder of either kind.

    Raises:
        ModelIncompleteError, ConfigError: as :func:`read_model` and :func:`read_tensor_model`.
    """
    return read_tensor_model(path) if is_tensor_folder(_folder(path)) else read_model(path)


def is_tensor_folder(path: Path) -> bool:
    """Whether a folder holds an ordinary model: a ``.mnn``, and nothing that a language model has."""
    return any(path.glob("*.mnn")) and not any((path / name).exists() for name in _OF_LANGUAGE_MODELS)


def _tensor_model_of(check: TensorCheck, *, pinned: bool) -> ModelFolder:
    from harness.payload.tensor_model import BITS

    if check.model is None or check.content is None:
        raise AssertionError("a folder that nothing is wrong with has its model")
    return ModelFolder(
        name=check.path.name,
        folder=check.content,
        weight_bytes=check.content.size,
        quant_bits=BITS[check.model.weights],
        pinned=pinned,
        read_per_token_why="it has no tokens",  # noqa: S106  no password
        engine_version=check.model.graph_version,
        warnings=tuple(f"{problem.detail}: {problem.fix}" for problem in check.problems),
        engine_needs=check.model.needs,
        tensor=check.model,
    )


def read_unpinned(path: Path) -> ModelFolder:
    """Check and hash all of a model folder of either kind, whatever its pin says: to pin it as it is now.

    Raises:
        ModelIncompleteError, ConfigError: as :func:`read_model`.
    """
    folder = _folder(path)
    if is_tensor_folder(folder):
        from harness.payload.tensor_model import check_tensor_folder

        found = check_tensor_folder(folder)
        _refuse(folder, [problem for problem in found.problems if not problem.warning])
        return replace(_tensor_model_of(found, pinned=False), folder=read_folder(folder))
    check = _checked(folder)
    return _model_of(check, read_folder(check.path), pinned=False)


def verify_model(
    path: Path, *, tokens: int | None = None, memory_bytes: int | None = None, engine_version: str | None = None
) -> ModelReport:
    """Return all that is wrong with a model folder, not only the first, and its facts as far as they are known.

    Args:
        path: the folder.
        tokens: of prompt, answer and history together, for which its memory is estimated.
        memory_bytes: of the phone that it must fit into; ``None``: it is only estimated.
        engine_version: of the engine that must run it; ``None``: any.

    Raises:
        ConfigError: it is no folder.
    """
    if is_tensor_folder(_folder(path)):
        return _verify_tensor_model(path, memory_bytes=memory_bytes, engine_version=engine_version)
    check = check_model(_folder(path))
    problems = list(check.problems)
    facts: dict[str, Any] = {"name": check.path.name}
    content, pin = None, None
    try:
        content = read_folder(check.path, trust=False)
        facts |= {"hash": content.hash, "files": len(content.files)}
    except ConfigError as error:
        problems.append(Problem("file_unreadable", error.message, error.remedy))
    try:
        pin = read_pin(check.path)
        facts |= {"pinned": pin is not None, "pin": str(pin_file(check.path)) if pin is not None else None}
    except ConfigError as error:
        problems.append(Problem("pin_unreadable", error.message, error.remedy, reason=error.reason))
    if pin is not None and content is not None:
        problems += check_pin(pin, content, _get_again(check.path))
    if content is not None and not check.errors:
        model = _model_of(check, content, pinned=pin is not None)
        facts |= {
            "weight_bytes": model.weight_bytes,
            "quant_bits": model.quant_bits,
            "quant_block": _quantization(check).block,
            "read_per_token_bytes": model.read_per_token_bytes,
            "vocabulary": check.rows,
            "tokenizer_tokens": check.tokenizer.tokens if check.tokenizer is not None else None,
            "engine_version": model.engine_version,
            "engine_needed": model.engine_needs[0].since if model.engine_needs else None,
        }
        problems += _check_memory(check, facts, tokens, memory_bytes)
    if engine_version is not None:
        problems += check_engine(check, engine_version)
    return ModelReport(tuple(problems), facts)


def _verify_tensor_model(path: Path, *, memory_bytes: int | None, engine_version: str | None) -> ModelReport:
    from harness.payload.tensor_model import check_tensor_folder, facts_of

    check = check_tensor_folder(_folder(path))
    problems = list(check.problems)
    facts: dict[str, Any] = {"name": check.path.name}
    if check.model is None or check.content is None:
        return ModelReport(tuple(problems), facts)
    facts |= {"hash": check.content.hash, "weight_bytes": check.content.size, **facts_of(check.model)}
    problems += _of_pin(check.path, facts)
    found = too_old(engine_version, check.model.graph_version, check.model.needs)
    if found is not None:
        says = f"{check.path}: {found.says}"
        problems.append(Problem(found.code, says, found.fix, not found.surely, Reason.BUNDLE_MISMATCH))
    if memory_bytes is not None and check.content.size > memory_bytes:
        says = f"{check.path}: {check.content.size} bytes of weights, and {memory_bytes} of memory"
        problems.append(Problem("does_not_fit", says, "take a smaller model", reason=Reason.MODEL_TOO_BIG))
    return ModelReport(tuple(problems), facts)


def _of_pin(path: Path, facts: dict[str, Any]) -> Iterator[Problem]:
    """Compare a folder with its pin, every byte of it."""
    try:
        pin = read_pin(path)
        facts |= {"pinned": pin is not None, "pin": str(pin_file(path)) if pin is not None else None}
        if pin is not None:
            yield from check_pin(pin, read_folder(path, trust=False), _get_again(path))
    except ConfigError as error:
        yield Problem("pin_unreadable", error.message, error.remedy, reason=error.reason)


def _check_memory(
    check: ModelCheck, facts: dict[str, Any], tokens: int | None, memory_bytes: int | None
) -> Iterator[Problem]:
    """Estimate the memory that a model takes as its configuration has it, and hold it against a phone's."""
    shape = shape_of(check)
    if shape is None:
        return
    use = Use.of_config(check.config, tokens)
    needs = needs_of(shape, use)
    facts |= {
        "needs_bytes": [needs.total.low, needs.total.high],
        "needs_for_tokens": use.tokens,
        "needs_64_bit": needs_64_bit(shape, use),
    }
    too_big = cannot_fit(needs, memory_bytes) if memory_bytes is not None else None
    if too_big is not None:
        yield Problem("does_not_fit", f"{check.path}: {too_big}", WAYS_OUT, reason=Reason.MODEL_TOO_BIG)


def _folder(path: Path) -> Path:
    path = path.resolve()
    if not path.is_dir():
        raise ConfigError(f"model {path} is not a folder", remedy="name a folder with config.json in it")
    return path


def _checked(path: Path) -> ModelCheck:
    folder = _folder(path)
    if is_tensor_folder(folder):
        raise ConfigError(
            f"{folder} holds a model that is no language model",
            remedy="measure it with a plan of kind tensor, e.g. --plan tensor-quick",
        )
    check = check_model(folder)
    _refuse(check.path, check.errors)
    return check


def _refuse(path: Path, problems: Sequence[Problem]) -> None:
    """Raise the first problem, if there is one, and say how many more there are."""
    if not problems:
        return
    first = problems[0]
    more = f" ({len(problems) - 1} more: mnn-farm models verify {path})" if len(problems) > 1 else ""
    error = ModelIncompleteError if first.reason is Reason.MODEL_INCOMPLETE else ConfigError
    raise error(first.detail + more, remedy=first.fix, reason=first.reason)


def _get_again(folder: Path) -> str:
    name = folder.name
    if folder == place_of(name).resolve():
        if name in KNOWN:
            return f"run: mnn-farm models fetch {name} --again"
        pin = read_pin(folder)
        if pin is not None and pin.source.startswith("hf:"):
            return f"run: mnn-farm models fetch {pin.source} --name {name} --again"
        return f"run: mnn-farm models import {pin.source if pin else 'DIR'} --name {name} --replace"
    if name in SHIPPED and folder == model_path(name):
        return "install mnn-farm again"
    return "restore the file"


def _model_of(check: ModelCheck, content: PayloadFolder, *, pinned: bool) -> ModelFolder:
    weights = sum(file.size for file in content.files if file.path.endswith(".weight"))
    read_bytes, why = _read_per_token(check)
    return ModelFolder(
        name=check.path.name,
        folder=content,
        weight_bytes=weights or check.files["llm_weight"].stat().st_size,
        quant_bits=_quantization(check).bits,
        pinned=pinned,
        read_per_token_bytes=read_bytes,
        read_per_token_why=why,
        engine_version=check.engine_version,
        warnings=tuple(f"{problem.detail}: {problem.fix}" for problem in check.problems if problem.warning),
        shape=shape_of(check),
        engine_needs=engine_needs(check),
    )


def _read_per_token(check: ModelCheck) -> tuple[int | None, str]:
    """Return which bytes of the weight file a token reads, or why nobody can say."""
    experts = [key for key, value in check.config.items() if "expert" in key and value]
    if (check.graph is not None and check.graph.experts) or experts:
        return None, "a mixture of experts reads for each token those that it chooses"
    if check.graph is None or not check.graph.weight_bytes:
        return None, "the graph does not say which part of the weight file it reads"
    return check.graph.weight_bytes, ""


def _quantization(check: ModelCheck) -> Quantization:
    """Return bits and block as llmexport notes them, else as most layers have them."""
    read = Quantization()
    if check.graph is not None and "llm_weight" in check.files:
        read = read_quantization(check.graph, check.files["llm_weight"])
    return Quantization(_noted(check, "quant_bit", read.bits), _noted(check, "quant_block", read.block))


def _noted(check: ModelCheck, key: str, otherwise: int | None) -> int | None:
    for config in (check.export_args, check.config):
        value = config.get(key)
        if type(value) is int:
            return value
    return otherwise
