"""Settings in a model's configuration that MNN takes without a word although it does not know them.

Source: ``backend_type_convert`` and ``Llm::initRuntime`` in MNN's ``transformers/llm/engine/src/llm.cpp`` and
``omni.cpp`` (3.6.1). An unknown backend becomes AUTO, that is whatever the build has; an unknown precision, memory or
power becomes the normal one.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.payload.model_problem import Problem

_LEVELS = ("low", "normal", "high")
#: The words that MNN knows for a key, and what it does with any other.
_WORDS = {
    # "auto" is no word of MNN's, but whoever writes it means just what MNN makes of it.
    "backend_type": (
        ("cpu", "opencl", "vulkan", "metal", "cuda", "opengl", "hexagon", "npu", "auto"),
        "it would choose a backend by itself",
    ),
    "precision": (_LEVELS, "it would take normal"),
    "memory": (_LEVELS, "it would take normal"),
    "power": (_LEVELS, "it would take normal"),
}
#: Settings of the encoders for pictures and sound stand in a table of their own.
_NESTED = "mllm"


def check_settings(config: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """Yield the settings of a configuration, read from the file ``where``, that MNN does not know."""
    yield from _check(config, where, "")
    nested = config.get(_NESTED)
    if isinstance(nested, dict):
        yield from _check(nested, where, f"{_NESTED}.")


def _check(config: Mapping[str, Any], where: str, prefix: str) -> Iterator[Problem]:
    for key, (words, otherwise) in _WORDS.items():
        if key in config and config[key] not in words:
            said = json.dumps(config[key])
            yield Problem(
                "setting_unknown",
                f"{where}: {prefix}{key} is {said}, which MNN does not know; {otherwise} and not say so",
                _advice(config[key], words),
            )
    if "thread_num" in config:
        threads = config["thread_num"]
        if type(threads) is not int or threads < 1:
            yield Problem(
                "setting_unknown",
                f"{where}: {prefix}thread_num is {json.dumps(threads)}",
                "write a whole number of at least 1",
            )


def _advice(value: Any, words: tuple[str, ...]) -> str:
    said = value.strip().lower() if isinstance(value, str) else ""
    # Of three letters one wrong makes another word (a gpu is no npu), two in the wrong order do not.
    near = [word for word in words if sorted(word) == sorted(said)] or difflib.get_close_matches(said, words, 1, 0.7)
    return f'write "{near[0]}"' if near else f"write one of: {', '.join(words)}"
