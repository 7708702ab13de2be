"""What was asked for: which phone, model and bundle, and how much each rung may take."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import MANIFEST, Bundle, default_bundle, read_bundle
from harness.payload.bundle_source import errors_of, inspect_source
from harness.payload.bundles_place import find_bundle, imported_bundles
from harness.payload.model_problem import Problem

Say = Callable[[str], None]
GPU_BACKENDS = ("opencl", "vulkan")


@dataclass(frozen=True)
class Sizes:
    """How much each rung asks for. Times in seconds.

    Attributes:
        prompt_tokens, generate_tokens: of the rungs that look at the text.
        long_prompt: tokens of the long prompt, less where the model's context is shorter.
        sustain_s: how long the last rung generates.
        patience_s: the least time after which a run counts as hanging; larger models get more.
        workaround_s: how long settings that work are looked for.
        wait_lease_s: how long to wait for somebody who has the phone.
    """

    prompt_tokens: int = 32
    generate_tokens: int = 16
    long_prompt: int = 512
    sustain_s: float = 20.0
    patience_s: float = 20.0
    workaround_s: float = 75.0
    wait_lease_s: float = 0.0


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        device: the word for the phone, as given.
        model: the model's folder.
        model_name: the model as given.
        bundles: from which the phone gets the first that runs on it; one, where one was named.
        bundle_word: the bundle as given, ``None`` for the best there is.
        bundle_problems: why what was named cannot be used; then ``bundles`` is empty.
        backends: GPU backends that were asked for by name.
        quick: leave out the long prompt and the last rung.
        workaround: whether settings that work are looked for.
        adb: adb servers as given, ``None`` for the default.
    """

    device: str
    model: Path
    model_name: str
    bundles: tuple[Bundle, ...] = ()
    bundle_word: str | None = None
    bundle_problems: tuple[Problem, ...] = ()
    backends: tuple[str, ...] = ()
    quick: bool = False
    workaround: bool = True
    adb: str | None = None
    sizes: Sizes = field(default_factory=Sizes)


def read_backends(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check the backends that were asked for; the CPU is climbed anyway.

    Raises:
        ConfigError: there is no such backend.
    """
    for name in names:
        if name not in ("cpu", *GPU_BACKENDS):
            raise ConfigError(f"--backend {name}: there is no such backend", remedy=f"one of {', '.join(GPU_BACKENDS)}")
    return tuple(dict.fromkeys(name for name in names if name != "cpu"))


def choose_bundles(word: str | None) -> tuple[tuple[Bundle, ...], tuple[Problem, ...]]:
    """Return the bundles that there are to choose from, or why the one that was named cannot be used.

    Raises:
        ConfigError: there is nothing of that name, or it has to be imported first.
    """
    if word is None:
        return (default_bundle(), *imported_bundles()), ()
    folder = find_bundle(word)
    if not (folder / MANIFEST).is_file():
        return (), _why_no_bundle(folder)
    try:
        return (read_bundle(folder),), ()
    except ConfigError as error:
        if error.reason not in (Reason.PAYLOAD_CORRUPT, Reason.BUNDLE_MISMATCH):
            raise
        return (), (Problem("bundle_unusable", error.message, error.remedy, reason=error.reason),)


def _why_no_bundle(path: Path) -> tuple[Problem, ...]:
    """Return what is wrong with a build that was not imported; if nothing is, it can be."""
    if not path.exists():
        raise ConfigError(f"--bundle {path}: there is no such folder", remedy="check the path")
    with tempfile.TemporaryDirectory(prefix="mnn-farm-") as scratch:
        errors = errors_of(inspect_source(path, Path(scratch)).problems)
    if not errors:
        raise ConfigError(
            f"--bundle {path} was not imported yet", remedy=f"run: mnn-farm bins import {path}, then give its name"
        )
    return tuple(errors)
