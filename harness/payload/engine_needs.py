"""Which MNN a model needs at least, by what is in its files, and whether an engine's version is that or newer.

An engine that is older than the converter that wrote a graph may well run it. It cannot run what it does not know: an
operator, an input, the kind of a tokenizer. Each fact has two versions, found in MNN's history: the first release with
the commit that brought it, and what MNN's sources called themselves at that commit. An engine below the second surely
lacks it; one between them has it only if it was built from the sources after that commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.reasons import Reason
from harness.payload.mnn_graph import MnnGraph
from harness.payload.model_check import ModelCheck
from harness.payload.model_problem import Problem

_Version = tuple[int, ...]
#: Kinds of tokenizers (the second number of the file). An engine that does not know one loads no tokenizer.
_TOKENIZERS = {4: ("3.5.0", "3.4.1")}
#: Inputs that an engine gives a graph; one that it does not know stays empty (``is input but not found``, MNN #3342).
_INPUTS = {"logits_index": ("3.1.0", "3.1.0")}
#: Operators (``OpType``) by number. 307 and 308 came after 3.6.1, into sources that still call themselves so.
_OPERATORS = {
    299: ("Attention", "2.9.0", "2.9.0"),
    305: ("LinearAttention", "3.4.1", "3.4.0"),
    306: ("RoPE", "3.6.1", "3.6.0"),
}
#: ``tie_embeddings`` as a table; before, the engine read a list of numbers and nothing else.
_TIED_AS_TABLE = ("3.6.0", "3.5.0")
_NUMBERS = re.compile(r"\s*v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class EngineNeed:
    """Something in a model that not every MNN knows.

    Attributes:
        what: in words.
        since: the first release that knows it.
        unknown_before: engines of a version below this one surely do not.
    """

    what: str
    since: str
    unknown_before: str


def engine_needs(check: ModelCheck) -> tuple[EngineNeed, ...]:
    """Return what a model has that not every MNN knows, the newest first."""
    return tuple(sorted(_needs(check), key=lambda need: version_of(need.since) or (), reverse=True))


def _needs(check: ModelCheck) -> Iterator[EngineNeed]:
    if check.tokenizer is not None and check.tokenizer.kind in _TOKENIZERS:
        kind = check.tokenizer.kind
        yield EngineNeed(f"the tokenizer {check.files['tokenizer_file'].name} (kind {kind})", *_TOKENIZERS[kind])
    if isinstance(check.config.get("tie_embeddings"), dict):
        yield EngineNeed("tie_embeddings as a table in the configuration", *_TIED_AS_TABLE)
    if check.graph is not None:
        yield from graph_needs(check.graph)


def graph_needs(graph: MnnGraph) -> Iterator[EngineNeed]:
    """Yield what a graph has that not every MNN knows."""
    for name in graph.inputs:
        if name in _INPUTS:
            yield EngineNeed(f"the graph's input {name}", *_INPUTS[name])
    for number in sorted(graph.operators & _OPERATORS.keys()):
        name, *versions = _OPERATORS[number]
        yield EngineNeed(f"the graph's operator {name}", *versions)


@dataclass(frozen=True)
class TooOld:
    """Why an engine is too old for a model, or may be.

    Attributes:
        says: in one sentence.
        fix: what to do.
        surely: whether it cannot work.
    """

    says: str
    fix: str
    surely: bool

    @property
    def code(self) -> str:
        """The check's name (:data:`~harness.payload.model_problem.CHECKS`)."""
        return "engine_too_old" if self.surely else "engine_older_than_model"


def too_old(engine_version: str | None, model_version: str | None, needs: tuple[EngineNeed, ...]) -> TooOld | None:
    """Return what speaks against an engine running a model, ``None`` where nothing does or its version is unknown.

    Args:
        engine_version: of the engine.
        model_version: of the converter that wrote the model's graph.
        needs: what the model has that not every MNN knows.
    """
    engine, model = version_of(engine_version), version_of(model_version)
    if engine is None:
        return None
    lacking = [need for need in needs if engine < (version_of(need.since) or ())]
    surely = next((need for need in lacking if engine < (version_of(need.unknown_before) or ())), None)
    fix = f"take device binaries of MNN {{}} or newer, or export the model with MNN {engine_version}"
    if surely is not None:
        says = f"MNN {engine_version} does not know {surely.what}, which came with MNN {surely.since}"
        return TooOld(says, fix.format(lacking[0].since), surely=True)
    if lacking:
        says = f"{lacking[0].what} came with MNN {lacking[0].since}, and the engine is {engine_version}"
        return TooOld(says, fix.format(lacking[0].since), surely=False)
    if model is not None and engine < model:
        says = f"the graph was written by MNN {model_version}, and the engine is {engine_version}"
        return TooOld(says, fix.format(model_version), surely=False)
    return None


def check_engine(check: ModelCheck, engine_version: str) -> Iterator[Problem]:
    """Yield what speaks against an engine of this version running a model."""
    found = too_old(engine_version, check.engine_version, engine_needs(check))
    if found is not None:
        said = f"{check.path}: {found.says}"
        yield Problem(found.code, said, found.fix, warning=not found.surely, reason=Reason.BUNDLE_MISMATCH)


def version_of(text: str | None) -> _Version | None:
    """Return the numbers that a version begins with, without zeros at its end; ``None`` where it has none."""
    found = _NUMBERS.match(text or "")
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
